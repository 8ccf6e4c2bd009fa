"""Output and exit codes of `loadstream topic` and `loadstream broker`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from connectors.brokers.distribution import fetch_jars
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_names
from connectors.process import wall_clock
from connectors.process.local_ports import find_free_port
from loadstream.cli.command import NOTHING_FOUND
from loadstream.commands import app
from loadstream.topic.consumer_reading import read_as_consumer
from schemas.base.refusals import Refusal
from schemas.messages.migrations import MigrationRequest
from schemas.messages.policies import PolicyRecord
from schemas.messages.usage import NodeUsage
from schemas.settings.announcement import find_announced
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker, clear, skipped_where_unavailable
from tests.connectors.kafka.messages import NOW_MS, decision, journal_batch, usage

TOPICS = len(expected_names())


def _run(*arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error."""
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def _settings_of_the_broker(
    request: pytest.FixtureRequest, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the commands find the broker of the test by the environment."""
    for name in ("broker", "embedded", "clean_kafka"):
        if name in request.fixturenames:
            servers = request.getfixturevalue(name).bootstrap_servers
            monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", servers)


def _lines(*messages: object) -> bytes:
    return b"".join(encode(message) + b"\n" for message in messages)  # type: ignore[arg-type]


def _recent_usage() -> NodeUsage:
    """Return a sample within the retention time of the topic."""
    return usage(sampled_at_ms=wall_clock.now_ms() - 60_000)


def test_produced_records_are_shown_by_tail(broker: RunningBroker, tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    blue = _recent_usage()
    recent_ms = blue.sampled_at_ms
    file.write_bytes(_lines(blue, blue.model_copy(update={"cluster": "green"}), blue))
    code, out, err = _run("topic", "produce", "node-usage", str(file))
    assert (code, err) == (0, "")
    assert out.startswith("records written to node-usage: 3 (")
    code, out, _ = _run("topic", "tail", "node-usage")
    assert code == 0
    assert sorted(line.split(" ", 3)[3] for line in out.splitlines()) == [
        "blue node n1 used cpu 1.5, memory 3Gi; 0 pods",
        "blue node n1 used cpu 1.5, memory 3Gi; 0 pods",
        "green node n1 used cpu 1.5, memory 3Gi; 0 pods",
    ]
    _, out, _ = _run("topic", "tail", "node-usage", "--cluster", "green", "--json")
    [whole] = [json.loads(line) for line in out.splitlines()]
    assert (whole["key"], whole["timestamp_ms"]) == ("green/n1", recent_ms)
    assert len(_run("topic", "tail", "node-usage", "-n", "2")[1].splitlines()) == 2
    for long_ago in ("999999d", "1960-01-01", "1969-12-31T23:59:59.999Z"):
        code, out, err = _run("topic", "tail", "node-usage", "--from", long_ago)
        assert (code, len(out.splitlines()), err) == (0, 3, ""), (long_ago, err)
    later = _run("topic", "tail", "node-usage", "--from", str(recent_ms + 1))
    assert later[:2] == (NOTHING_FOUND, "")


def test_refused_lines_are_reported_on_standard_error_and_by_the_exit_code(
    embedded: RunningBroker,
) -> None:
    lines = b"nonsense\n" + _lines(usage())
    code, out, err = _run("topic", "produce", "node-usage", stdin=lines)
    assert code == 1
    assert err.splitlines()[0].startswith("line 1: the record is not JSON")
    assert "stopped at the refused line" in err
    assert "records written to node-usage: 0" in out
    code, _, err = _run("topic", "produce", "node-usage", "/no/such/file")
    assert (code, "/no/such/file" in err) == (2, True)
    code, out, err = _run("topic", "produce", "node-usage", "-", "--on-error", "skip", stdin=lines)
    assert code == 1
    assert "records written to node-usage: 1" in out
    assert out.endswith("lines refused: 1\n")


def test_an_unknown_field_is_written_with_a_warning(embedded: RunningBroker) -> None:
    line = b'{"kind":"node","cluster":"blue","node":"n%d","event":"added","alocatable":{}}\n'
    code, out, err = _run("topic", "produce", "node-state", stdin=line % 1 + line % 2)
    assert (code, "records written to node-state: 2" in out) == (0, True)
    assert err == (
        "warning: alocatable is not a known field; did you mean allocatable? (2 lines)\n"
    )


def test_a_policy_that_a_worker_refuses_is_refused(embedded: RunningBroker) -> None:
    record = PolicyRecord(cluster="blue", document="mod: enforce", applied_at_ms=NOW_MS)
    code, out, err = _run("topic", "produce", "policies", stdin=_lines(record))
    assert (code, "records written to policies: 0" in out) == (1, True)
    assert 'did you mean "mode"?' in err.splitlines()[0]


@pytest.mark.parametrize(
    ("action", "missing"), [("drain", "node"), ("pause", "migration_id"), ("migrate", "pod")]
)
def test_a_migration_request_without_its_object_is_refused(action: Any, missing: str) -> None:
    request = MigrationRequest(
        request_id="request-1", cluster="blue", action=action, requested_at_ms=NOW_MS
    )
    refusal = read_as_consumer("migration-requests", encode(request))
    assert isinstance(refusal, Refusal)
    assert missing in refusal.reason


def test_tail_shows_the_newest_records_of_all_partitions(embedded: RunningBroker) -> None:
    names = ("blue", "green", "red", "white", "black", "grey")
    lines = [usage(cluster=n, sampled_at_ms=NOW_MS + k) for k, n in enumerate(names * 3)]
    _run("topic", "produce", "node-usage", stdin=_lines(*lines))
    shown = [
        json.loads(line)["timestamp_ms"] - NOW_MS
        for line in _run("topic", "tail", "node-usage", "-n", "4", "--json")[1].splitlines()
    ]
    assert shown == [14, 15, 16, 17]
    of_green = _run("topic", "tail", "node-usage", "-n", "2", "--cluster", "green", "--json")[1]
    assert [json.loads(line)["timestamp_ms"] - NOW_MS for line in of_green.splitlines()] == [7, 13]


def test_tail_shows_whether_a_policy_was_applied(embedded: RunningBroker) -> None:
    record = PolicyRecord(cluster="blue", document="mode: observe", applied_at_ms=NOW_MS)
    _run("topic", "produce", "policies", stdin=_lines(record, record))
    home = partition_for(b"blue", embedded.settings.partitions)
    _run("topic", "produce", "journal", stdin=journal_batch(home, {"policies": 0}) + b"\n")
    first, second = _run("topic", "tail", "policies")[1].splitlines()
    assert first.endswith("blue policy of 1 line; applied")
    assert second.endswith("blue policy of 1 line; not applied yet")
    lines = _run("topic", "tail", "policies", "--json")[1].splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["applied", "not applied yet"]


def test_old_records_are_written_with_a_warning_where_they_would_be_deleted(
    broker: RunningBroker,
) -> None:
    lines = _lines(decision(decided_at_ms=1_500_000_000_000))
    code, out, err = _run("topic", "produce", "placement-decisions", stdin=lines)
    assert (code, "records written to placement-decisions: 1" in out) == (0, True)
    assert ("older than placement-decisions keeps them" in err) == (broker.kind == "kafka")


def test_topics_are_created_checked_and_listed(broker: RunningBroker) -> None:
    if broker.kind == "kafka":
        clear(connect(broker.settings))
        code, out, _ = _run("topic", "check")
        assert code == 1
        assert "node-usage: topic: expected to exist, found none" in out
        assert "missing; run `loadstream topic create`" in _run("topic", "list")[1]
        code, out, _ = _run("topic", "create")
        assert (code, out.splitlines()[0]) == (0, f"created {TOPICS} topics; 0 already existed")
    summary = f"{TOPICS} topics: {TOPICS} {'ok' if broker.kind == 'kafka' else 'exist'}"
    for action in ("create", "check"):
        code, out, err = _run("topic", action)
        assert (code, err) == (0, "")
        assert summary in out.splitlines()
        assert ("The embedded broker does not enforce" in out) == (broker.kind == "embedded")
    _run("topic", "produce", "clock", stdin=b'{"partition": 2, "now_ms": %d}' % NOW_MS)
    code, out, _ = _run("topic", "list")
    assert code == 0
    assert "clock 4 1 1 0..0 0..0 0..1 0..0" in [
        " ".join(line.split()) for line in out.splitlines()
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("topic", "tail", "node-usag"), "did you mean node-usage?"),
        (("topic", "produce", "xyz"), "expected one of node-usage, node-state"),
        (("topic", "produce", "clock", "--on-error", "ignore"), "'stop', 'skip'"),
        (("topic", "tail", "clock", "--cluster", "blue"), "clock"),
        (("topic", "tail", "clock", "--from", "soon"), "or beginning, or end"),
        (("topic", "tail", "clock", "--from", "end"), "without --follow"),
        (("topic", "tail", "clock", "-n", "0"), "--number"),
        (("topic", "tail", "clock", "--pod", "a/b"), "clock"),
        (("topic", "tail", "node-usage", "--pod", "a"), "expected NAMESPACE/NAME"),
        (
            ("topic", "tail", "status", "--kind", "rounds"),
            "allowed are round, migration, drain, move",
        ),
        (("topic", "tail", "clock", "--kind", "round"), "its records have no kind"),
        (("broker", "--port", "9092"), "use --kafka"),
        (("broker", "--directory", "d"), "use --kafka"),
    ],
)
def test_a_wrong_command_line_is_refused_with_the_allowed_values(
    arguments: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    code, out, err = _run(*arguments)
    assert (code, out) == (2, "")
    assert complaint in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "produce", "clock"),
        ("policy", "history", "east"),
    ],
)
def test_commands_without_a_broker_fail_in_time(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = _run(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith("error: no broker found")
    address = f"127.0.0.1:{find_free_port()}"
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", address)
    monkeypatch.setenv("LOADSTREAM_KAFKA_CONNECT_TIMEOUT_S", "0.5")
    code, out, err = _run(*arguments)
    assert (code, out) == (1, "")
    assert f"error: no usable broker at {address}" in err
    assert "`loadstream broker` starts a local one" in err


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def _start(processes: list[subprocess.Popen[str]], *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-m", "loadstream", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    processes.append(process)
    return process


@pytest.mark.broker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_broker_command_serves_clients_until_it_is_stopped(
    number: signal.Signals, processes: list[subprocess.Popen[str]]
) -> None:
    process = _start(processes, "broker", "--brokers", "2")
    assert process.stdout is not None
    servers = process.stdout.readline().strip()
    assert find_announced() == servers
    assert len(servers.split(",")) == 2
    assert _run("topic", "produce", "node-usage", stdin=_lines(usage()))[0] == 0
    assert "node n1 used" in _run("topic", "tail", "node-usage")[1]
    code, _, err = _run("broker")
    assert code == 1
    assert f"a local broker is already running ({servers}" in err
    process.send_signal(number)
    assert process.wait(timeout=60) == 0
    assert find_announced() is None


@pytest.fixture
def cache_with_jars(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test with the jars that all tests share."""
    monkeypatch.delenv("LOADSTREAM_CACHE")
    with skipped_where_unavailable():
        jars = fetch_jars()
    monkeypatch.setenv("LOADSTREAM_CACHE", str(cache))
    cache.mkdir()
    (cache / jars.name).symlink_to(jars)
    return cache


@pytest.mark.kafka
def test_the_broker_command_runs_a_real_kafka_and_ends_when_kafka_dies(
    cache_with_jars: Path, processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    port = find_free_port()
    directory = tmp_path / "data"
    process = _start(
        processes, "broker", "--kafka", "--port", str(port), "--directory", str(directory)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"127.0.0.1:{port}\n"
    assert _run("topic", "produce", "node-usage", stdin=_lines(_recent_usage()))[0] == 0
    assert "node n1 used" in _run("topic", "tail", "node-usage")[1]
    assert f"{TOPICS} topics: {TOPICS} ok" in _run("topic", "check")[1]
    assert (directory / "broker-1" / "data" / "node-usage-0").is_dir()
    [java] = [pid for pid in _children(process.pid) if "kafka.Kafka" in _command(pid)]
    os.kill(java, signal.SIGKILL)
    assert process.wait(timeout=60) == 1
    assert process.stderr is not None
    # Without --directory the log is already deleted, so the message quotes it.
    _, _, error = process.stderr.read().partition("broker 1 ended unexpectedly; ")
    first, *lines = error.splitlines()
    assert first == f"its log {directory / 'broker-1' / 'log'} says:"
    assert any("INFO" in line for line in lines)


def _children(parent: int) -> list[int]:
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has already ended
        if int(fields[1]) == parent:
            children.append(int(status.parent.name))
    return children


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_tail_that_follows_ends_quietly_when_its_output_is_closed(
    embedded: RunningBroker, processes: list[subprocess.Popen[str]]
) -> None:
    _run("topic", "produce", "clock", stdin=b'{"partition": 2, "now_ms": %d}\n' % NOW_MS)
    reader = _start(processes, "topic", "tail", "clock", "--follow", "--from", "beginning")
    assert reader.stdout is not None
    assert "2: 2026-11-18" in reader.stdout.readline()
    reader.stdout.close()
    deadline = time.monotonic() + 60
    while reader.poll() is None and time.monotonic() < deadline:
        _run("topic", "produce", "clock", stdin=b'{"partition": 2, "now_ms": %d}\n' % NOW_MS)
    assert reader.stderr is not None
    assert "Traceback" not in reader.stderr.read()
    assert reader.returncode is not None


def test_tail_that_follows_shows_the_newest_and_all_later_records_until_ctrl_c(
    embedded: RunningBroker, processes: list[subprocess.Popen[str]]
) -> None:
    _run("topic", "produce", "clock", stdin=b'{"partition": 2, "now_ms": %d}\n' % NOW_MS)
    reader = _start(processes, "topic", "tail", "clock", "--follow")
    assert reader.stdout is not None
    assert "2: 2026-11-18" in reader.stdout.readline()
    _run("topic", "produce", "clock", stdin=b'{"partition": 2, "now_ms": %d}\n' % NOW_MS)
    assert "2: 2026-11-18" in reader.stdout.readline()
    reader.send_signal(signal.SIGINT)
    assert reader.wait(timeout=60) == 130
    assert reader.stderr is not None
    assert reader.stderr.read() == ""
    assert os.environ["LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS"] == embedded.bootstrap_servers


def test_ctrl_c_before_a_coroutine_starts_prints_nothing() -> None:
    program = """
from loadstream.cli.command import as_messages
async def read(): pass
with as_messages():
    reading = read()
    raise KeyboardInterrupt
"""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "never awaited" not in done.stderr
