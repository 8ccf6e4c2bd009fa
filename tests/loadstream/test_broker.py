"""`loadstream broker` reports invalid ports and starts with the configured topics."""

import pytest
from typer.testing import CliRunner

from connectors.brokers import foreground
from connectors.kafka.client import connect
from connectors.kafka.extents import count_partitions
from connectors.kafka.topics import EMBEDDED_PARTITIONS, expected_names
from loadstream.commands import app
from tests.conftest import RunningBroker


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "65536"], "less than or equal to 65535"),
        (["--port", "0"], "greater than or equal to 1"),
        (
            ["--port", "65534", "--brokers", "3"],
            "found 65534; expected at most 65533 for the first of 3 brokers, because the others "
            "use the ports after it",
        ),
    ],
)
def test_invalid_ports_are_refused_before_the_start(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["broker", "--kafka", *arguments], env={"COLUMNS": "1000"})
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_port_used_by_another_broker_is_refused(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreground, "_serve", lambda *_: None)
    port = embedded.bootstrap_servers.split(",")[0].rpartition(":")[2]
    result = CliRunner().invoke(app, ["broker", "--kafka", "--port", port])
    assert (result.exit_code, result.stderr) == (
        1,
        f"error: cannot listen on port {port} of 127.0.0.1: Address already in use; expected "
        "a free port\n",
    )


@pytest.mark.broker
def test_topics_of_the_embedded_broker_have_the_configured_partitions(
    embedded: RunningBroker,
) -> None:
    connection = connect(embedded.settings)
    assert {count_partitions(connection, name) for name in expected_names()} == {
        EMBEDDED_PARTITIONS
    }
