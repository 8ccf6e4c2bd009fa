"""A small cluster whose decisions are replayed, and the command that does it."""

from typer.testing import CliRunner, Result

from loadstream.commands import app
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.streams.builders import CLUSTER

#: Partition of cluster c, of 4.
HOME = partition_for(CLUSTER.encode(), 4)


def replay(broker: RunningBroker, *arguments: str) -> Result:
    """Run `loadstream replay verify`."""
    environment = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    return CliRunner().invoke(app, ["replay", "verify", *arguments], env=environment)
