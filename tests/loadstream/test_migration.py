"""The migration commands: what they write, look up and print."""

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.kafka.client import connect
from connectors.kafka.tail import Entry, read_entries
from connectors.process import wall_clock
from loadstream.commands import app
from schemas.base.message import Message
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import MigrationRequest
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod, PodLifecycle, PodRef
from schemas.messages.policies import PolicyRecord
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker, eventually
from tests.connectors.queries.recorded import Recorded
from tests.connectors.queries.statuses import NOW_MS, drained, status

Write = Callable[..., None]


def run(*arguments: str) -> Result:
    """Run a command; an exception other than an exit fails the test."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def running(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> RunningBroker:
    """A broker that the commands find by their settings.

    Cluster blue has two nodes and a worker that has just ticked.
    """
    return fill(embedded, monkeypatch)


def fill(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> RunningBroker:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setattr(wall_clock, "now_ms", lambda: NOW_MS + 60_000)
    send(broker, "node-state", *(
        NodeState(cluster="blue", node=name, event="added") for name in ("worker-1", "worker-9")
    ))  # fmt: skip
    Recorded(broker).tick(NOW_MS + 59_000, "blue")
    return broker


@pytest.fixture
def write(running: RunningBroker) -> Write:
    return partial(send, running)


def send(broker: RunningBroker, topic: str, *messages: Message) -> None:
    Recorded(broker).write(topic, messages)


def requests(broker: RunningBroker) -> list[MigrationRequest]:
    """Return the messages of `migration-requests`, which must be in the partition of the cluster."""
    topic = TOPIC_BY_NAME["migration-requests"]
    items = read_entries(connect(broker.settings), topic, "beginning", follow=False)
    entries = [entry for entry in items if isinstance(entry, Entry)]
    partition = partition_for(b"blue", broker.settings.partitions)
    assert all((entry.partition, entry.key) == (partition, b"blue") for entry in entries)
    assert all(isinstance(entry.message, MigrationRequest) for entry in entries)
    return [entry.message for entry in entries]


def seen(
    uid: str, event: Any = "running", cluster: str = "blue", name: str = "web-1"
) -> PodLifecycle:
    """Write a lifecycle event of a pod."""
    pod = Pod(namespace="shop", name=name, uid=uid, node="worker-1")
    return PodLifecycle(cluster=cluster, event=event, pod=pod)


def test_a_request_names_the_newest_pod_of_a_name_and_is_followed(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, monkeypatch)
    send(
        broker, "pod-lifecycle", seen("first"), seen("first", "deleted"), seen("second", "bound"),
        seen("elsewhere", cluster="other"), seen("neighbour", name="web-2"),
    )  # fmt: skip

    def work() -> None:
        assert eventually(lambda: bool(requests(broker)))
        (request,) = requests(broker)
        for phase in ("Pending", "Succeeded"):
            send(broker, "status", status(1, phase, pod=request.pod, trigger="request"))

    worker = threading.Thread(target=work)
    worker.start()
    result = run(
        "migration", "start", "blue", "shop/web-1", "--mode", "EvictDirectly",
        "--ignore-windows", "--reason", "noisy", "--wait",
    )  # fmt: skip
    worker.join()
    assert result.exit_code == 0, result.output
    (request,) = requests(broker)
    assert request.pod == PodRef(namespace="shop", name="web-1", uid="second")
    assert (request.action, request.mode) == ("migrate", "EvictDirectly")
    assert (request.ignore_windows, request.reason) == (True, "noisy")
    first, _, last = result.output.splitlines()
    assert request.request_id in first
    assert last.endswith("Succeeded")


def test_no_request_is_written_for_an_ended_or_unknown_pod(
    running: RunningBroker, write: Write
) -> None:
    write("pod-lifecycle", seen("first"), seen("first", "deleted"))
    for name, why in (("web-1", "was deleted"), ("web-7", "is not in topic pod-lifecycle")):
        result = run("migration", "start", "blue", f"shop/{name}")
        assert (result.exit_code, why in result.output) == (1, True), result.output
    assert requests(running) == []


def test_drain_and_undrain_name_the_node(running: RunningBroker, write: Write) -> None:
    drain = run("node", "drain", "blue", "worker-9", "--reason", "new disk")
    assert (drain.exit_code, "dry run" in drain.stdout) == (0, True)
    assert run("node", "undrain", "blue", "worker-9").exit_code == 0
    first, second = requests(running)
    assert (first.action, first.node, first.reason, first.mode) == (
        "drain", "worker-9", "new disk", None,
    )  # fmt: skip
    assert (second.action, second.node) == ("undrain", "worker-9")
    assert first.request_id != second.request_id
    write("status", drained("Undrained", 3))
    assert run("node", "undrain", "blue", "worker-9").exit_code == 1
    # A metric may still name a node that was removed.
    write("node-metrics", NodeMetric(cluster="blue", node="worker-9", updated_at_ms=NOW_MS))
    write("node-state", NodeState(cluster="blue", node="worker-9", event="removed"))
    refused = run("node", "drain", "blue", "worker-9")
    assert (refused.exit_code, "was removed" in refused.output) == (3, True)
    write("status", drained("Draining", 4))
    assert len(requests(running)) == 2
    write("policies", PolicyRecord(cluster="blue", document="mode: enforce", applied_at_ms=NOW_MS))
    assert "dry run" not in run("node", "drain", "blue", "worker-1").stdout
    assert run("node", "undrain", "blue", "worker-9").exit_code == 0


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
    for ended in ("shop/web-3", "migration-3", "migration-8"):
        assert run("migration", action, "blue", ended).exit_code == 1
    assert [(sent.action, sent.migration_id, sent.reason) for sent in requests(running)] == [
        (action, "migration-7", ""),
        (action, "migration-2", "now"),
    ]


@pytest.mark.usefixtures("running")
def test_migration_list_shows_the_newest_states(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        "status", drained("Draining", 2), status(1, "Running", 3), status(2, "Succeeded", 4),
        status(5, "Failed", 5), status(6, "Failed", 6, trigger="request"), status(9, cluster="other"),
    )  # fmt: skip
    drain, migration, failure, summary = run("migration", "list", "blue").output.splitlines()
    assert drain.startswith("2026-11-18 11:06:42.000 (58s ago)  node worker-9")
    assert "migration migration-1 of pod shop/web-1 from worker-1: Running" in migration
    assert "migration-6" in failure
    assert summary.startswith("1 under way; ")
    everything = run("migration", "list", "blue", "--all", "--json").output.splitlines()
    assert [json.loads(line)["happened_at_ms"] - NOW_MS for line in everything] == [
        2000, 3000, 4000, 5000, 6000,
    ]  # fmt: skip
    monkeypatch.setattr(wall_clock, "now_ms", lambda: NOW_MS + 7_200_000)
    assert run("migration", "list", "blue").stderr.startswith("warning: No worker has written for")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("node", "drain", "blue", "worker-8"), "Did you mean worker-9?"),
        (("node", "undrain", "blue", "worker-8"), "worker-8"),
        (("node", "drain", "bleu", "worker-9"), "Did you mean blue?"),
        (("migration", "start", "bleu", "shop/web-1"), "bleu"),
        (("migration", "abort", "bleu", "migration-1"), "bleu"),
    ],
)
def test_a_mistyped_name_is_reported_and_no_request_is_written(
    running: RunningBroker, arguments: tuple[str, ...], message: str
) -> None:
    result = run(*arguments)
    assert (result.exit_code, message in result.output) == (3, True), result.output
    assert requests(running) == []


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
