"""The sizes of metrics and the limits of both stages on the page about sizing."""

import re

from benchmarks import messages
from schemas.messages.clock import ClockTick
from schemas.messages.policies import DOCUMENT_BYTES_MAX
from schemas.topics.codec import encode
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.cluster.stage import CLUSTERS_MAX, ClusterStage
from streams.cluster.state import NODES_MAX, PODS_MAX
from streams.migration.limits.budgets import BUDGETS_MAX
from streams.migration.limits.objects import NAMESPACES_MAX
from streams.migration.limits.workloads import WORKLOADS_MAX
from streams.stage.journal import JournalPosition, encode_batch
from streams.stage.records import InputRecord
from tests.docs.pages import ROOT
from tests.streams.world import aggregate_stage

#: Five minutes of metrics after the longest window, one of which has the usage of pods over their lifetimes.
_SAMPLES = messages.SAMPLES_PER_METRIC * 36
_COUNTED = 5


def _documented_bytes(topic: str) -> float:
    page = (ROOT / "docs" / "how-to" / "sizing.md").read_text(encoding="utf-8")
    match = re.search(rf"^\| `{topic}` \| ([0-9.]+) kB a metric with 30 pods", page, re.MULTILINE)
    assert match, topic
    return 1_000 * float(match[1])


def test_a_metric_has_the_size_of_the_page_on_sizing() -> None:
    aggregate, cluster = aggregate_stage({}, PoolRules()), ClusterStage(0, 1)
    ends: dict[str, int] = {}

    def record(topic: str, key: str, value: bytes, at_ms: int = 0) -> InputRecord:
        ends[topic] = ends.get(topic, -1) + 1
        return InputRecord(topic, 0, ends[topic], key.encode(), value, timestamp_ms=at_ms)

    def journal_size(*records: InputRecord) -> int:
        return sum(map(len, encode_batch(0, JournalPosition(), records, cluster.apply(records))))

    (node,) = messages.make_node_states(1)
    journal_size(
        record("node-state", node.cluster, encode(node)),
        *(
            record("pod-lifecycle", node.cluster, encode(message))
            for message in messages.make_running_pods(1, 30)
        ),
    )
    sizes: list[tuple[int, int]] = []
    for sample in messages.make_usage_samples(1, _SAMPLES, 30):
        at_ms = sample.sampled_at_ms
        usage = record("node-usage", f"{sample.cluster}/{sample.node}", encode(sample), at_ms)
        for metric in aggregate.apply([usage]).outputs:
            journal_size(record("clock", "0", encode(ClockTick(partition=0, now_ms=at_ms))))
            written = journal_size(record("node-metrics", metric.key, metric.value))
            sizes.append((len(metric.value), written))
    for topic, of_topic in zip(("node-metrics", "journal"), zip(*sizes, strict=True), strict=True):
        mean = sum(of_topic[-_COUNTED:]) / _COUNTED
        assert abs(mean - _documented_bytes(topic)) < 100, (topic, mean)


def test_the_page_on_sizing_names_the_limits_of_both_stages() -> None:
    page = (ROOT / "docs" / "how-to" / "sizing.md").read_text(encoding="utf-8")
    of_cluster = ", ".join(f"{most:,}" for most in (WORKLOADS_MAX, BUDGETS_MAX, NAMESPACES_MAX))
    for quantity, most in (
        ("nodes of a cluster", f"{NODES_MAX:,}"),
        ("pods of a cluster", f"{PODS_MAX:,}"),
        ("clusters in a partition", f"{CLUSTERS_MAX:,}"),
        ("workloads, disruption budgets, namespaces of a cluster", of_cluster),
        ("nodes in a partition of `node-usage`", f"{AggregateLimits().nodes_per_partition:,}"),
        ("a policy", f"{DOCUMENT_BYTES_MAX // 1024} KiB"),
    ):
        assert f"| {quantity} | {most} |" in page
