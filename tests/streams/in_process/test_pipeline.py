"""Both stages joined: they decide as they do apart."""

import pytest

from schemas.messages.clock import ClockTick
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.policies import PolicyRecord
from schemas.messages.usage import NodeUsage
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode
from streams.in_process.pipeline import LocalPipeline, ProducedRecord
from tests.streams.builders import CLUSTER, START_MS, node, policy_record


def written(
    message: ClockTick | NodeState | NodeUsage | PolicyRecord, topic: str
) -> ProducedRecord:
    return ProducedRecord(topic, key_of(topic, message), encode(message), START_MS)


def sample(seconds: int, cpu: int = 500) -> ProducedRecord:
    at_ms = START_MS + 1000 * seconds
    usage = NodeUsage(cluster=CLUSTER, node="node-1", sampled_at_ms=at_ms, usage={"cpu": cpu})
    return ProducedRecord("node-usage", key_of("node-usage", usage), encode(usage), at_ms)


def begun(policy: str = "") -> LocalPipeline:
    pipeline = LocalPipeline()
    pipeline.apply(
        [
            written(ClockTick(partition=0, now_ms=START_MS), "clock"),
            written(policy_record(policy), "policies"),
            written(node("node-1"), "node-state"),
        ]
    )
    return pipeline


def metric(pipeline: LocalPipeline) -> NodeMetric | None:
    return pipeline.cluster.clusters[CLUSTER].inventory.nodes["node-1"].usage.metric


def test_a_sample_becomes_a_metric_that_the_cluster_knows() -> None:
    pipeline = begun()
    assert pipeline.apply([sample(0), sample(60, cpu=700)]) == []
    stored = metric(pipeline)
    assert stored is not None
    assert stored.usage == {"cpu": 600}


def test_a_policy_says_how_often_metrics_are_reported() -> None:
    pipeline = begun("collect: {metricReportIntervalSeconds: 30}")
    pipeline.apply([sample(0), sample(30, cpu=700)])
    stored = metric(pipeline)
    assert stored is not None
    assert (stored.usage, stored.report_interval_ms) == ({"cpu": 600}, 30_000)


def test_an_unreadable_record_becomes_a_dead_letter() -> None:
    pipeline = begun()
    outputs = pipeline.apply([ProducedRecord("node-usage", f"{CLUSTER}/node-1", b"?", START_MS)])
    (only,) = outputs
    assert only[0] == "dead-letters"
    assert "not JSON" in decode(*only).reason


def test_a_record_that_neither_stage_reads_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected node-usage or one of"):
        begun().apply([ProducedRecord("journal", "0", b"{}", START_MS)])


def test_every_record_of_both_stages_is_counted() -> None:
    pipeline = begun()
    before = pipeline.applied
    pipeline.apply([sample(0), sample(60)])
    # The collect policy that was waiting, the samples, and the metric made of them.
    assert pipeline.applied == before + 4
