"""Lifetimes of pods: kept with their samples, and reported once in a window."""

from collections import Counter
from collections.abc import Callable

import orjson
import pytest

from schemas.messages.metrics import NodeMetric
from streams.aggregate.collect_policies import PoolRules
from streams.stage.packing import apply_changes
from streams.stage.records import DamagedTable
from tests.streams.builders import (
    MINUTE,
    START_MS,
    collect_policy,
    collect_policy_record,
    pod_usage,
    sample,
)
from tests.streams.world import SampleWorld, read_metrics

_Used = Callable[[int], int]


class _Node(SampleWorld):
    """A node that is measured once a minute."""

    def __init__(self) -> None:
        super().__init__(PoolRules())
        self.metrics: list[NodeMetric] = []
        self.minute = 0

    def measure(self, minutes: int, uid: str | None = None, **pods: _Used) -> None:
        """Pods by name, with their usage of a minute."""
        for minute in range(self.minute, self.minute + minutes):
            used = [pod_usage(name, of(minute), uid=uid) for name, of in pods.items()]
            record = self.log.add(sample(60 * minute, pods=used))
            self.metrics += read_metrics(self.apply(record).outputs)
        self.minute += minutes


def _lifetimes(of: _Node) -> list[tuple[int, str, int, int, int]]:
    """Minute, pod, minutes of its lifetime, mean and deviation of cpu."""
    return [
        (
            ((metric.updated_at_ms or 0) - START_MS) // MINUTE,
            pod.name,
            minutes,
            metric.lifetimes.mean["cpu"][index],
            metric.lifetimes.deviation["cpu"][index],
        )
        for metric in of.metrics
        if metric.lifetimes is not None
        for index, (pod, minutes) in enumerate(
            zip(metric.pods, metric.lifetimes.minutes, strict=True)
        )
        if minutes
    ]


def test_a_lifetime_is_reported_once_per_window() -> None:
    node = _Node()
    node.measure(17, a=lambda _: 300)
    assert _lifetimes(node) == [(minute, "a", minute + 1, 300, 0) for minute in (5, 10, 15)]


def test_a_lifetime_starts_with_its_pod_and_starts_again_after_an_absence() -> None:
    node = _Node()
    node.measure(8, a=lambda _: 100)
    node.measure(8, a=lambda _: 100, b=lambda _: 50)
    node.measure(10, b=lambda _: 50)
    node.measure(15, a=lambda _: 700, b=lambda _: 50)
    last = {name: (minutes, mean) for _, name, minutes, mean, _ in _lifetimes(node)}
    assert last == {"a": (15, 700), "b": (33, 50)}


def test_another_pod_of_the_same_name_has_a_lifetime_of_its_own() -> None:
    node = _Node()
    node.measure(11, a=lambda _: 900)
    node.measure(15, uid="another", a=lambda _: 10)
    (_, _, minutes, mean, _) = _lifetimes(node)[-1]
    assert (minutes, mean) == (15, 10)


def test_a_window_without_pods_ends_all_lifetimes() -> None:
    node = _Node()
    node.measure(11, a=lambda _: 900)
    node.measure(7)
    node.measure(6, a=lambda _: 10)
    assert _lifetimes(node)[-1][2:] == (6, 10, 0)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_ended_lifetimes_are_not_reported_for_any_batch_sizes(
    size: int,
) -> None:
    node = SampleWorld(PoolRules(collect_policy(report_s=300)))
    records = [
        *node.log.add(*(sample(60 * at, pods=[pod_usage("a", 100)]) for at in (0, 1))),
        *node.log.add(sample(299.995)),
        # Late: it is in the averages, and begins no life.
        *node.log.add(sample(299.99, pods=[pod_usage("a", 100)])),
        *node.log.add(sample(300)),
    ]
    metrics = [
        metric
        for begin in range(0, len(records), size)
        for metric in read_metrics(node.apply(records[begin : begin + size]).outputs)
    ]
    assert [[pod.name for pod in metric.pods] for metric in metrics] == [["a"]]
    assert [metric.lifetimes for metric in metrics] == [None]


