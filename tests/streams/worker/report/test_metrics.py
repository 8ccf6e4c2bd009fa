"""Figures of a worker."""

import time
from collections import Counter

from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult
from streams.stage.statistics import Counts
from streams.worker.report.metrics import CLUSTERS_MAX, OTHERS, Metrics


def _request(timestamp_ms: int, topic: str = "scheduling-requests") -> InputRecord:
    return InputRecord(topic, 0, 0, b"c", b"{}", timestamp_ms)


def test_each_dead_letter_is_counted_under_the_topic_it_came_from_and_its_category() -> None:
    metrics = Metrics()
    metrics.add_counts("aggregate", Counts(refused=Counter({("node-usage", "late"): 2})))
    labels = {"stage": "aggregate", "topic": "node-usage", "category": "late"}
    assert metrics.registry.get_sample_value("loadstream_dead_letters_total", labels) == 2


def test_records_outputs_and_rows_are_counted_by_topic_and_table() -> None:
    metrics = Metrics()
    metrics.count_batch("cluster", {"clock": 1, "node-state": 9}, 0.003)
    result = StageResult(
        outputs=(OutputRecord("placement-decisions", "c", b"{}"),),
        rows=(RowChange("0/c/nodes/n", b"{}"), RowChange("0/c/nodes/m", None)),
    )
    metrics.count_result("cluster", result)
    value = metrics.registry.get_sample_value
    assert value("loadstream_records_total", {"stage": "cluster", "topic": "node-state"}) == 9
    assert value("loadstream_batch_records_sum", {"stage": "cluster"}) == 10
    assert (
        value("loadstream_outputs_total", {"stage": "cluster", "topic": "placement-decisions"}) == 1
    )
    assert value("loadstream_table_rows_total", {"stage": "cluster", "table": "nodes"}) == 2


def test_decisions_are_counted_by_outcome_and_reason_and_waits_by_their_length() -> None:
    metrics = Metrics()
    decided = Counter({("waiting", "LoadAware"): 3, ("placed", "none"): 2})
    metrics.add_counts("cluster", Counts(decided=decided, waits_s=Counter({0: 1, 40: 1})))
    value = metrics.registry.get_sample_value
    waiting = {"stage": "cluster", "outcome": "waiting", "reason": "LoadAware"}
    assert value("loadstream_decisions_total", waiting) == 3
    stage = {"stage": "cluster"}
    assert value("loadstream_placement_wait_seconds_count", stage) == 2
    assert value("loadstream_placement_wait_seconds_bucket", {**stage, "le": "30.0"}) == 1


def test_counters_of_a_known_cluster_start_at_zero() -> None:
    metrics = Metrics()
    metrics.add_counts("cluster", Counts(clusters={"blue": None}))
    value = metrics.registry.get_sample_value
    of_blue = {"stage": "cluster", "cluster": "blue"}
    command = {**of_blue, "trigger": "drain", "mode": "enforce"}
    assert value("loadstream_eviction_commands_total", command) == 0
    assert value("loadstream_move_outcomes_total", {**of_blue, "outcome": "returned"}) == 0
    metrics.add_counts("cluster", Counts(moves=Counter({("blue", "returned"): 2})))
    assert value("loadstream_move_outcomes_total", {**of_blue, "outcome": "returned"}) == 2


def test_clusters_beyond_the_bound_of_labels_are_counted_together() -> None:
    metrics = Metrics()
    names = {f"c{number}": None for number in range(CLUSTERS_MAX + 2)}
    metrics.add_counts("cluster", Counts(clusters=names))
    metrics.add_counts("cluster", Counts(moves=Counter({(name, "all"): 1 for name in names})))
    value = metrics.registry.get_sample_value
    others = {"stage": "cluster", "cluster": OTHERS, "outcome": "all"}
    assert value("loadstream_move_outcomes_total", others) == 2
    assert value("loadstream_move_outcomes_total", {**others, "cluster": "c0"}) == 1


def test_the_latency_of_requests_alone_is_measured_and_only_where_clocks_agree() -> None:
    now_ms = time.time_ns() // 1_000_000
    # No producer's clock has sent the others.
    far_ms = 4_102_444_800_000
    records = [_request(now_ms - 100), *map(_request, (-1, 0, 1, now_ms + 60_000, far_ms))]
    counts = {}
    for wall_clock in (True, False):
        metrics = Metrics(wall_clock=wall_clock)
        metrics.start_stage("cluster", ["scheduling-requests"], 4)
        metrics.observe_latency("cluster", [*records, _request(now_ms, "clock")])
        name = "loadstream_decision_latency_seconds"
        value = metrics.registry.get_sample_value
        counts[wall_clock] = value(f"{name}_count", {"stage": "cluster"})
        assert 0 <= (value(f"{name}_sum", {"stage": "cluster"}) or 0) < 3_600
    assert counts == {True: 1, False: 0}


def test_a_worker_without_partitions_has_none_until_recovery() -> None:
    metrics = Metrics()
    metrics.start_stage("cluster", ["clock"], 4)
    labels = {"stage": "cluster"}

    def shown() -> float | None:
        return metrics.registry.get_sample_value("loadstream_partitions", labels)

    seen = [shown()]
    metrics.observe_recovery("cluster", 4, 9, 0.5)
    seen.append(shown())
    metrics.clear_partitions("cluster")
    seen.append(shown())
    assert seen == [0, 4, 0]
    assert metrics.registry.get_sample_value("loadstream_topic_partitions", labels) == 4
