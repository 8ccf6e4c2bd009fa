from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.metrics import HostApplicationMetric, NodeMetric, PodLives
from schemas.messages.pods import Container, Pod
from schemas.policy import OverutilizationRiskArgs
from streams.inventory.demand import PodDemand, pod_demand
from streams.inventory.fleet_in_force import FleetInForce
from streams.inventory.fleet_usage import FleetUsage
from streams.inventory.life import PARTS
from streams.inventory.node_lives import SYSTEM
from streams.inventory.node_moments import NodeMoments
from tests.streams.cluster.builders import at, container, metric, pod, pod_metric


@dataclass(frozen=True)
class _Held:
    pod: Pod
    demand: PodDemand
    assigned_at_ms: int


def _held(uid: str, cpu: str = "1", seconds: float = 0, **fields: Any) -> _Held:
    made = pod(uid, cpu=cpu, **fields)
    return _Held(made, pod_demand(made), at(seconds))


def _moments(**args: object) -> NodeMoments:
    figures = FleetUsage(usage_ppm=500_000, variance_ppm=40_000, spread_ppm=90_000)
    asked = OverutilizationRiskArgs.model_validate({"resources": [{"name": "cpu"}], **args})
    return NodeMoments(FleetInForce(asked, (figures,)))


def _metric(minutes: float, system: int = 0, **pods: int) -> NodeMetric:
    return metric(
        cpu=system + sum(pods.values()),
        seconds=60 * minutes,
        system_usage={"cpu": system},
        pods=tuple(pod_metric(name, cpu=used) for name, used in pods.items()),
    )


@pytest.mark.parametrize(("minutes", "least", "most"), [(0, 100, 350), (30, 1_000, 1_500)])
def test_what_was_used_lately_counts_as_far_as_it_lasts(
    minutes: int, least: float, most: float
) -> None:
    moments, held = _moments(recentMinutes=minutes), _held("a")
    moments.add(held)
    for window in range(1, 107):
        used = 100 if window <= 100 else 2_000
        moments.measure(_metric(5 * window, system=used, a=used), [held], fold=True)
    assert bool(moments.lives.recents) == bool(minutes)
    assert set(moments.lives.recents) <= set(moments.lives.of)
    for key in ("a", SYSTEM):
        expected = moments.lives.expected(key)
        assert expected is not None
        assert least < expected[1] / PARTS < most
    (figures,) = moments.figures()
    assert 2 * least < figures[0] < 2 * most


def test_recent_usage_of_a_whole_node_is_not_that_of_a_system_part() -> None:
    moments, held = _moments(), _held("a")
    moments.add(held)
    for window in range(1, 20):
        moments.measure(_metric(5 * window, system=3_000), [held], fold=True)
    moments.measure(_metric(100, system=100, a=200), [held], fold=True)
    assert moments.lives.of[SYSTEM] == (5, 100 * PARTS, 0)
    assert moments.lives.recents[SYSTEM][0] == 100 * PARTS


def test_without_recent_minutes_what_was_known_is_forgotten() -> None:
    moments, held = _moments(), _held("a")
    moments.add(held)
    moments.measure(_metric(5, a=100), [held], fold=True)
    assert set(moments.lives.recents) == {"a", SYSTEM}
    assert not moments.go_by(moments.fleet)
    assert moments.go_by(_moments(recentMinutes=0).fleet)
    assert moments.lives.recents == {}
    assert not moments.go_by(_moments(recentMinutes=0).fleet)


def test_a_pod_that_is_not_measured_is_expected_to_use_what_the_fleet_does() -> None:
    moments = _moments()
    moments.add(_held("a"))
    assert moments.figures() == [(500.0, 40_000.0 + 90_000.0)]


