"""`loadstream status` and `loadstream node list` on an embedded broker that holds a cluster's records."""

import json
import socket
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.kafka.client import connect
from connectors.process import wall_clock
from connectors.queries.cluster_reading import read_cluster, read_kafka
from loadstream.commands import app
from schemas.messages.decisions import AsOf, PlacementDecision
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodRef
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.connectors.queries.recorded import Recorded

NOW_MS = 1_795_000_000_000
BLUE = "blue"
#: Another cluster in the same partition.
NEIGHBOUR = next(
    name
    for name in (f"other-{number}" for number in range(100))
    if partition_for(name.encode(), 4) == partition_for(BLUE.encode(), 4)
)
AS_OF = AsOf(partition=0, offsets={"clock": 7}, policy_digest="default")


@pytest.fixture
def recorded(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    monkeypatch.setenv("LOADSTREAM_KAFKA_PARTITIONS", str(embedded.settings.partitions))
    monkeypatch.setattr(wall_clock, "now_ms", lambda: NOW_MS)
    return Recorded(embedded)


def node(name: str, cluster: str = BLUE, **more: Any) -> NodeState:
    values: dict[str, Any] = {"event": "added", "allocatable": {"cpu": "4"}} | more
    return NodeState(cluster=cluster, node=name, **values)


def metric(name: str, cpu: int, cluster: str = BLUE) -> NodeMetric:
    pods = (PodMetric(namespace="shop", name="web-1", usage={"cpu": cpu}),)
    return NodeMetric(
        cluster=cluster, node=name, usage={"cpu": cpu}, updated_at_ms=NOW_MS - 9_000, pods=pods
    )


def waiting(name: str, outcome: str = "waiting") -> PlacementDecision:
    return PlacementDecision(
        decision_id=f"decision-{name}", cluster=BLUE, pod=PodRef(namespace="shop", name=name, uid=name),
        outcome=outcome, decided_at_ms=NOW_MS, as_of=AS_OF,  # type: ignore[arg-type]
    )  # fmt: skip


def fill(recorded: Recorded) -> None:
    """Write two nodes, one that left and one that joined after the full list, and another cluster."""
    listed: list[Any] = [
        node("before-the-list"),
        ListBegin(cluster=BLUE, list_id="l1"),
        node("n1", list_id="l1"),
        node("left", list_id="l1"),
        ListEnd(cluster=BLUE, list_id="l1"),
        node("left", event="removed"),
        node("n2"),
        node("n1", NEIGHBOUR),
    ]
    recorded.write("node-state", listed)
    metrics = [
        metric("n1", 100),
        metric("n1", 2_000),
        metric("left", 1),
        metric("n1", 9, NEIGHBOUR),
    ]
    recorded.write("node-metrics", metrics)
    recorded.write(
        "placement-decisions", [waiting("a"), waiting("b"), waiting("a", outcome="placed")]
    )
    recorded.tick(NOW_MS - 1_000, BLUE)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_newest_record_of_each_node_and_pod_counts(recorded: Recorded) -> None:
    fill(recorded)
    connection = connect(recorded.settings)
    cluster = read_cluster(connection, read_kafka(connection), BLUE, NOW_MS)
    assert sorted(cluster.nodes) == ["n1", "n2"]
    assert {name: row.usage for name, row in cluster.metrics.items()} == {"n1": {"cpu": 2_000}}
    assert cluster.measured_pods == {"n1": 1}
    assert {uid: row.outcome for uid, row in cluster.decisions.items()} == {
        "a": "placed",
        "b": "waiting",
    }


def test_status_of_a_cluster_and_of_all(recorded: Recorded) -> None:
    fill(recorded)
    result = run("status", BLUE, "--json")
    assert result.exit_code == 0, result.output
    sections = {row["section"]: row for row in objects(result) if row["cluster"] == BLUE}
    assert sections["pods"]["waiting"] == 1
    assert sections["nodes"]["hottest"][0] == {"node": "n1", "percent": {"cpu": 50.0}, "state": []}
    (fault,) = sections["faults"]["faults"]
    assert (fault["grade"], "n2" in fault["text"]) == ("warning", True)
    text = run("status", BLUE).stdout
    assert "! warning" in text
    assert text.count("this broker does not report it") == 2  # of workers, and of all duties
    everything = run("status").stdout
    assert "blue: 1 fault" in everything
    assert NEIGHBOUR in everything


def test_status_without_a_worker_is_exit_code_1(recorded: Recorded) -> None:
    recorded.write("node-state", [node("n1")])
    recorded.write("node-metrics", [metric("n1", 100)])
    result = run("status", BLUE)
    assert result.exit_code == 1
    assert "No worker has ever written" in result.stdout


def test_an_unknown_cluster_is_exit_code_3(recorded: Recorded) -> None:
    assert run("status").exit_code == 3
    fill(recorded)
    result = run("status", "bleu")
    assert result.exit_code == 3
    assert "Did you mean blue?" in result.stderr
    assert run("node", "list", "bleu").exit_code == 3


def test_nodes_are_listed_with_their_usage_and_its_definition(recorded: Recorded) -> None:
    fill(recorded)
    first, second = objects(run("node", "list", BLUE, "--json"))
    assert (first["node"], first["percent"], first["age_ms"]) == ("n1", {"cpu": 50.0}, 9_000)
    assert (second["node"], second["state"]) == ("n2", ["no metric"])
    assert "mean over 5m" in run("node", "list", BLUE).stdout


@pytest.mark.parametrize("arguments", [("status",), ("node", "list", BLUE)])
def test_a_broker_that_does_not_answer_is_exit_code_1(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTREAM_KAFKA_CONNECT_TIMEOUT_S", "0.5")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = run(*arguments, "--bootstrap", address)
    assert result.exit_code == 1
    assert f"no usable broker at {address}" in result.stderr
