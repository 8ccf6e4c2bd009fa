"""A small cluster whose decisions are replayed, and the command that does it."""

from typer.testing import CliRunner, Result

from connectors.cli import app
from schemas.nodes import NodeState
from schemas.partitions import partition_for
from schemas.pods import Container, Pod
from schemas.requests import SchedulingRequest
from tests.conftest import RunningBroker

NOW_MS = 1_790_000_000_000
#: Partition of cluster c, of 4.
HOME = partition_for(b"c", 4)


def nodes(cpu: int = 16) -> list[NodeState]:
    """Four nodes of cluster c, with 4 GiB a core."""
    allocatable = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"}
    return [
        NodeState(cluster="c", node=f"n{number}", event="added", allocatable=allocatable)
        for number in range(4)
    ]


def request(number: int) -> SchedulingRequest:
    """A pod of half a core asks for a node."""
    pod = Pod(
        namespace="default",
        name=f"p{number}",
        uid=f"u{number}",
        containers=(Container(requests={"cpu": "500m", "memory": "1Gi"}),),
    )
    return SchedulingRequest(cluster="c", requested_at_ms=NOW_MS, pod=pod)


def replay(broker: RunningBroker, *arguments: str) -> Result:
    """Run `loadstream replay`."""
    environment = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    return CliRunner().invoke(app, ["replay", *arguments], env=environment)
