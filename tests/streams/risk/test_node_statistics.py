from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.metrics import HostApplicationMetric, NodeMetric, PodLifetimes, PodMetric
from schemas.messages.pods import Container
from schemas.policy import OverutilizationRiskArgs
from streams.pods.held_pod import HeldPod
from streams.pods.kind import kind_of
from streams.risk.fleet_usage import Fleet, FleetUsage
from streams.risk.lifetimes import PARTS, expect_usage
from streams.risk.node_statistics import SYSTEM, NodeStatistics
from tests.streams.builders import at, container, metric, pod, pod_metric


def _held(uid: str, cpu: str = "1", seconds: float = 0, **fields: Any) -> HeldPod:
    member = pod(uid, cpu=cpu, **fields)
    return HeldPod(member, kind_of(member), at(seconds))


def _statistics(**args: object) -> NodeStatistics:
    figures = FleetUsage(usage_ppm=500_000, variance_ppm=40_000, spread_ppm=90_000)
    arguments = OverutilizationRiskArgs.model_validate({"resources": [{"name": "cpu"}], **args})
    fleet = Fleet(arguments)
    fleet.figures = (figures,)
    return NodeStatistics(fleet)


def _metric(minutes: float, system: int = 0, **pods: int) -> NodeMetric:
    return metric(
        cpu=system + sum(pods.values()),
        seconds=60 * minutes,
        system_usage={"cpu": system},
        pods=tuple(pod_metric(name, cpu=used) for name, used in pods.items()),
    )


@pytest.mark.parametrize(("minutes", "least", "most"), [(0, 100, 350), (30, 1_000, 1_500)])
def test_recent_usage_counts_while_it_lasts(minutes: int, least: float, most: float) -> None:
    statistics, held = _statistics(recentMinutes=minutes), _held("a")
    statistics.add(held)
    for window in range(1, 107):
        used = 100 if window <= 100 else 2_000
        statistics.apply_metric(_metric(5 * window, system=used, a=used), [held], extend=True)
    for key in ("a", SYSTEM):
        lifetime = statistics.lifetimes[key]
        assert bool(lifetime.recent) == bool(minutes)
        assert least < expect_usage(lifetime).usage[0] / PARTS < most
    (figures,) = statistics.get_figures()
    assert 2 * least < figures[0] < 2 * most


def test_recent_usage_of_a_whole_node_is_not_that_of_a_system_part() -> None:
    statistics, held = _statistics(), _held("a")
    statistics.add(held)
    for window in range(1, 20):
        statistics.apply_metric(_metric(5 * window, system=3_000), [held], extend=True)
    statistics.apply_metric(_metric(100, system=100, a=200), [held], extend=True)
    assert statistics.lifetimes[SYSTEM][:2] == (5, (100 * PARTS, 0))
    assert statistics.lifetimes[SYSTEM].recent[0] == 100 * PARTS


def test_without_recent_minutes_recent_usage_is_forgotten() -> None:
    statistics, held = _statistics(), _held("a")
    statistics.add(held)
    statistics.apply_metric(_metric(5, a=100), [held], extend=True)
    assert all(statistics.lifetimes[key].recent for key in ("a", SYSTEM))
    without = _statistics(recentMinutes=0).fleet
    assert not statistics.set_fleet(statistics.fleet, None, [held])
    assert statistics.set_fleet(without, None, [held])
    assert not any(lifetime.recent for lifetime in statistics.lifetimes.values())
    assert not statistics.set_fleet(without, None, [held])


def test_a_pod_without_measurements_is_expected_to_use_the_fleet_mean() -> None:
    statistics = _statistics()
    statistics.add(_held("a"))
    assert statistics.get_figures() == [(500.0, 40_000.0 + 90_000.0)]


def test_a_young_pod_is_measured_by_the_newest_metric() -> None:
    statistics, held = _statistics(), _held("a")
    statistics.add(held)
    statistics.apply_metric(_metric(-9, 0), [held], extend=True)
    assert statistics.apply_metric(_metric(-8, a=900), [held], extend=True) is False
    assert statistics.get_figures() == [(500.0, 130_000.0)]  # it was not there yet
    assert statistics.apply_metric(_metric(4, a=100), [held], extend=False) is False
    (figures,) = statistics.get_figures()
    mean, variance = (500 * 3 + 100 * 4) / 7, 40_000 + 90_000 * 3 / 7
    assert figures == pytest.approx((mean, variance), abs=1)


