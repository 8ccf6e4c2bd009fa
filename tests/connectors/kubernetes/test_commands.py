"""What `loadstream kubernetes` refuses before it begins."""

import pytest
from typer.testing import CliRunner

from connectors.cli import app
from tests.conftest import RunningBroker

_WATCH = ["kubernetes", "watch", "--cluster", "blue", "--kubeconfig", "/nonexistent/kubeconfig"]


@pytest.mark.broker
def test_another_number_of_partitions_than_the_topics_have_ends_it(
    embedded: RunningBroker,
) -> None:
    """It would wait for, or work on, a partition that is not its cluster's."""
    address = {
        "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": embedded.bootstrap_servers,
        "LOADSTREAM_KAFKA_PARTITIONS": "7",
    }
    result = CliRunner().invoke(app, _WATCH, env=address)
    assert result.exit_code == 1
    said = "has 4 partitions; LOADSTREAM_KAFKA_PARTITIONS says 7: set it to 4"
    assert said in result.output
