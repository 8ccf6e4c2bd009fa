"""`loadstream doctor` reports each fault of the troubleshooting page."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from typer.testing import CliRunner

from connectors.kafka.client import connect
from connectors.kafka.leadership import Leadership
from connectors.kafka.produce import produce_messages
from connectors.kafka.term import LeaderTerm
from connectors.kubernetes.sources.prometheus import PrometheusSettings
from connectors.process import wall_clock
from connectors.queries.cluster_reading import ClusterRecords
from loadstream.commands import app
from loadstream.doctor.findings import Finding
from loadstream.doctor.pods import check_pods
from loadstream.doctor.policy import check_low_thresholds, check_pools, check_windows
from loadstream.doctor.processes import check_processes
from loadstream.doctor.queries import check_source
from schemas.base.message import Message
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.metrics import AggregatedUsage, NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import OwnerReference, Pod, PodLifecycle, PodRef
from schemas.messages.policies import PolicyRecord
from schemas.policy import Policy, read_policy
from schemas.policy.validation import build_model
from schemas.settings.connection import APP_ID, KafkaSettings
from schemas.topics.catalog import TOPIC_OF
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker, delete_topic, eventually
from tests.connectors.kubernetes.sources.harness import api_server, context, directory_of, playing
from tests.connectors.kubernetes.sources.test_prometheus import Played, Series

CLUSTER = "blue"
NODES = ("n1", "n2")


@pytest.fixture
def kafka_settings(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaSettings:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    return embedded.settings


@pytest.fixture
def real_settings(clean_kafka: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaSettings:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", clean_kafka.bootstrap_servers)
    return clean_kafka.settings


def examine(*arguments: str) -> tuple[int, list[dict[str, str]]]:
    """Return the exit code and the findings."""
    result = CliRunner().invoke(app, ["doctor", *arguments, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def errors(*arguments: str) -> dict[str, str]:
    """Return the text of each error by check."""
    code, findings = examine(*arguments)
    error_text = {row["check"]: row["text"] for row in findings if row["grade"] == "error"}
    assert code == bool(error_text)
    return error_text


def warnings(*arguments: str) -> list[str]:
    _, findings = examine(*arguments)
    return [f"{row['check']}: {row['text']}" for row in findings if row["grade"] == "warning"]


def write(settings: KafkaSettings, *messages: Message) -> None:
    connection = connect(settings)
    for message in messages:
        _, refused = produce_messages(connection, TOPIC_OF[type(message)], [message])
        assert not refused


def metric(node: str, **fields: Any) -> NodeMetric:
    usage = {"cpu": 1_000, "memory": 2**30}
    now_ms = wall_clock.now_ms()
    values = {"updated_at_ms": now_ms, "usage": usage, "memory_is": "workingSet", **fields}
    return NodeMetric(cluster=CLUSTER, node=node, **values)


def tick(settings: KafkaSettings, ahead_ms: int = 0) -> ClockTick:
    partition = partition_for(CLUSTER.encode(), settings.partitions)
    return ClockTick(partition=partition, now_ms=wall_clock.now_ms() + ahead_ms)


def write_sound_cluster(settings: KafkaSettings, **metrics: Any) -> None:
    """Write the records of a working cluster: a worker that ticks and two measured nodes."""
    for node in NODES:
        labels = {"pool": "web"}
        write(settings, NodeState(cluster=CLUSTER, node=node, event="added", labels=labels))
        write(settings, metric(node, **metrics))
    write(settings, tick(settings))


def pod(name: str, **fields: Any) -> PodLifecycle:
    return PodLifecycle(
        cluster=CLUSTER, event="running",
        pod=Pod(namespace="shop", name=name, uid=f"uid-{name}", phase="Running", node="n1", scheduler="loadstream", **fields),
    )  # fmt: skip


def test_a_sound_installation_has_no_error_and_no_warning(kafka_settings: KafkaSettings) -> None:
    write_sound_cluster(kafka_settings)
    write(kafka_settings, pod("web"))
    code, findings = examine(CLUSTER)
    assert (code, {row["grade"] for row in findings}) == (0, {"ok"}), findings
    assert {"brokers", "topics", "clock", "worker", "measurements", "memory", "pods"} <= {
        row["check"] for row in findings
    }
    write(kafka_settings, metric("n2", memory_is="notAvailable"))
    write(kafka_settings, pod("refused", unsupported=("topology spread",)))
    memory, pods = warnings(CLUSTER)
    assert memory.startswith("memory: ")
    assert "notAvailable and workingSet on 1, workingSet on 1" in memory
    assert pods.startswith("pods: 1 of 2")
    _, findings = examine("bleu")
    assert "Did you mean blue?" in findings[-1]["text"]


def records(**fields: Any) -> ClusterRecords:
    """Return the records of a cluster with a worker and two measured nodes."""
    now_ms = wall_clock.now_ms()
    cluster = ClusterRecords(CLUSTER, now_ms, tick_ms=now_ms)
    labels = {"pool": "web"}
    cluster.nodes = {
        name: NodeState(
            cluster=CLUSTER, node=name, event="added", labels=labels,
            allocatable={"cpu": "4", "memory": "4Gi"},
        )
        for name in NODES
    }  # fmt: skip
    cluster.metrics = {name: metric(name, **fields) for name in NODES}
    return cluster


def texts(findings: Iterable[Finding], grade: str) -> dict[str, str]:
    return {finding.check: finding.text for finding in findings if finding.grade == grade}


def test_a_missing_worker_and_a_wrong_clock_are_reported() -> None:
    cluster = records()
    assert texts(check_processes(cluster, Policy()), "error") == {}
    cluster.tick_ms = cluster.now_ms - 3_600_000
    assert (
        "No worker has written for 1h"
        in texts(check_processes(cluster, Policy()), "error")["worker"]
    )
    cluster.tick_ms = cluster.now_ms + 630_000
    assert "clock is 10m" in texts(check_processes(cluster, Policy()), "error")["clock"]


def test_nodes_without_measurements_are_reported() -> None:
    cluster = records(updated_at_ms=wall_clock.now_ms() - 3_600_000)
    assert "0 of 2 nodes" in texts(check_processes(cluster, Policy()), "error")["measurements"]
    cluster.metrics["n1"] = metric("n1")
    half = texts(check_processes(cluster, Policy()), "warning")["measurements"]
    assert "1 of 2 nodes" in half
    assert "n2" in half
    cluster.nodes.clear()
    assert CLUSTER in texts(check_processes(cluster, Policy()), "error")["nodes"]


def test_an_unavailable_broker_is_reported() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
        patch.setenv("LOADSTREAM_KAFKA_CONNECT_TIMEOUT_S", "1")
        assert "127.0.0.1:9" in errors(CLUSTER)["brokers"]


@pytest.mark.kafka
def test_a_missing_topic_is_reported(real_settings: KafkaSettings) -> None:
    delete_topic(connect(real_settings), "clock")
    error_texts = errors(CLUSTER)
    assert "1 of 23 are missing: clock" in error_texts["topics"]
    assert "topic clock does not exist" in error_texts["cluster"]


@pytest.mark.kafka
def test_a_topic_with_a_wrong_number_of_partitions_is_reported(
    real_settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTREAM_KAFKA_PARTITIONS", str(real_settings.partitions + 1))
    assert "partitions: expected 5, found 4" in errors()["topics"]


@pytest.mark.kafka
def test_a_worker_that_has_just_ended_is_reported(real_settings: KafkaSettings) -> None:
    write_sound_cluster(real_settings)
    worker = Consumer({"bootstrap.servers": real_settings.bootstrap_servers, "group.id": APP_ID})

    def has_committed() -> bool:
        """Commit offsets; fails while a worker that another test killed is still in the group."""
        try:
            worker.commit(offsets=[TopicPartition("clock", 0, 1)], asynchronous=False)
        except KafkaException:
            return False
        return True

    assert eventually(has_committed)
    worker.close()
    assert errors(CLUSTER)["worker"].startswith("no worker runs any more")
    write(real_settings, tick(real_settings, -60_000))
    assert "the last one wrote 1m" in errors(CLUSTER)["worker"]


@contextmanager
def running_duties(settings: KafkaSettings, *duties: str) -> Iterator[None]:
    """Run processes of these duties as active members of their groups."""
    loop = asyncio.new_event_loop()
    members = [Leadership(settings, CLUSTER, duty) for duty in duties]

    async def work(term: LeaderTerm) -> None:
        await term.over.wait()

    async def run() -> None:
        await asyncio.gather(*(member.run(work) for member in members), return_exceptions=True)

    task = loop.create_task(run())

    def serve() -> None:
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))

    thread = Thread(target=serve)
    thread.start()
    try:
        assert eventually(lambda: all(member.term is not None for member in members))
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


@pytest.mark.kafka
def test_a_duty_that_has_ended_is_reported(real_settings: KafkaSettings) -> None:
    write_sound_cluster(real_settings)
    now_ms = wall_clock.now_ms()
    enforce = PolicyRecord(cluster=CLUSTER, document="mode: enforce", applied_at_ms=now_ms)
    write(real_settings, enforce)
    with running_duties(real_settings, "watch", "collect", "bind", "evict"):
        assert set(errors(CLUSTER)) == {"policy"}  # no worker applies it
        assert "no evictor" not in str(warnings(CLUSTER))
    with running_duties(real_settings, "watch", "collect", "bind"):
        assert errors(CLUSTER)["evict"].startswith("no process runs any more: nothing is evicted")
        assert not errors(CLUSTER).keys() & {"watch", "collect", "bind"}
    with running_duties(real_settings, "bind", "evict"):
        error_texts = errors(CLUSTER)
        assert error_texts["watch"].startswith("no process runs any more: the state of nodes")
    stale = {"updated_at_ms": wall_clock.now_ms() - 3_600_000}
    write(real_settings, *(metric(node, **stale) for node in NODES))
    with running_duties(real_settings, "watch", "bind", "evict"):
        assert errors(CLUSTER)["collect"].startswith(
            "no process runs any more: nothing is measured"
        )


def test_evictions_that_are_not_executed_are_reported(kafka_settings: KafkaSettings) -> None:
    write_sound_cluster(kafka_settings)
    now_ms = wall_clock.now_ms()
    commands = [
        EvictionCommand.model_validate(
            {
                "command_id": f"command-{number}", "cluster": CLUSTER, "node": "n1", "reason": "hot",
                "pod": {"namespace": "shop", "name": f"web-{number}", "uid": f"uid-{number}"},
                "decided_at_ms": now_ms - 120_000, "expires_at_ms": now_ms - 60_000, "dry_run": False,
                "as_of": {"partition": 0, "offsets": {}, "policy_digest": "default"},
            }
        )
        for number in range(2)
    ]  # fmt: skip
    enforce = PolicyRecord(cluster=CLUSTER, document="mode: enforce", applied_at_ms=now_ms)
    write(kafka_settings, enforce, *commands)
    assert "no evictor is known to run" in str(warnings(CLUSTER))
    outcome = CommandOutcome(
        command_id="command-0", cluster=CLUSTER, command="evict", result="done", happened_at_ms=now_ms,
        pod=PodRef(namespace="shop", name="web-0", uid="uid-0"),
    )  # fmt: skip
    write(kafka_settings, outcome)
    assert errors(CLUSTER)["commands"].startswith("1 of the newest 2 evictions expired")
    assert "no evictor" not in str(warnings(CLUSTER))


def test_pools_and_windows_that_do_not_fit_the_nodes_are_reported() -> None:
    policy = read_policy(
        """