def test_a_metric_is_read_once_and_not_once_for_each_young_pod() -> None:
    class Read(tuple[PodMetric, ...]):
        reads = 0

        def __iter__(self) -> Iterator[PodMetric]:
            Read.reads += 1
            return super().__iter__()

        def __reversed__(self) -> Iterator[PodMetric]:
            Read.reads += 1
            return reversed(tuple(self))

    names = [f"p{number}" for number in range(20)]
    held, statistics = [_held(name) for name in names], _statistics()
    statistics.sum_up(held)
    read = Read(pod_metric(name, cpu=100) for name in names)
    report = metric(cpu=3000).model_copy(update={"pods": read})
    statistics.apply_metric(report, held, extend=False)
    assert Read.reads < len(names) / 2
    assert statistics.get_figures()[0][0] >= 2000


def test_mean_and_variance_are_worked_out_again_once_something_has_changed() -> None:
    statistics, held = _statistics(), _held("a")
    statistics.add(held)
    assert statistics.apply_metric(_metric(5, a=900), [held], extend=True)
    before = statistics.get_figures()
    assert statistics.apply_metric(_metric(6, a=100), [held], extend=True) is False
    assert statistics.get_figures() is before
    statistics.fleet.figures = (
        FleetUsage(usage_ppm=600_000, variance_ppm=40_000, spread_ppm=90_000),
    )
    assert statistics.get_figures()[0][0] == pytest.approx((600 * 3 + 900 * 5) / 8, abs=1)
    statistics.remove(held)
    assert statistics.get_figures() == [(0.0, 0.0)]