@pytest.mark.parametrize(
    ("args", "mean", "variance"),
    [
        ({}, (500 * 3 + 100 * 4) / 7, 40_000 + 90_000 * 3 / 7),
        ({"meanPriorMinutes": 12}, (500 * 12 + 100 * 4) / 16, 40_000 + 90_000 * 12 / 16),
    ],
)
def test_a_young_pod_is_measured_by_the_newest_metric(
    args: dict[str, int], mean: float, variance: float
) -> None:
    moments, held = _moments(**args), _held("a")
    moments.add(held)
    moments.measure(_metric(-9, 0), [held], fold=True)
    assert moments.measure(_metric(-8, a=900), [held], fold=True) is False
    assert moments.figures() == [(500.0, 130_000.0)]  # it was not there yet
    assert moments.measure(_metric(4, a=100), [held], fold=False) is False
    (figures,) = moments.figures()
    assert figures == pytest.approx((mean, variance), abs=1)


def test_mean_and_variance_are_worked_out_again_once_something_has_changed() -> None:
    moments, held = _moments(), _held("a")
    moments.add(held)
    assert moments.measure(_metric(5, a=900), [held], fold=True)
    before = moments.figures()
    assert moments.measure(_metric(6, a=100), [held], fold=True) is False
    assert moments.figures() is before
    moments.fleet.figures = (FleetUsage(usage_ppm=600_000, variance_ppm=40_000, spread_ppm=90_000),)
    assert moments.figures()[0][0] == pytest.approx((600 * 3 + 900 * 5) / 8, abs=1)
    moments.remove(held)
    assert moments.figures() == [(0.0, 0.0)]