loadAware: {aggregated: {usageThresholds: {cpu: 70}, usageAggregationType: p95, usageAggregatedDuration: 30m}}
rebalance:
  highThresholds: {cpu: 70}
  lowThresholds: {cpu: 40}
  nodePools: [{name: gpu, nodeSelector: {matchLabels: {pool: gpu}}}]
"""
    )
    short = AggregatedUsage(duration_ms=300_000, usage={"p95": {"cpu": 900}})
    cluster = records(aggregated=(short,))
    pool = texts(check_pools(cluster, policy), "warning")["policy"]
    assert "rebalance.nodePools[gpu].nodeSelector selects none of 2 nodes" in pool
    assert "web (2)" in pool
    window = texts(check_windows(cluster, policy), "warning")["windows"]
    assert "usageAggregatedDuration: 0 of 2 nodes report p95 over 30m" in window
    assert window.endswith("5m")


def test_low_thresholds_and_windows_that_no_node_meets_are_reported() -> None:
    policy = read_policy(
        """
plugins: {balance: [LowNodeLoad]}
collect: {metricAggregatePolicy: {durations: [5m, 2h]}}
rebalance: {lowThresholds: {cpu: 20, memory: 40}, highThresholds: {cpu: 70, memory: 80}}
"""
    )
    window = AggregatedUsage(duration_ms=300_000, usage={"p95": {"cpu": 900}})
    cluster = records(aggregated=(window,), samples=9)
    collected = texts(check_windows(cluster, policy), "warning")["windows"]
    assert "collect.metricAggregatePolicy" in collected
    assert "2h" in collected
    low = texts(check_low_thresholds(cluster, policy), "warning")["policy"]
    assert "cpu 20 % and memory 40 %; the lowest is n1 with cpu 25 % and memory 25 %" in low


def test_pods_that_would_be_refused_are_counted_by_requirement() -> None:
    daemon = OwnerReference(kind="DaemonSet", name="agent", uid="uid-agent", controller=True)
    pods = [
        pod("a", unsupported=("topology spread",)),
        pod("b", unsupported=("required pod anti-affinity", "topology spread")),
        pod("c"),
        pod("agent-1", unsupported=("topology spread",), owners=(daemon,)),
    ]
    (finding,) = check_pods(request.pod for request in pods)
    assert finding.grade == "warning"
    assert finding.text.startswith("2 of 3 pods")
    assert finding.text.endswith("topology spread 2, required pod anti-affinity 1")


async def test_a_query_that_matches_no_node_is_reported_with_the_label_that_would_match() -> None:
    by_target: Series = [
        ({"instance": "exporter-1", "node": "n1"}, 1),
        ({"instance": "exporter-2", "node": "n2"}, 1),
    ]
    played = Played(cpu=by_target, memory=[({"instance": "n1"}, 1), ({"instance": "n2"}, 1)])
    async with playing(played) as url, api_server("http://nowhere.invalid") as server:
        settings = build_model(
            PrometheusSettings,
            {
                "source": "prometheus",
                "url": url,
                "nodes": {"cpu": "cpu", "memory": "memory", "gpu": "gpu"},
            },
        )
        directory = directory_of({"n1": {}, "n2": {}})
        cpu, memory, gpu = await check_source(settings, context(server, directory))
    assert (cpu.grade, cpu.text) == ("error", "matches 0 of 2 nodes by label instance")
    assert cpu.advice == "Label node would match 2: set nodeLabel: node"
    assert (memory.grade, memory.text) == ("ok", "matches 2 of 2 nodes by label instance")
    assert (gpu.grade, gpu.advice[:17]) == ("error", "No series matches")