def test_a_lifetime_is_extended_once_in_a_window() -> None:
    statistics, held = _statistics(), _held("a")
    statistics.add(held)
    for minute, used in enumerate((0, 0, 0, 0, 100, 0, 0, 0, 0, 300), start=1):
        extended = statistics.apply_metric(_metric(minute, a=used), [held], extend=True)
        assert extended == (minute in (1, 6))
    assert statistics.apply_metric(_metric(11, a=500), [held], extend=True)
    assert statistics.lifetimes["a"][:2] == (11, (500 * PARTS * 5 // 11, 248_964))
    (mean, variance) = statistics.get_figures()[0]
    own_variance = 248.964**2
    assert mean == pytest.approx((500 * 3 + 500 * 5) / 14, abs=1)
    assert variance == pytest.approx((40_000 * 30 + own_variance * 6) / 36 + 90_000 * 3 / 14, abs=2)


def test_a_new_pod_of_an_old_name_is_not_measured_in_its_first_minute() -> None:
    statistics = _statistics()
    old, new = _held("a"), _held("b", seconds=299, name="a")
    statistics.add(old)
    statistics.apply_metric(_metric(5, a=900), [old], extend=True)
    statistics.remove(old)
    statistics.add(new)
    assert statistics.get_figures() == [(500.0, 130_000.0)]
    statistics.apply_metric(_metric(5.5, a=900), [new], extend=True)
    assert statistics.get_figures() == [(500.0, 130_000.0)]
    statistics.apply_metric(_metric(6, a=900), [new], extend=True)
    assert statistics.get_figures()[0][0] == pytest.approx((500 * 3 + 900) / 4, abs=1)
    assert "a" in statistics.lifetimes  # the lifetime of the pod that has gone ends with the window
    statistics.apply_metric(_metric(10, a=900), [new], extend=True)
    assert set(statistics.lifetimes) == {"b", SYSTEM}


def test_the_system_part_has_a_mean_and_a_variance_of_its_own() -> None:
    statistics, held = _statistics(), _held("a")
    statistics.add(held)
    host = (HostApplicationMetric(name="agent", usage={"cpu": 50}),)
    for minute, system in ((5, 100), (10, 300)):
        report = _metric(minute, system=system, a=0).model_copy(update={"host_applications": host})
        statistics.apply_metric(report, [held], extend=True)
    alone = _statistics()
    alone.add(held)
    for minute in (5, 10):
        alone.apply_metric(_metric(minute, a=0), [held], extend=True)
    mean, variance = statistics.get_figures()[0]
    mean_alone, variance_alone = alone.get_figures()[0]
    assert mean - mean_alone == pytest.approx(250)
    assert variance - variance_alone == pytest.approx(100**2)


def test_a_missing_system_part_is_the_usage_that_no_pod_has() -> None:
    statistics, held = _statistics(), _held("a")
    statistics.add(held)
    report = _metric(10, system=700, a=300)
    statistics.apply_metric(report.model_copy(update={"system_usage": {}}), [held], extend=True)
    without = statistics.get_figures()
    statistics = _statistics()
    statistics.add(held)
    statistics.apply_metric(report, [held], extend=True)
    assert without == statistics.get_figures()


def test_usage_of_unknown_pods_belongs_to_the_system_part() -> None:
    held = _held("a")
    report = _metric(10, system=100, a=300, unknown=6_000)
    for gone, system in (((), 6_100), (({"cpu": 6_000},), 100)):
        statistics = _statistics()
        statistics.add(held)
        statistics.apply_metric(report, [held], gone, extend=True)
        assert statistics.lifetimes[SYSTEM].usage == (system * PARTS, 0)


def test_a_resource_that_a_metric_lacks_stays_as_it_was_known() -> None:
    old, young = _held("a"), _held("young", seconds=9 * 60)
    statistics = _statistics()
    statistics.add(old)
    statistics.apply_metric(_metric(5, system=100, a=2_000), [old], extend=True)
    statistics.add(young)
    before = statistics.get_figures()
    blind = metric(usage={"memory": 5}, seconds=600, pods=(pod_metric("a", memory=5),))
    assert statistics.apply_metric(blind, [old, young], extend=True)
    assert statistics.lifetimes["a"].usage == (2_000 * PARTS, 0)
    assert statistics.lifetimes[SYSTEM].usage == (100 * PARTS, 0)
    after = statistics.get_figures()
    assert after[0][0] >= before[0][0]
    # A pod without measurements counts with its request.
    assert statistics.compute_pod_figures(young)[0][0] == 500


def test_a_node_whose_pods_are_not_measured_is_measured_whole() -> None:
    statistics, held = _statistics(), _held("a", "4")
    statistics.add(held)
    for minute in (5, 10, 15):
        statistics.apply_metric(metric(cpu=3_000, seconds=60 * minute), [held], extend=True)
    (mean, variance) = statistics.get_figures()[0]
    assert mean == 3_000
    assert variance == pytest.approx(0.04 * 4_000**2 * 30 / 40)
    late = _held("late", seconds=15 * 60)
    statistics.add(late)
    assert statistics.get_figures()[0][0] == 3_500
    # Once pods are measured, the former system part is dropped.
    statistics.apply_metric(_metric(20, system=10, a=3_000, late=0), [held, late], extend=True)
    assert statistics.lifetimes[SYSTEM][:2] == (5, (10 * PARTS, 0))


def test_usage_counts_once_when_metrics_start_or_stop_naming_pods() -> None:
    statistics, held, late = _statistics(), _held("a", "4"), _held("late", seconds=6 * 60)
    for member in (held, late):
        statistics.add(member)
    statistics.apply_metric(_metric(5, system=3_000), [held, late], extend=True)
    assert statistics.get_figures()[0][0] == 3_000 + 500
    # Pods are named before the system part is known to be smaller.
    assert not statistics.apply_metric(_metric(8, system=1_000, a=2_000), [held, late], extend=True)
    assert statistics.get_figures()[0][0] == 3_000 + 500
    statistics.apply_metric(None, [held, late], extend=True)
    assert statistics.get_figures()[0][0] == 3_000 + 500
    assert statistics.apply_metric(_metric(10, system=1_000, a=2_000), [held, late], extend=True)
    of_pod = (2_000 * 5 + 2_000 * 3) // 8
    assert statistics.get_figures()[0][0] == 1_000 + of_pod + 500
    # And they are named no more: the system part that is known has none of them.
    assert not statistics.apply_metric(_metric(12, system=9_000), [held, late], extend=True)
    assert statistics.get_figures()[0][0] == 1_000 + of_pod + 500
    assert statistics.apply_metric(_metric(15, system=9_000), [held, late], extend=True)
    assert statistics.get_figures()[0][0] == 9_000
    assert "a" in statistics.lifetimes
    for member in (held, late):
        statistics.remove(member)
    assert statistics.get_figures()[0][0] == 9_000


def test_a_pod_of_another_class_counts_with_the_requests_of_its_class() -> None:
    batch = {"kubernetes.io/batch-cpu": "2k"}
    batch_pod = pod("a", priority=5_500)
    container = batch_pod.containers[0].model_copy(update={"requests": batch, "limits": batch})
    batch_pod = batch_pod.model_copy(update={"containers": (container,)})
    statistics = _statistics()
    statistics.add(HeldPod(batch_pod, kind_of(batch_pod), at(0)))
    assert statistics.get_figures()[0][0] == 1_000.0


def test_a_pod_that_requests_nothing_is_expected_to_use_a_little() -> None:
    bare = pod("a").model_copy(update={"containers": ()})
    statistics = _statistics()
    statistics.add(HeldPod(bare, kind_of(bare), at(0)))
    assert statistics.get_figures()[0][0] == 250 * 0.5
    free = bare.model_copy(update={"priority": 3_500})
    statistics.add(HeldPod(free, kind_of(free), at(0)))
    assert statistics.get_figures()[0][0] == 250 * 0.5  # free pods add nothing


def _asking(uid: str, *containers: Container) -> HeldPod:
    member = pod(uid).model_copy(update={"containers": containers})
    return HeldPod(member, kind_of(member), at(0))


def test_pods_with_tiny_requests_are_summed_separately() -> None:
    limited = _asking("limited", container(limits={"cpu": "1"}))
    pods = [_held("asking"), limited, _asking("nothing"), _held("little", "249m")]
    statistics = _statistics()
    for member in pods:
        statistics.add(member)
    used = {"asking": 300, "limited": 400, "nothing": 2_000, "little": 249}
    statistics.apply_metric(_metric(20, **used), pods, extend=True)
    assert statistics.fleet_sums[:2] == (2, 700_000)
    assert statistics.tiny_request_sums[:2] == (2, 6_000_000)
    for member in pods:
        statistics.remove(member)
    assert not any((*statistics.fleet_sums, *statistics.tiny_request_sums))


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
def test_updated_sums_equal_new_ones(events: list[tuple[object, ...]]) -> None:
    statistics, held, minute = _statistics(), dict[str, HeldPod](), 0
    for event in events:
        match event:
            case ("pod", str() as uid, str() as cpu):
                if uid in held:
                    statistics.remove(held[uid])
                held[uid] = _held(uid, cpu, seconds=60 * minute)
                statistics.add(held[uid])
            case ("gone", str() as uid):
                if uid in held:
                    statistics.remove(held.pop(uid))
            case ("metric", int() as minutes, dict() as used):
                minute += minutes
                statistics.apply_metric(_metric(minute, 7, **used), held.values(), extend=True)
            case _:
                statistics.apply_metric(None, held.values(), extend=True)
        figures, sums = statistics.get_figures(), statistics.fleet_sums
        statistics.sum_up(held.values())
        assert (statistics.get_figures(), statistics.fleet_sums) == (figures, sums)


def _with_lifetimes(report: NodeMetric, **lifetimes: tuple[int, int, int]) -> NodeMetric:
    """The metric with lifetimes of some of its pods: minutes, mean and deviation."""
    lines = [lifetimes.get(pod.name, (0, -1, -1)) for pod in report.pods]
    minutes, mean, deviation = zip(*lines, strict=True)
    columns = PodLifetimes(minutes=minutes, mean={"cpu": mean}, deviation={"cpu": deviation})
    return report.model_copy(update={"lifetimes": columns})


def test_a_lifetime_in_the_metric_replaces_averages() -> None:
    statistics, old, young = _statistics(), _held("a", seconds=-60_000), _held("b", seconds=120)
    for member in (old, young):
        statistics.add(member)
    statistics.apply_metric(_metric(5, a=900, b=40), [old, young], extend=True)
    report = _with_lifetimes(_metric(6, a=900, b=40), a=(600, 100, 50))
    assert statistics.apply_metric(report, [old, young], extend=True)
    assert statistics.lifetimes["a"][:2] == (600, (100 * PARTS, 50 * PARTS))
    assert statistics.lifetimes["b"][:2] == (3 + 1, (40 * PARTS, 0))
    # A node that reported lifetimes will report them again: averages are not used a window later.
    assert not statistics.apply_metric(_metric(12, a=900, b=40), [old, young], extend=True)
    assert statistics.apply_metric(_metric(16, a=900, b=40), [old, young], extend=True)
    assert statistics.lifetimes["a"].minutes == 605


@pytest.mark.parametrize(
    "lifetimes",
    [
        PodLifetimes(minutes=(0,), mean={"cpu": (-1,)}, deviation={"cpu": (-1,)}),
        PodLifetimes(minutes=(600,), mean={"memory": (7,)}, deviation={"memory": (0,)}),
    ],
)
def test_lifetimes_without_the_resources_of_the_policy_do_not_make_averages_count_more_often(
    lifetimes: PodLifetimes,
) -> None:
    statistics, held = _statistics(), _held("a", seconds=-60_000)
    statistics.add(held)
    for minute in range(1, 12):
        report = _metric(minute, system=10, a=900).model_copy(update={"lifetimes": lifetimes})
        assert statistics.apply_metric(report, [held], extend=True) == (minute in (1, 6, 11))
    assert statistics.lifetimes["a"].minutes == statistics.lifetimes[SYSTEM].minutes == 15


def test_averages_that_come_more_often_than_a_window_count_for_the_time_between_them() -> None:
    # The average window of the collect policy is a minute: lifetimes are reported once in that.
    statistics, held = _statistics(), _held("a")
    statistics.add(held)
    surge = 400
    for minute in range(1, surge + 11):
        used = 100 if minute <= surge else 1_000
        report = _with_lifetimes(_metric(minute, system=used, a=used), a=(minute, 100, 0))
        assert statistics.apply_metric(report, [held], extend=True)
    assert statistics.lifetimes[SYSTEM].minutes == pytest.approx(surge + 10, abs=5)
    for key in ("a", SYSTEM):
        recent = statistics.lifetimes[key].recent[0] / PARTS
        # Ten minutes of a surge are less than half of what thirty minutes remember.
        assert 300 < recent < 450, key


def test_a_pod_without_minutes_or_usage_in_the_lifetimes_of_a_metric_has_no_lifetime_there() -> (
    None
):
    held = [_held(name, seconds=-60_000) for name in ("a", "b", "c")]
    some, only = _statistics(), _statistics()
    for statistics in (some, only):
        for member in held:
            statistics.add(member)
    plain = _metric(6, a=900, b=40, c=3)
    lifetimes = PodLifetimes(
        minutes=(600, 0, 70), mean={"cpu": (100, 7, -1)}, deviation={"cpu": (50, 7, -1)}
    )
    some.apply_metric(plain.model_copy(update={"lifetimes": lifetimes}), held, extend=True)
    only.apply_metric(_with_lifetimes(plain, a=(600, 100, 50)), held, extend=True)
    assert some.lifetimes["a"][:2] == (600, (100 * PARTS, 50 * PARTS))
    assert some.lifetimes == only.lifetimes
    assert some.extended_by_report


def test_a_lifetime_longer_than_the_pod_is_of_another_pod_of_its_name() -> None:
    statistics, held = _statistics(), _held("a", seconds=0)
    statistics.add(held)
    report = _with_lifetimes(_metric(5, a=70), a=(600, 100, 50))
    statistics.apply_metric(report, [held], extend=True)
    assert statistics.lifetimes["a"][:2] == (5, (70 * PARTS, 0))