@pytest.mark.parametrize(("args", "prior"), [({}, 30), ({"variancePriorMinutes": 5}, 5)])
def test_a_life_is_added_up_one_window_apart(args: dict[str, int], prior: int) -> None:
    moments, held = _moments(**args), _held("a")
    moments.add(held)
    for minute, used in enumerate((0, 0, 0, 0, 100, 0, 0, 0, 0, 300), start=1):
        folded = moments.measure(_metric(minute, a=used), [held], fold=True)
        assert folded == (minute in (1, 6))
    assert moments.measure(_metric(11, a=500), [held], fold=True)
    assert moments.lives.of["a"] == (11, 500 * PARTS * 5 // 11, 248_964)
    (mean, variance) = moments.figures()[0]
    own = 248.964**2
    assert mean == pytest.approx((500 * 3 + 500 * 5) / 14, abs=1)
    assert variance == pytest.approx(
        (40_000 * prior + own * 6) / (prior + 6) + 90_000 * 3 / 14, abs=2
    )


def test_a_new_pod_of_an_old_name_is_not_measured_in_its_first_minute() -> None:
    moments = _moments()
    old, new = _held("a"), _held("b", seconds=299, name="a")
    moments.add(old)
    moments.measure(_metric(5, a=900), [old], fold=True)
    moments.remove(old)
    moments.add(new)
    assert moments.figures() == [(500.0, 130_000.0)]
    moments.measure(_metric(5.5, a=900), [new], fold=True)
    assert moments.figures() == [(500.0, 130_000.0)]
    moments.measure(_metric(6, a=900), [new], fold=True)
    assert moments.figures()[0][0] == pytest.approx((500 * 3 + 900) / 4, abs=1)
    assert "a" in moments.lives.of  # the life of the pod that has gone ends with the window
    moments.measure(_metric(10, a=900), [new], fold=True)
    assert set(moments.lives.of) == {"b", SYSTEM}


def test_the_system_part_has_a_mean_and_a_variance_of_its_own() -> None:
    moments, held = _moments(), _held("a")
    moments.add(held)
    host = (HostApplicationMetric(name="agent", usage={"cpu": 50}),)
    for minute, system in ((5, 100), (10, 300)):
        said = _metric(minute, system=system, a=0).model_copy(update={"host_applications": host})
        moments.measure(said, [held], fold=True)
    alone = _moments()
    alone.add(held)
    for minute in (5, 10):
        alone.measure(_metric(minute, a=0), [held], fold=True)
    (mean, variance), (mean_alone, variance_alone) = moments.figures()[0], alone.figures()[0]
    assert mean - mean_alone == pytest.approx(250)
    assert variance - variance_alone == pytest.approx(100**2)


def test_a_system_part_that_the_metric_lacks_is_what_no_pod_has_used() -> None:
    moments, held = _moments(), _held("a")
    moments.add(held)
    said = _metric(10, system=700, a=300)
    moments.measure(said.model_copy(update={"system_usage": {}}), [held], fold=True)
    without = moments.figures()
    moments = _moments()
    moments.add(held)
    moments.measure(said, [held], fold=True)
    assert without == moments.figures()


def test_a_node_whose_pods_are_not_measured_is_measured_whole() -> None:
    moments, held = _moments(), _held("a", "4")
    moments.add(held)
    for minute in (5, 10, 15):
        moments.measure(metric(cpu=3_000, seconds=60 * minute), [held], fold=True)
    (mean, variance) = moments.figures()[0]
    assert mean == 3_000
    assert variance == pytest.approx(0.04 * 4_000**2 * 30 / 40)
    late = _held("late", seconds=15 * 60)
    moments.add(late)
    assert moments.figures()[0][0] == 3_500
    # Then they are: what was the system part is so no more.
    moments.measure(_metric(20, system=10, a=3_000, late=0), [held, late], fold=True)
    assert moments.lives.of[SYSTEM] == (5, 10 * PARTS, 0)


def test_usage_counts_once_where_metrics_begin_and_cease_to_name_pods() -> None:
    moments, held, late = _moments(), _held("a", "4"), _held("late", seconds=6 * 60)
    for each in (held, late):
        moments.add(each)
    moments.measure(_metric(5, system=3_000), [held, late], fold=True)
    assert moments.figures()[0][0] == 3_000 + 500
    # Pods are named before the system part is known to be smaller.
    assert not moments.measure(_metric(8, system=1_000, a=2_000), [held, late], fold=True)
    assert moments.figures()[0][0] == 3_000 + 500
    moments.measure(None, [held, late], fold=True)
    assert moments.figures()[0][0] == 3_000 + 500
    assert moments.measure(_metric(10, system=1_000, a=2_000), [held, late], fold=True)
    of_pod = (2_000 * 5 + 2_000 * 3) // 8
    assert moments.figures()[0][0] == 1_000 + of_pod + 500
    # And they are named no more: the system part that is known has none of them.
    assert not moments.measure(_metric(12, system=9_000), [held, late], fold=True)
    assert moments.figures()[0][0] == 1_000 + of_pod + 500
    assert moments.measure(_metric(15, system=9_000), [held, late], fold=True)
    assert moments.figures()[0][0] == 9_000
    assert "a" in moments.lives.of
    for each in (held, late):
        moments.remove(each)
    assert moments.figures()[0][0] == 9_000


def test_a_pod_of_another_class_asks_for_what_its_class_is_given() -> None:
    batch = {"kubernetes.io/batch-cpu": "2k"}
    made = pod("a", priority=5_500)
    container = made.containers[0].model_copy(update={"requests": batch, "limits": batch})
    made = made.model_copy(update={"containers": (container,)})
    moments = _moments()
    moments.add(_Held(made, pod_demand(made), at(0)))
    assert moments.figures()[0][0] == 1_000.0


def test_a_pod_that_requests_nothing_is_expected_to_use_a_little() -> None:
    made = pod("a").model_copy(update={"containers": ()})
    moments = _moments()
    moments.add(_Held(made, pod_demand(made), at(0)))
    assert moments.figures()[0][0] == 250 * 0.5
    free = made.model_copy(update={"priority": 3_500})
    moments.add(_Held(free, pod_demand(free), at(0)))
    assert moments.figures()[0][0] == 250 * 0.5  # nothing: it has what others leave


def _asking(uid: str, *containers: Container) -> _Held:
    made = pod(uid).model_copy(update={"containers": containers})
    return _Held(made, pod_demand(made), at(0))


def test_what_pods_use_that_ask_for_next_to_nothing_is_apart_from_what_others_say() -> None:
    limited = _asking("limited", container(limits={"cpu": "1"}))
    pods = [_held("asking"), limited, _asking("nothing"), _held("little", "249m")]
    moments = _moments()
    for each in pods:
        moments.add(each)
    used = {"asking": 300, "limited": 400, "nothing": 2_000, "little": 249}
    moments.measure(_metric(20, **used), pods, fold=True)
    assert moments.fleet_sums[:2] == (2, 700_000)
    assert moments.tiny_request_sums[:2] == (2, 6_000_000)
    for each in pods:
        moments.remove(each)
    assert not any((*moments.fleet_sums, *moments.tiny_request_sums))


_UIDS = "abcd"
_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.sampled_from(_UIDS), st.sampled_from(("1", "3"))),
        st.tuples(st.just("gone"), st.sampled_from(_UIDS)),
        st.tuples(
            st.just("metric"),
            st.integers(0, 6),
            st.dictionaries(st.sampled_from(_UIDS), st.integers(0, 4_000), max_size=4),
        ),
        st.tuples(st.just("removed")),
    ),
    max_size=30,
)