def test_a_late_sample_does_not_count_in_a_lifetime() -> None:
    node = _Node()
    node.measure(6, a=lambda _: 100)
    late = node.log.add(sample(180 + 0.001, pods=[pod_usage("a", 60_000)]))
    apply_changes(node.table, node.stage.apply(late).rows)
    node.measure(6, a=lambda _: 100)
    assert {life[3:] for life in _lifetimes(node)} == {(100, 0)}


def test_the_largest_amounts_can_be_written_and_read_again() -> None:
    node = _Node()
    node.measure(11, a=lambda minute: 2**50 * (minute % 2))
    node.restart()
    node.measure(6, a=lambda _: 0)
    assert all(life[3] <= 2**50 for life in _lifetimes(node))
    assert len(_lifetimes(node)) == 3


def test_a_resource_without_measurements_for_a_window_starts_again() -> None:
    node = _Node()
    for minute in range(23):
        used = pod_usage("a", 100)
        if not 4 < minute < 12:
            used["usage"]["gpu"] = minute
        record = node.log.add(sample(60 * minute, pods=[used]))
        result = node.stage.apply(record)
        node.metrics += read_metrics(result.outputs)
        apply_changes(node.table, result.rows)
        node.restart()
    lifetimes = [metric.lifetimes for metric in node.metrics if metric.lifetimes is not None]
    assert [life.minutes for life in lifetimes] == [(6,), (11,), (16,), (21,)]
    assert [life.mean.get("gpu") for life in lifetimes] == [(2,), None, (13,), (14,)]


def test_a_lifetimes_column_for_other_pods_is_an_error_that_names_its_row() -> None:
    node = _Node()
    node.measure(3, a=lambda _: 300, b=lambda _: 90)
    ((key, value),) = ((key, value) for key, value in node.table.items() if b'"lifetimes"' in value)
    row = orjson.loads(value)
    row["lifetimes"]["mean"]["cpu"] = [300_000, 90_000, 90_000]
    node.table[key] = orjson.dumps(row)
    with pytest.raises(DamagedTable, match="columns do not fit together") as refused:
        node.restart()
    assert refused.value.row == key


def test_lifetimes_of_a_missing_sample_are_an_error_that_names_it() -> None:
    node = _Node()
    node.measure(3, a=lambda _: 300)
    ((key, value),) = ((key, value) for key, value in node.table.items() if b'"lifetimes"' in value)
    row = orjson.loads(value)
    row["lifetimes"]["samples"] = [7]
    node.table[key] = orjson.dumps(row)
    with pytest.raises(DamagedTable, match="columns do not fit together"):
        node.restart()


def test_lifetimes_are_not_written_again_with_each_small_batch() -> None:
    world = SampleWorld(collecting=PoolRules())
    written = Counter[int]()
    for minute in range(30):
        used = [pod_usage(f"p{number}", 100 + number) for number in range(30)]
        for node in range(20):
            record = world.log.add(sample(60 * minute + node / 1000, node=f"n{node}", pods=used))
            for row in world.apply(record).rows:
                if row.value is not None and "/pod_samples/" in row.key:
                    columns = orjson.loads(row.value)
                    lived = columns.get("lifetimes", {}).get("samples", ())
                    written.update(columns["offset"][index] for index in lived)
    assert len(written) == 6 * 20
    assert max(written.values()) <= 5


def test_a_shorter_window_ends_no_lifetime_and_a_restart_then_changes_nothing() -> None:
    def measure(*, restarted: bool) -> _Node:
        node = _Node()
        node.measure(8, a=lambda minute: 7 * minute)
        policy = collect_policy(average_s=60, report_s=60, durations_s=(1_800,))
        node.apply([node.log.record(collect_policy_record(policy))])
        node.measure(1, a=lambda minute: 7 * minute)
        if restarted:
            node.restart()
        node.measure(6, a=lambda minute: 7 * minute)
        return node

    steady = measure(restarted=False)
    assert _lifetimes(steady)[-1][2] >= 12
    assert steady.metrics == measure(restarted=True).metrics
