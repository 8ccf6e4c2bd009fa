"""The port of a worker."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from connectors.brokers.embedded import EmbeddedBroker
from connectors.process.local_ports import find_free_port
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.nodes import NodeState
from tests.conftest import RunningBroker, eventually
from tests.streams.builders import START_MS, pod
from tests.streams.noticing import http_get
from tests.streams.worker_process import Worker, client


async def test_a_worker_becomes_ready_and_counts_its_work(
    embedded: RunningBroker, tmp_path: Path
) -> None:
    port = find_free_port()
    with Worker(embedded.settings, tmp_path, metrics_port=str(port)) as worker:
        async with client(embedded.settings, worker, "placement-decisions") as kafka:
            assert eventually(lambda: http_get(port, "/readyz")[0] == 200), worker.log()
            assert http_get(port, "/healthz")[0] == 200
            node = NodeState(
                cluster="c", node="n", event="added", allocatable={"cpu": "4", "memory": "8Gi"}
            )
            request = SchedulingRequest(cluster="c", pod=pod(), requested_at_ms=START_MS)
            await kafka.send("node-state", [node])
            await kafka.send_raw("node-usage", b"no sample")
            await kafka.send("scheduling-requests", [request])
            await kafka.until(lambda: bool(kafka.of("placement-decisions")))
        dead = {"stage": "aggregate", "topic": "node-usage", "category": "unreadable"}
        assert eventually(lambda: _value(port, "loadstream_dead_letters_total", dead) == 1)
        assert eventually(lambda: _value(port, "loadstream_nodes", {"cluster": "c"}) == 1)
        stage = {"stage": "cluster"}
        # A decision is counted once the broker has acknowledged it: others may have read it before.
        latencies = "loadstream_decision_latency_seconds_count"
        assert eventually(lambda: _value(port, latencies, stage) == 1)
        assert (_sum(port, "loadstream_decisions_total")) >= 1
        assert _value(port, "loadstream_stale_nodes_ratio", {"cluster": "c"}) == 1
        assert _value(port, "loadstream_recovery_seconds_count", stage) == 1
        assert (
            _value(port, "loadstream_written_bytes_total", {**stage, "topic": "journal"}) or 0
        ) > 0
        partitions = [
            sample.labels
            for sample in _samples(port)
            if sample.name == "loadstream_clock_lag_seconds"
        ]
        assert len([partition for partition in partitions if partition["stage"] == "cluster"]) == 4


@pytest.mark.broker
def test_a_worker_without_a_broker_is_alive_and_not_ready(tmp_path: Path) -> None:
    port = find_free_port()
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        worker = stack.enter_context(Worker(broker.settings, tmp_path, metrics_port=str(port)))
        assert eventually(lambda: http_get(port, "/readyz")[0] == 200), worker.log()
        broker.__exit__(None, None, None)
        assert eventually(lambda: _value(port, "loadstream_broker_up", {}) == 0), worker.log()
        assert eventually(lambda: "no broker has answered" in http_get(port, "/readyz")[1])
        assert http_get(port, "/healthz")[0] == 200


def _samples(port: int) -> list[Sample]:
    _, body = http_get(port, "/metrics")
    return [sample for family in text_string_to_metric_families(body) for sample in family.samples]


def _value(port: int, name: str, labels: dict[str, str]) -> float | None:
    for sample in _samples(port):
        if sample.name == name and sample.labels == labels:
            return float(sample.value)
    return None


def _sum(port: int, name: str) -> float:
    return sum(float(sample.value) for sample in _samples(port) if sample.name == name)
