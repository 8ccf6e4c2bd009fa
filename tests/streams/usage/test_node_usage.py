"""Estimation of pods that a metric does not know well yet; the golden cases hold the rest of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.metrics import NodeMetric
from schemas.messages.pods import Pod
from schemas.policy import LoadAwareSchedulingArgs
from streams.pods.kind import kind_of
from streams.usage.estimate import Estimator
from streams.usage.node_usage import ExpectedNodeUsage
from tests.streams.builders import aggregated, at, load_args, metric, pod, pod_metric
from tests.streams.strategies import UIDS, load_aware_arguments, loading_pods, metrics


def load(**args: Any) -> ExpectedNodeUsage:
    return ExpectedNodeUsage(Estimator(load_args(**args)))


def assigned(to: ExpectedNodeUsage, of: Pod, seconds: float = 0) -> ExpectedNodeUsage:
    to.assign(of, kind_of(of), at(seconds))
    return to


def cpu_delta(of: ExpectedNodeUsage) -> int:
    return of.delta[0]


def test_a_metric_without_a_time_keeps_the_time_before_it() -> None:
    here = assigned(load(), pod(cpu="1"), 100)
    usage = (pod_metric("pod-1", cpu=200, memory=2**40),)
    here.set_metric(metric(seconds=500))
    here.set_metric(metric(updated_at_ms=None, pods=usage))
    assert cpu_delta(here) == 0
    assert here.is_expired(at(0))


def test_the_time_outlives_the_metric_while_pods_are_counted() -> None:
    here = assigned(load(), pod(cpu="1"), 100)
    here.set_metric(metric(seconds=500))
    here.set_metric(None)
    assert here.metric_time_ms == at(500)
    assigned(here, pod(cpu="2"), 100)
    assert here.metric_time_ms == at(500)
    here.unassign("pod-1")
    assert here.metric_time_ms is None


def test_a_pod_without_a_class_is_not_prod_with_koordinators_rules() -> None:
    args = load_args(prodUsageThresholds={"cpu": 50})
    here = assigned(ExpectedNodeUsage(Estimator(args, "koordinator")), pod(cpu="1"))
    here.set_metric(metric(pods=(pod_metric("pod-1", "", cpu=200, memory=2**40),)))
    assert (here.prod_usage[0], here.prod_delta[0]) == (0, 850)


def test_a_prod_pod_measured_as_another_class_always_adds_its_estimate() -> None:
    here = assigned(load(), pod(cpu="1"))
    here.set_metric(metric(seconds=9999, pods=(pod_metric("pod-1", "koord-batch", cpu=200),)))
    assert (cpu_delta(here), here.prod_delta[0]) == (0, 850)


def test_a_duration_that_was_not_measured_leaves_the_sum_of_all_estimates() -> None:
    upstream = ExpectedNodeUsage(Estimator(load_args(), "koordinator"))
    here = assigned(assigned(upstream, pod("a", cpu="1")), pod("b", cpu="2"))
    measured = (pod_metric("a", cpu=10), pod_metric("b", cpu=10))
    entries = (aggregated(300, p95={"cpu": 4000}),)
    here.set_metric(metric(seconds=9999, cpu=7000, pods=measured, aggregated=entries))
    assert here.compute_expected("p95", 300_000)[0] == 4000
    assert here.compute_expected("p95", 600_000)[0] == 850 + 1700
    assert here.compute_expected(None, 0)[0] == 7000


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({"phase": "Running"}, True),
        ({"phase": "Succeeded"}, False),
        ({"phase": "Failed"}, False),
        ({"annotations": {"scheduling.koordinator.sh/reserve-pod": "true"}}, False),
        ({"annotations": {"scheduling.koordinator.sh/reserve-pod": "false"}}, True),
    ],
)
def test_pods_that_use_nothing_are_not_counted(fields: dict[str, Any], counted: bool) -> None:
    of = pod(**fields)
    assert (of.uid in assigned(load(), of).assigned) is counted


@pytest.mark.parametrize(
    ("fields", "noticed"),
    [
        ({}, False),
        ({"labels": {"koordinator.sh/priority-class": "koord-batch"}}, False),
        ({"annotations": {"x": "y"}}, False),
        ({"phase": "Running", "ready": True}, False),
        ({"node": "node-2"}, True),
        ({"scheduled_at_ms": at(1)}, True),
        ({"initialized_at_ms": at(1)}, True),
        ({"priority": 5500}, True),
        ({"overhead": {"cpu": "1"}}, True),
        ({"qos_class": "Guaranteed"}, True),
        ({"namespace": "other"}, True),
        ({"name": "other"}, True),
        ({"phase": "Failed"}, True),
    ],
)
def test_a_change_counts_if_spec_or_conditions_changed(
    fields: dict[str, Any], noticed: bool
) -> None:
    of = pod()
    here = assigned(load(), of)
    changed = of.model_copy(update=fields)
    before = here.assigned[of.uid]
    here.update(changed, kind_of(changed), at(50))
    assert (here.assigned.get(of.uid) is not before) is noticed


@pytest.mark.parametrize(
    ("seconds", "expired"), [(-1, False), (0, False), (179.999, False), (180, True), (9999, True)]
)
def test_a_metric_expires_when_its_age_reaches_the_limit(seconds: float, expired: bool) -> None:
    here = load()
    here.set_metric(metric(seconds=0))
    assert here.is_expired(at(seconds)) is expired


def test_no_metric_and_a_metric_without_a_time_count_as_expired() -> None:
    here = load()
    assert here.is_expired(at(0))
    here.set_metric(metric(updated_at_ms=None))
    assert here.is_expired(at(0))


_EVENTS = st.one_of(
    st.tuples(st.sampled_from(("assign", "update")), loading_pods(), st.integers(-60, 60)),
    st.tuples(st.just("unassign"), st.sampled_from(UIDS), st.just(0)),
    st.tuples(st.just("metric"), metrics(), st.just(0)),
)


@given(load_aware_arguments(), load_aware_arguments(), st.lists(_EVENTS, max_size=15))
def test_updated_sums_equal_recomputed_ones(
    before: LoadAwareSchedulingArgs, after: LoadAwareSchedulingArgs, history: list[Any]
) -> None:
    here = ExpectedNodeUsage(Estimator(before))
    for name, argument, seconds in history:
        if isinstance(argument, NodeMetric):
            here.set_metric(None if argument.removed else argument)
        elif name == "unassign":
            here.unassign(argument)
        else:
            getattr(here, name)(argument, kind_of(argument), at(seconds))
    kept = (here.delta, here.prod_usage, here.prod_delta, here.estimated)
    here.set_estimator(Estimator(after))
    here.set_estimator(Estimator(before))
    assert (here.delta, here.prod_usage, here.prod_delta, here.estimated) == kept
    for uid in list(here.assigned):
        here.unassign(uid)
    assert not any(map(any, (here.delta, here.prod_usage, here.prod_delta, here.estimated)))
