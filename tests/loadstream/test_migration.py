"""The commands around migrations: what they write, what they look up, and what they show."""

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from connectors.kafka.client import connect
from connectors.kafka.tail import Entry, read_entries
from connectors.process import wall_clock
from connectors.queries import migration_states as states
from loadstream.commands import app
from schemas.base.message import Message
from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.dead_letters import build_dead_letter
from schemas.messages.decisions import AsOf
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod, PodLifecycle, PodRef
from schemas.topics.catalog import TOPIC_BY_NAME, TOPIC_OF, place_record
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker, eventually

NOW_MS = 1_795_000_000_000
AS_OF = AsOf(partition=0, offsets={}, policy_digest="default")
Write = Callable[..., None]


def run(*arguments: str) -> Result:
    """The command's result; an exception that is no exit fails the test."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def running(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> RunningBroker:
    """A broker that the commands find by their settings: the embedded one, and a real Kafka.

    Cluster blue has two nodes, and a worker that has just ticked.
    """
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setattr(wall_clock, "now_ms", lambda: NOW_MS + 60_000)
    send(broker, "node-state", *(
        NodeState(cluster="blue", node=name, event="added") for name in ("worker-1", "worker-9")
    ))  # fmt: skip
    home = partition_for(b"blue", broker.settings.partitions)
    send(broker, "clock", ClockTick(partition=home, now_ms=NOW_MS + 59_000))
    return broker


@pytest.fixture
def write(running: RunningBroker) -> Write:
    """Writes messages of a topic, each where its key belongs."""
    return partial(send, running)


def send(broker: RunningBroker, topic: str, *messages: Message) -> None:
    """Write messages of a topic, each where it belongs."""
    options = {"log_level": 0, "partitioner": "murmur2_random"}
    producer = Producer({**broker.settings.librdkafka_options(), **options})
    for message in messages:
        target = place_record(TOPIC_BY_NAME[topic], message)
        where = {} if target.partition is None else {"partition": target.partition}
        producer.produce(topic, encode(message), key=target.key, **where)
    assert producer.flush(60) == 0


def requests(broker: RunningBroker) -> list[MigrationRequest]:
    """What topic `migration-requests` holds, each in the partition where its worker looks."""
    topic = TOPIC_BY_NAME["migration-requests"]
    found = read_entries(connect(broker.settings), topic, "beginning", follow=False)
    entries = [entry for entry in found if isinstance(entry, Entry)]
    partition = partition_for(b"blue", broker.settings.partitions)
    assert all((entry.partition, entry.key) == (partition, b"blue") for entry in entries)
    assert all(isinstance(entry.message, MigrationRequest) for entry in entries)
    return [entry.message for entry in entries]


def seen(
    uid: str, event: Any = "running", cluster: str = "blue", name: str = "web-1"
) -> PodLifecycle:
    """Something happened to a pod."""
    pod = Pod(namespace="shop", name=name, uid=uid, node="worker-1")
    return PodLifecycle(cluster=cluster, event=event, pod=pod)


def status(number: int, phase: Any = "Running", seconds: int = 0, **fields: Any) -> MigrationStatus:
    """A migration has come so far."""
    return MigrationStatus(
        **{
            "cluster": "blue", "migration_id": f"migration-{number}", "phase": phase,
            "pod": PodRef(namespace="shop", name=f"web-{number}", uid=f"uid-{number}"),
            "source_node": "worker-1", "mode": "EvictDirectly", "trigger": "rebalance",
            "deadline_ms": NOW_MS, "created_at_ms": NOW_MS, "changed_at_ms": NOW_MS,
            "happened_at_ms": NOW_MS + seconds * 1000, "as_of": AS_OF,
        } | fields
    )  # fmt: skip


def drained(phase: Any, seconds: int) -> DrainStatus:
    """How far a drain has come."""
    return DrainStatus(
        cluster="blue", node="worker-9", phase=phase, pods_left=2, pods_protected=0,
        request_id="request-1", happened_at_ms=NOW_MS + seconds * 1000, as_of=AS_OF,
    )  # fmt: skip


def test_a_request_names_the_newest_pod_of_a_name(running: RunningBroker, write: Write) -> None:
    write(
        "pod-lifecycle", seen("first"), seen("first", "deleted"), seen("second", "bound"),
        seen("elsewhere", cluster="other"), seen("neighbour", name="web-2"),
    )  # fmt: skip
    result = run(
        "migration", "start", "blue", "shop/web-1", "--mode", "EvictDirectly",
        "--ignore-windows", "--reason", "noisy",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (request,) = requests(running)
    assert request.pod == PodRef(namespace="shop", name="web-1", uid="second")
    assert (request.action, request.mode) == ("migrate", "EvictDirectly")
    assert (request.ignore_windows, request.reason) == (True, "noisy")
    assert result.output == (
        f"{request.request_id}: requested the migration of pod shop/web-1; see `loadstream migration list blue`\n"
    )


def test_no_request_is_written_for_an_ended_or_unknown_pod(
    running: RunningBroker, write: Write
) -> None:
    write("pod-lifecycle", seen("first"), seen("first", "deleted"))
    ended = run("migration", "start", "blue", "shop/web-1")
    assert (ended.exit_code, ended.output) == (
        1,
        "error: pod shop/web-1 of cluster blue has ended: it was deleted\n",
    )
    unknown = run("migration", "start", "blue", "shop/web-7")
    assert (unknown.exit_code, unknown.output) == (
        1,
        "error: pod shop/web-7 of cluster blue is not in topic pod-lifecycle\n",
    )
    assert requests(running) == []


@pytest.mark.parametrize("pod", [f"shop/{'w' * 254}", f"{'s' * 254}/web-1"])
def test_an_invalid_pod_name_is_an_error_of_the_command_line(
    pod: str, running: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # a sentence in a box is not wrapped
    result = run("migration", "start", "blue", pod)
    assert result.exit_code == 2
    assert "Invalid value for POD: found " in result.output
    assert "expected a string of 1 to " in result.output
    assert requests(running) == []


def test_drain_and_undrain_name_the_node(running: RunningBroker) -> None:
    assert run("node", "drain", "blue", "worker-9", "--reason", "new disk").exit_code == 0
    assert run("node", "undrain", "blue", "worker-9").exit_code == 0
    first, second = requests(running)
    assert (first.action, first.node, first.reason, first.mode) == (
        "drain", "worker-9", "new disk", None,
    )  # fmt: skip
    assert (second.action, second.node) == ("undrain", "worker-9")
    assert first.request_id != second.request_id


@pytest.mark.parametrize("action", ["pause", "resume", "abort"])
def test_a_migration_is_found_by_its_id_or_its_pod(
    running: RunningBroker, write: Write, action: str
) -> None:
    paused = action == "resume"
    write(
        "status", status(1, "Succeeded"), status(2, paused=paused), status(3),
        status(3, "Failed", 1), status(7, paused=paused),
    )  # fmt: skip
    assert run("migration", action, "blue", "migration-7").exit_code == 0
    assert run("migration", action, "blue", "shop/web-2", "--reason", "now").exit_code == 0
    for which, problem in (
        ("shop/web-3", "migration of pod shop/web-3 in cluster blue: none is in progress"),
        ("migration-3", "migration of migration-3 in cluster blue: it has ended, Failed"),
        ("migration-8", "migration of migration-8 in cluster blue: none is in progress"),
    ):
        ended = run("migration", action, "blue", which)
        assert (ended.exit_code, ended.output) == (1, f"error: {problem}\n")
    assert [(each.action, each.migration_id, each.reason) for each in requests(running)] == [
        (action, "migration-7", ""),
        (action, "migration-2", "now"),
    ]


def test_migration_list_shows_the_newest_state_of_running_migrations(write: Write) -> None:
    write(
        "status", status(1, "Pending"), status(2, "Pending", 1), drained("Draining", 2),
        status(1, "Running", 3, paused=True, dry_run=False), status(2, "Succeeded", 4),
        status(9, cluster="other"),
    )  # fmt: skip
    result = run("migration", "list", "blue")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "2026-11-18 11:06:42.000 (58s ago)  node worker-9 draining: 2 pods left, 0 protected",
        "2026-11-18 11:06:43.000 (57s ago)  migration migration-1 of pod shop/web-1 from worker-1: Running, paused",
        "1 under way (1 paused); ended within 1d: 1 Succeeded; 1 node takes no new pods",
    ]
    everything = run("migration", "list", "blue", "--all", "--json").output.splitlines()
    assert [json.loads(line)["happened_at_ms"] - NOW_MS for line in everything] == [
        2000,
        3000,
        4000,
    ]
    write("status", drained("Undrained", 5), status(1, "Aborted", 6))
    assert run("migration", "list", "blue").output == (
        "0 under way; ended within 1d: 1 Aborted, 1 Succeeded\n"
    )


def test_migration_list_reads_back_to_the_requested_time(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        "status", status(1, "Failed"), status(2, "Failed", seconds=3000),
        status(3, seconds=3601),
    )  # fmt: skip
    assert len(run("migration", "list", "blue", "--all", "--back", "1h").output.splitlines()) == 3
    monkeypatch.setattr(states, "RECORDS_MAX", 1)
    assert run("migration", "list", "blue").output.splitlines()[1:] == [
        "1 under way; ended within 1d: none; only the newest 1 records were read"
    ]
    whole = run("migration", "list", "blue", "--json")
    assert whole.stderr == "warning: only the newest 1 records were read\n"
    assert json.loads(whole.stdout)["migration_id"] == "migration-3"


def test_old_unfinished_migrations_are_shown(write: Write) -> None:
    days = 3 * 86_400
    write("status", status(1, "Pending"), drained("Drained", 1), status(2, "Failed", 2))
    write("status", status(3, seconds=days))
    lines = run("migration", "list", "blue").output.splitlines()
    assert "migration migration-1 of pod shop/web-1 from worker-1: Pending" in lines[0]
    assert "node worker-9 drained: 2 pods left" in lines[1]
    assert lines[3:] == ["2 under way; ended within 1d: none; 1 node takes no new pods"]


def test_no_request_is_written_for_a_state_that_holds_already(
    running: RunningBroker, write: Write
) -> None:
    write("status", status(1, paused=True), status(2), drained("Undrained", 3))
    for arguments, problem in (
        (("migration", "pause", "blue", "migration-1"), "it is already paused"),
        (("migration", "resume", "blue", "migration-2"), "it is not paused"),
        (
            ("node", "undrain", "blue", "worker-9"),
            "node worker-9 of cluster blue is not being drained",
        ),
    ):
        result = run(*arguments)
        assert (result.exit_code, problem in result.output) == (1, True), result.output
    assert requests(running) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("node", "drain", "blue", "worker-8"),
            "Node worker-8 of cluster blue has never been seen",
        ),
        (("node", "drain", "blue", "worker-8"), "Did you mean worker-9?"),
        (("node", "undrain", "blue", "worker-8"), "has never been seen"),
        (("node", "drain", "bleu", "worker-9"), "Cluster bleu has never been seen"),
        (("node", "drain", "bleu", "worker-9"), "Did you mean blue?"),
        (("migration", "start", "bleu", "shop/web-1"), "has never been seen"),
        (("migration", "abort", "bleu", "migration-1"), "has never been seen"),
    ],
)
def test_a_mistyped_name_is_reported_and_no_request_is_written(
    running: RunningBroker, arguments: tuple[str, ...], said: str
) -> None:
    result = run(*arguments)
    assert (result.exit_code, said in result.output) == (3, True), result.output
    assert requests(running) == []


@pytest.mark.parametrize("measured", [False, True])
def test_a_node_that_was_removed_is_not_drained(
    measured: bool, running: RunningBroker, write: Write
) -> None:
    if measured:
        write("node-metrics", NodeMetric(cluster="blue", node="worker-9", updated_at_ms=NOW_MS))
    write("node-state", NodeState(cluster="blue", node="worker-9", event="removed"))
    refused = run("node", "drain", "blue", "worker-9")
    said = "error: Node worker-9 of cluster blue was removed. No request was written\n"
    assert (refused.exit_code, refused.output) == (3, said)
    assert requests(running) == []
    write("node-state", NodeState(cluster="blue", node="worker-9", event="added"))
    assert run("node", "drain", "blue", "worker-9").exit_code == 0


def test_the_drain_of_a_removed_node_can_be_cancelled(running: RunningBroker, write: Write) -> None:
    write("status", drained("Draining", 1))
    write("node-state", NodeState(cluster="blue", node="worker-9", event="removed"))
    assert run("node", "undrain", "blue", "worker-9").exit_code == 0
    (request,) = requests(running)
    assert (request.action, request.node) == ("undrain", "worker-9")


@pytest.mark.parametrize(
    "command", [["migration", "list", "blue"], ["node", "drain", "blue", "worker-9"]]
)
def test_a_silent_worker_is_reported_before_anything_else(
    running: RunningBroker, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wall_clock, "now_ms", lambda: NOW_MS + 7_200_000)
    result = run(*command)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: No worker has written for 1h 59m")


def refusal(request: MigrationRequest) -> Message:
    """How a worker buries a request that it refuses."""
    why = Refusal("invalid", "no migration of web-1 is under way")
    return build_dead_letter("migration-requests", 0, 0, NOW_MS, b"blue", encode(request), why)


def answered(request: MigrationRequest, phase: Any) -> MigrationStatus:
    """How far the migration has come that a request asked for."""
    return status(1, phase, pod=request.pod, trigger="request")


def drained_by(request: MigrationRequest, phase: Any, seconds: int) -> DrainStatus:
    """How far the drain has come that a request asked for."""
    return drained(phase, seconds).model_copy(update={"request_id": request.request_id})


@pytest.mark.parametrize(
    ("arguments", "answers", "code", "last"),
    [
        (
            ["migration", "start", "blue", "shop/web-1"],
            [lambda r: answered(r, "Pending"), lambda r: status(8, "Failed"), lambda r: answered(r, "Succeeded")],
            0, "Succeeded",
        ),
        (["migration", "start", "blue", "shop/web-1"], [lambda r: answered(r, "Failed")], 1, "Failed"),
        (
            ["node", "drain", "blue", "worker-9"],
            [lambda r: drained("Drained", 1), lambda r: drained_by(r, "Drained", 2)],
            0, "drained: 2 pods left",
        ),
        (
            ["node", "drain", "blue", "worker-9"],
            [lambda r: drained("Undrained", 1), lambda r: drained_by(r, "Draining", 2), lambda r: drained_by(r, "Undrained", 3)],
            1, "undrained: 2 pods left",
        ),
        (
            ["node", "drain", "blue", "worker-9"],
            [lambda r: drained_by(r, "Draining", 1), lambda r: drained("Draining", 2), lambda r: drained("Drained", 3)],
            0, "drained: 2 pods left",
        ),
        (
            ["node", "drain", "blue", "worker-9"],
            [lambda r: drained("Undrained", 1).model_copy(update={"request_id": r.request_id})],
            1, "undrained: 2 pods left",
        ),
        (
            ["node", "drain", "blue", "worker-9"],
            [lambda r: drained("Draining", 1).model_copy(update={"request_id": r.request_id}), lambda r: drained("Drained", 2)],
            0, "drained: 2 pods left",
        ),
        (["migration", "abort", "blue", "migration-2"], [lambda r: status(2, "Aborted")], 0, "Aborted"),
        (["migration", "abort", "blue", "migration-2"], [lambda r: status(2, "Succeeded")], 1, "Succeeded"),
        (["migration", "abort", "blue", "migration-2"], [lambda r: status(2, "Failed")], 0, "Failed"),
        (["migration", "pause", "blue", "migration-2"], [lambda r: status(2, paused=True)], 0, "paused"),
        (["migration", "pause", "blue", "migration-2"], [refusal], 1, "refused: no migration of web-1"),
    ],
)  # fmt: skip
def test_wait_follows_a_request_to_its_answer(
    running: RunningBroker,
    write: Write,
    arguments: list[str],
    answers: list[Callable[[MigrationRequest], Message]],
    code: int,
    last: str,
) -> None:
    write("pod-lifecycle", seen("first"))
    write("status", status(2), status(9, "Succeeded"))

    def work() -> None:
        assert eventually(lambda: bool(requests(running)))
        (request,) = requests(running)
        for each in answers:
            message = each(request)
            write(TOPIC_OF[type(message)], message)

    worker = threading.Thread(target=work)
    worker.start()
    result = run(*arguments, "--wait")
    worker.join()
    assert (result.exit_code, last in result.output.splitlines()[-1]) == (code, True), result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["migration", "start", "blue", "web-1"],
        ["migration", "start", "blue", "shop/web-1/u1"],
        ["migration", "start", "b/lue", "shop/web-1"],
        ["migration", "start", "blue", "shop/web-1", "--mode", "Gently"],
        ["node", "drain", "blue", ""],
        ["node", "drain", "blue", "worker-9", "--reason", "x" * 1001],
        ["migration", "pause", "blue", "short"],
        ["migration", "abort", "blue", "shop/"],
        ["migration", "list", "blue", "--back", "0s"],
    ],
)
def test_invalid_requests_are_refused_before_connecting(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert run(*arguments).exit_code == 2
