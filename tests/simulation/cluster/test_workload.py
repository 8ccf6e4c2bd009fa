"""The stream of pods: seeded, in order, and as heavy as wanted."""

import pytest

from schemas.base.quantities import amount_of, nanos
from simulation.cluster.pods import BATCH_CPU
from simulation.cluster.workload import HOUR_MS, KINDS, LIFE_MIN_MS, make_pods

BEGIN_MS = 1_772_409_600_000


def test_pods_arrive_in_order_within_the_run_and_each_has_a_name_of_its_own() -> None:
    end_ms = BEGIN_MS + 24 * HOUR_MS
    plans = make_pods(1, BEGIN_MS, end_ms, 300.0)
    times = [plan.at_ms for plan in plans]
    assert times == sorted(times)
    assert times[0] >= BEGIN_MS
    assert times[-1] < end_ms
    assert len({plan.pod.uid for plan in plans}) == len(plans)
    assert min(plan.life_ms for plan in plans) >= LIFE_MIN_MS


@pytest.mark.slow
def test_in_the_long_run_the_pods_use_as_many_cores_as_wanted() -> None:
    days = 60
    plans = make_pods(1, BEGIN_MS, BEGIN_MS + days * 24 * HOUR_MS, 100.0)
    used = sum(p.cpu_millicores / 1000 * p.life_ms for p in plans if not p.pod.unsupported)
    assert used / (days * 24 * HOUR_MS) == pytest.approx(100.0, rel=0.1)


def test_the_same_seed_gives_the_same_pods_and_another_one_others() -> None:
    one, again, other = (make_pods(s, BEGIN_MS, BEGIN_MS + HOUR_MS, 300.0) for s in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.slow
def test_every_kind_comes_and_asks_for_what_it_is_said_to() -> None:
    plans = make_pods(1, BEGIN_MS, BEGIN_MS + 20 * 24 * HOUR_MS, 300.0)
    by_kind = {plan.pod.labels["app"]: plan for plan in plans}
    assert set(by_kind) == {kind.name for kind in KINDS}
    for kind in KINDS:
        plan = by_kind[kind.name]
        resource = BATCH_CPU if kind.batch else "cpu"
        assert plan.requests[resource] == kind.cores * 1000
        text = plan.pod.containers[0].requests[resource]
        assert amount_of(resource, nanos(text)) == kind.cores * 1000
        assert plan.pod.unsupported == kind.unsupported


def test_without_cores_to_use_nobody_comes() -> None:
    assert make_pods(1, BEGIN_MS, BEGIN_MS + HOUR_MS, 0.0) == []


def test_a_pod_uses_about_its_mean_and_takes_its_memory_slowly() -> None:
    plan = make_pods(1, BEGIN_MS, BEGIN_MS + HOUR_MS, 300.0)[0]
    ages = range(0, 10 * HOUR_MS, 60_000)
    cpu = [plan.usage(age)["cpu"] for age in ages]
    assert sum(cpu) / len(cpu) == pytest.approx(plan.cpu_millicores, rel=0.05)
    assert max(cpu) <= plan.cpu_millicores * 1.2 + 1
    assert plan.usage(0)["memory"] == pytest.approx(plan.memory_bytes / 2, rel=1e-6)
    assert plan.usage(HOUR_MS)["memory"] == round(plan.memory_bytes)