@given(_EVENTS)
def test_sums_are_those_of_adding_up_all_pods_anew(events: list[tuple[object, ...]]) -> None:
    moments, there, minute = _moments(), dict[str, _Held](), 0
    for event in events:
        match event:
            case ("pod", str() as uid, str() as cpu):
                if uid in there:
                    moments.remove(there[uid])
                there[uid] = _held(uid, cpu, seconds=60 * minute)
                moments.add(there[uid])
            case ("gone", str() as uid):
                if uid in there:
                    moments.remove(there.pop(uid))
            case ("metric", int() as minutes, dict() as used):
                minute += minutes
                moments.measure(_metric(minute, 7, **used), there.values(), fold=True)
            case _:
                moments.measure(None, there.values(), fold=True)
        figures, sums = moments.figures(), moments.fleet_sums
        moments.sum_up(there.values())
        assert (moments.figures(), moments.fleet_sums) == (figures, sums)


def _with_life(said: NodeMetric, **lives: tuple[int, int, int]) -> NodeMetric:
    """The metric with minutes, mean and deviation of the lives of some of its pods."""
    lines = [lives.get(pod.name, (0, -1, -1)) for pod in said.pods]
    minutes, mean, deviation = zip(*lines, strict=True)
    columns = PodLives(minutes=minutes, mean={"cpu": mean}, deviation={"cpu": deviation})
    return said.model_copy(update={"lives": columns})


