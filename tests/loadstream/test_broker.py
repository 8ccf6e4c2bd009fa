"""`loadstream broker` where its files cannot be written: a sentence, and nothing runs."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.brokers import foreground
from connectors.brokers.embedded import PARTITIONS
from connectors.brokers.server import KafkaServer
from connectors.kafka.client import connect
from connectors.kafka.extents import count_partitions
from connectors.kafka.topics import expected_names
from loadstream.commands import app
from tests.conftest import RunningBroker


@pytest.mark.parametrize("below", ["", "below"])
def test_a_directory_of_records_that_cannot_be_made_is_said(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / below if below else tmp_path / "file"
    result = CliRunner().invoke(app, ["broker", "--kafka", "--directory", str(directory)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: --directory: cannot create {directory}: ")
    assert "expected a directory that can be written" in result.stderr


@pytest.mark.broker
@pytest.mark.parametrize("name", ["file", "folder"])
def test_a_cache_that_takes_no_address_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "broker").mkdir(parents=True)
    monkeypatch.setenv("LOADSTREAM_CACHE", str(tmp_path / name))
    result = CliRunner().invoke(app, ["broker"])
    assert (result.exit_code, result.stdout) == (1, "")
    written = f"the address of a local broker cannot be written to {tmp_path / name / 'broker'}: "
    assert result.stderr.startswith(f"error: {written}")
    assert "set LOADSTREAM_CACHE to a directory that can be written" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "65536"], "found 65536; expected a whole number, 1 to 65535"),
        (["--port", "0"], "found 0; expected a whole number, 1 to 65535"),
        (
            ["--port", "65534", "--brokers", "3"],
            "found 65534; expected at most 65533 for the first of 3 brokers, since the others take "
            "the ports after it",
        ),
    ],
)
def test_ports_that_there_are_not_are_refused_before_anything_starts(
    arguments: list[str], said: str
) -> None:
    result = CliRunner().invoke(app, ["broker", "--kafka", *arguments], env={"COLUMNS": "1000"})
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_port_on_which_another_broker_answers_is_refused_before_topics_are_made_there(
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


def test_partitions_that_the_embedded_broker_has_not_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOADSTREAM_KAFKA_PARTITIONS", "8")
    result = CliRunner().invoke(app, ["broker"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: LOADSTREAM_KAFKA_PARTITIONS=8: topics of the embedded broker always have 4 "
        "partitions; remove the setting, or use --kafka\n"
    )


@pytest.mark.parametrize(("asked", "made"), [("", 3), ("1", 1), ("2", 2)])
def test_topics_of_a_real_kafka_have_as_many_copies_as_the_settings_ask_for(
    asked: str, made: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOADSTREAM_KAFKA_REPLICATION_FACTOR", asked)
    monkeypatch.setattr(KafkaServer, "start", lambda server: server)
    monkeypatch.setattr(KafkaServer, "bootstrap_servers", "a:1")
    monkeypatch.setattr(foreground, "connect", lambda settings: settings)
    monkeypatch.setattr(foreground, "_serve", lambda *_: None)
    copies: set[int | None] = set()
    monkeypatch.setattr(
        foreground,
        "create_topics",
        lambda _, topics: copies.update(topic.replication for topic in topics),
    )
    foreground.run_kafka(3, None, tmp_path)
    assert copies == {made}


@pytest.mark.broker
def test_topics_of_the_embedded_broker_have_as_many_partitions_as_is_said(
    embedded: RunningBroker,
) -> None:
    connection = connect(embedded.settings)
    assert {count_partitions(connection, name) for name in expected_names()} == {PARTITIONS}


def test_it_says_where_other_commands_go_while_an_address_is_set(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    monkeypatch.delenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    foreground._serve("a broker", "a:1", end)
    assert "other commands find it. Ctrl-C" in capsys.readouterr().err
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", "kafka-0:9092")
    foreground._serve("a broker", "a:1", end)
    said = "other commands go to kafka-0:9092 while LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS is set"
    assert said in capsys.readouterr().err
