"""What pods used over their lives: kept with their samples, and said once in a window."""

import math
from collections.abc import Callable
from random import Random

import pytest

from schemas.metrics import NodeMetric
from streams.aggregate.collect import Collecting
from tests.streams.aggregate.builders import MINUTE, T0, Log, metrics, pod, sample, stage, store

_Used = Callable[[int], int]


class _Node:
    """A node that is measured once a minute; the stage starts again whenever it is said."""

    def __init__(self) -> None:
        self.log, self.table = Log(), dict[str, bytes]()
        self.stage = stage(collecting=Collecting())
        self.said: list[NodeMetric] = []
        self.minute = 0

    def measure(self, minutes: int, uid: str | None = None, **pods: _Used) -> None:
        """Pods by name, with their usage of a minute."""
        for minute in range(self.minute, self.minute + minutes):
            used = [pod(name, of(minute), uid=uid) for name, of in pods.items()]
            record = self.log.add(sample(T0 + MINUTE * minute, pods=used))
            result = self.stage.apply(record)
            self.said += metrics(result.outputs)
            store(self.table, result.rows)
        self.minute += minutes

    def restart(self) -> None:
        self.stage = stage(self.table, collecting=Collecting())


def _lives(of: _Node) -> list[tuple[int, str, int, int, int]]:
    """Minute, pod, minutes of its life, mean and deviation of cpu."""
    return [
        (
            ((metric.updated_at_ms or 0) - T0) // MINUTE,
            each.name,
            each.life.minutes,
            each.life.mean["cpu"],
            each.life.deviation["cpu"],
        )
        for metric in of.said
        for each in metric.pods
        if each.life is not None
    ]


def test_a_life_is_said_once_in_a_window() -> None:
    node = _Node()
    node.measure(17, a=lambda _: 300)
    assert _lives(node) == [(minute, "a", minute + 1, 300, 0) for minute in (5, 10, 15)]


def test_mean_and_deviation_are_those_of_all_samples() -> None:
    random, node = Random(5), _Node()
    used = [random.randint(0, 2_000) for _ in range(121)]
    node.measure(121, a=lambda minute: used[minute])
    (_, _, minutes, mean, deviation) = _lives(node)[-1]
    assert minutes == 121
    expected = math.fsum(used) / len(used)
    spread = math.sqrt(math.fsum((each - expected) ** 2 for each in used) / len(used))
    assert mean == pytest.approx(expected, abs=1)
    assert deviation == pytest.approx(spread, abs=1)


@pytest.mark.parametrize("minutes", [3, 5, 6, 13])
def test_a_restart_changes_no_life(minutes: int) -> None:
    steady, restarted = _Node(), _Node()
    for node in (steady, restarted):
        node.measure(minutes, a=lambda minute: 7 * minute, b=lambda _: 90)
        if node is restarted:
            node.restart()
        node.measure(14, a=lambda minute: 7 * minute, b=lambda _: 90)
    assert steady.said == restarted.said
    assert len(_lives(steady)) >= 6


def test_a_pod_that_comes_later_is_younger_and_one_that_comes_back_begins_anew() -> None:
    node = _Node()
    node.measure(8, a=lambda _: 100)
    node.measure(8, a=lambda _: 100, b=lambda _: 50)
    node.measure(10, b=lambda _: 50)
    node.measure(15, a=lambda _: 700, b=lambda _: 50)
    last = {name: (minutes, mean) for _, name, minutes, mean, _ in _lives(node)}
    assert last == {"a": (15, 700), "b": (33, 50)}


def test_another_pod_of_the_same_name_has_a_life_of_its_own() -> None:
    node = _Node()
    node.measure(11, a=lambda _: 900)
    node.measure(15, uid="another", a=lambda _: 10)
    (_, _, minutes, mean, _) = _lives(node)[-1]
    assert (minutes, mean) == (15, 10)


def test_a_window_without_pods_ends_all_lives() -> None:
    node = _Node()
    node.measure(11, a=lambda _: 900)
    node.measure(7)
    node.measure(6, a=lambda _: 10)
    assert _lives(node)[-1][2:] == (6, 10, 0)


def test_a_late_sample_is_in_no_life() -> None:
    node = _Node()
    node.measure(6, a=lambda _: 100)
    late = node.log.add(sample(T0 + 3 * MINUTE + 1, pods=[pod("a", 60_000)]))
    store(node.table, node.stage.apply(late).rows)
    node.measure(6, a=lambda _: 100)
    assert {life[3:] for life in _lives(node)} == {(100, 0)}


def test_the_largest_amounts_can_be_written_and_read_again() -> None:
    node = _Node()
    node.measure(11, a=lambda minute: (2**63 - 1) * (minute % 2))
    node.restart()
    node.measure(6, a=lambda _: 0)
    assert all(life[3] <= 2**50 for life in _lives(node))
    assert len(_lives(node)) == 3


def test_a_resource_that_is_not_measured_for_a_window_begins_anew_and_others_go_on() -> None:
    node = _Node()
    for minute in range(23):
        used = pod("a", 100)
        if not 4 < minute < 12:
            used["usage"]["gpu"] = minute
        record = node.log.add(sample(T0 + MINUTE * minute, pods=[used]))
        result = node.stage.apply(record)
        node.said += metrics(result.outputs)
        store(node.table, result.rows)
        node.restart()
    lives = [each.pods[0].life for each in node.said if each.pods and each.pods[0].life]
    assert [life.minutes for life in lives] == [6, 11, 16, 21]
    assert [life.mean.get("gpu") for life in lives] == [2, None, 13, 14]