def test_a_life_of_no_minutes_says_nothing_of_the_pod() -> None:
    moments, held = _moments(), _held("a", seconds=-60_000)
    moments.add(held)
    moments.measure(_with_life(_metric(5, a=900), a=(600, 100, 50)), [held], fold=True)
    unsaid = _with_life(_metric(15, a=900), a=(0, 0, 0))
    assert moments.measure(unsaid, [held], fold=True)
    (minutes, mean, _) = moments.lives.of["a"]
    assert (minutes, mean) == (605, 100 * PARTS + 800 * PARTS * 5 // 605)


def test_a_life_that_the_metric_says_takes_the_place_of_averages() -> None:
    moments, old, young = _moments(), _held("a", seconds=-60_000), _held("b", seconds=120)
    for each in (old, young):
        moments.add(each)
    moments.measure(_metric(5, a=900, b=40), [old, young], fold=True)
    said = _with_life(_metric(6, a=900, b=40), a=(600, 100, 50))
    assert moments.measure(said, [old, young], fold=True)
    assert moments.lives.of["a"] == (600, 100 * PARTS, 50 * PARTS)
    assert moments.lives.of["b"] == (3 + 1, 40 * PARTS, 0)
    # Who has said lives once says them again: averages are not added a window later.
    assert not moments.measure(_metric(12, a=900, b=40), [old, young], fold=True)
    assert moments.measure(_metric(16, a=900, b=40), [old, young], fold=True)
    (minutes, *_) = moments.lives.of["a"]
    assert minutes == 605


@pytest.mark.parametrize(
    "lives",
    [
        PodLives(minutes=(0,), mean={"cpu": (-1,)}, deviation={"cpu": (-1,)}),
        PodLives(minutes=(600,), mean={"memory": (7,)}, deviation={"memory": (0,)}),
    ],
)
def test_lives_that_say_nothing_of_what_is_asked_do_not_make_averages_count_more_often(
    lives: PodLives,
) -> None:
    moments, held = _moments(), _held("a", seconds=-60_000)
    moments.add(held)
    for minute in range(1, 12):
        said = _metric(minute, system=10, a=900).model_copy(update={"lives": lives})
        assert moments.measure(said, [held], fold=True) == (minute in (1, 6, 11))
    assert moments.lives.of["a"][0] == moments.lives.of[SYSTEM][0] == 15


def test_averages_that_come_more_often_than_a_window_count_for_the_time_between_them() -> None:
    # The average window of the collect policy is a minute: lives are said once in that.
    moments, held = _moments(), _held("a")
    moments.add(held)
    surge = 400
    for minute in range(1, surge + 11):
        used = 100 if minute <= surge else 1_000
        said = _with_life(_metric(minute, system=used, a=used), a=(minute, 100, 0))
        assert moments.measure(said, [held], fold=True)
    assert moments.lives.of[SYSTEM][0] == pytest.approx(surge + 10, abs=5)
    for key in ("a", SYSTEM):
        recent = moments.lives.recents[key][0] / PARTS
        # Ten minutes of a surge are less than half of what thirty minutes remember.
        assert 300 < recent < 450, key


def test_a_pod_without_minutes_or_usage_in_the_lives_of_a_metric_is_as_if_it_had_none() -> None:
    held = [_held(name, seconds=-60_000) for name in ("a", "b", "c")]
    some, only = _moments(), _moments()
    for moments in (some, only):
        for each in held:
            moments.add(each)
    plain = _metric(6, a=900, b=40, c=3)
    lives = PodLives(
        minutes=(600, 0, 70), mean={"cpu": (100, 7, -1)}, deviation={"cpu": (50, 7, -1)}
    )
    some.measure(plain.model_copy(update={"lives": lives}), held, fold=True)
    only.measure(_with_life(plain, a=(600, 100, 50)), held, fold=True)
    assert some.lives.of["a"] == (600, 100 * PARTS, 50 * PARTS)
    assert (some.lives.of, some.lives.recents) == (only.lives.of, only.lives.recents)
    assert some.lives.reported


def test_a_life_longer_than_the_pod_is_of_another_pod_of_its_name() -> None:
    moments, held = _moments(), _held("a", seconds=0)
    moments.add(held)
    said = _with_life(_metric(5, a=70), a=(600, 100, 50))
    moments.measure(said, [held], fold=True)
    assert moments.lives.of["a"] == (5, 70 * PARTS, 0)


def test_a_life_that_lacks_a_resource_is_none() -> None:
    moments = _moments(resources=[{"name": "cpu"}, {"name": "memory"}], usagePriorPercent=50)
    moments.fleet.figures *= 2
    held = _held("a", seconds=-60_000)
    moments.add(held)
    moments.measure(_with_life(_metric(5, a=70), a=(600, 100, 50)), [held], fold=True)
    assert moments.lives.of["a"] == (5, 70 * PARTS, 0, 0, 0)
