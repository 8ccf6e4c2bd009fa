"""Kubelets run placed pods and admit no more pods than fit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.cluster.kubelet import START_MS, Kubelets, PodEvent
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan
from tests.connectors.ports.sink_contract import NOW_MS
from tests.simulation.cluster.builders import GIB, pod

MACHINE = Machine("n1", 16_000, 64 * GIB)


def test_a_placed_pod_is_bound_runs_and_is_deleted() -> None:
    kubelets = Kubelets([MACHINE])
    bound = kubelets.admit(pod("a"), "n1", NOW_MS)
    assert isinstance(bound, PodEvent)
    assert (bound.event, bound.pod.node, bound.pod.phase) == ("bound", "n1", "Pending")
    assert kubelets.find_pod("a") is not None
    (running,) = kubelets.advance(NOW_MS + START_MS)
    assert (running.event, running.pod.phase, running.pod.ready) == ("running", "Running", True)
    assert running.pod.initialized_at_ms == NOW_MS + START_MS
    assert kubelets.advance(NOW_MS + 3_600_000) == []
    (deleted,) = kubelets.advance(NOW_MS + START_MS + 3_600_000)
    assert deleted.event == "deleted"
    assert kubelets.sum_requests("n1")["cpu"] == 0
    assert kubelets.find_pod("a") is None


@pytest.mark.parametrize(
    ("plan", "node", "reason"),
    [
        (pod("b", cores=17), "n1", "not have enough free cpu"),
        (pod("a"), "n1", "is already on node n1"),
        (pod("b"), "n9", "there is no node n9"),
    ],
)
def test_a_pod_that_does_not_fit_is_refused_with_the_reason(
    plan: PodPlan, node: str, reason: str
) -> None:
    kubelets = Kubelets([MACHINE])
    kubelets.admit(pod("a"), "n1", NOW_MS)
    before = kubelets.sum_requests("n1")
    answer = kubelets.admit(plan, node, NOW_MS)
    assert isinstance(answer, str)
    assert reason in answer
    assert kubelets.sum_requests("n1") == before


_STEPS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(1, 10), st.integers(1, 4_000_000),
    ),
    max_size=40,
)  # fmt: skip


@settings(max_examples=60)
@given(_STEPS)
def test_allocated_amounts_never_exceed_capacity_and_are_zero_at_the_end(
    steps: list[tuple[int, int, int]],
) -> None:
    machines = [Machine(f"n{n}", 16_000, 64 * GIB) for n in range(3)]
    kubelets = Kubelets(machines)
    now_ms = NOW_MS
    for number, (node, cores, passed_ms) in enumerate(steps):
        plan = pod(f"p{number}", cores=cores)
        kubelets.admit(plan, f"n{node}", now_ms)
        now_ms += passed_ms
        times = [event.at_ms for event in kubelets.advance(now_ms)]
        assert times == sorted(times)
        assert all(at_ms <= now_ms for at_ms in times)
        for machine in machines:
            requested = kubelets.sum_requests(machine.name)
            assert all(0 <= amount <= machine.allocatable[r] for r, amount in requested.items())
    kubelets.advance(now_ms + 10_000_000)
    assert all(set(kubelets.sum_requests(m.name).values()) <= {0} for m in machines)
    assert all(kubelets.list_pods_on(m.name) == () for m in machines)
