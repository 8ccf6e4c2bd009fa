"""Workloads, disruption budgets, and what replaces a pod."""

from schemas.messages.objects import DisruptionBudget, WorkloadState
from schemas.messages.pods import Pod
from simulation.cluster.kubelet import START_MS, Kubelets
from simulation.cluster.machines import Machine
from simulation.cluster.owners import Owners
from tests.connectors.ports.sink_contract import NOW_MS
from tests.simulation.cluster.builders import GIB, pod
from tests.simulation.cluster.harness import World
from tests.streams.builders import controlled_by


def test_workloads_and_budgets_are_reported_when_they_change_and_all_of_them_in_a_list() -> None:
    world = World(budgeted=True)
    listed = list(world.cluster.owners.changes("list"))
    assert {type(each) for each in listed} == {WorkloadState, DisruptionBudget}
    assert all(each.list_id == "list" for each in listed)
    assert list(world.cluster.owners.changes()) == []
    budgets = {each.name: each for each in listed if isinstance(each, DisruptionBudget)}
    budget = budgets["resident"]
    assert (budget.disruptions_allowed, budget.expected_pods) == (1, 8)
    assert budget.selector is not None
    assert all(budget.selector.matches(plan.pod.labels) for plan in world.residents)
    assert world.evict(world.residents[0]) == "done"
    changed = world.of("pod-lifecycle")[-1]
    assert isinstance(changed, DisruptionBudget), "as many replicas are wanted as before"
    assert (changed.disruptions_allowed, changed.current_healthy, changed.expected_pods) == (
        0,
        7,
        8,
    )


def test_a_replacement_lives_for_what_was_left() -> None:
    owners = Owners("c")
    plan = pod("a", pod=Pod(namespace="ns", name="a", uid="a", owners=controlled_by("rs")))
    kubelets = Kubelets([Machine("n1", 16_000, 64 * GIB)])
    kubelets.admit(plan, "n1", NOW_MS - START_MS)
    owners.add_pod(plan.pod)
    running = kubelets.find_pod("a")
    assert running is not None
    replacement = owners.replace_pod(running, NOW_MS + 1_800_000)
    assert replacement is not None
    assert replacement.life_ms == 1_800_000


def test_a_pod_without_a_controller_is_not_replaced() -> None:
    kubelets = Kubelets([Machine("n1", 16_000, 64 * GIB)])
    kubelets.admit(pod("a"), "n1", NOW_MS)
    running = kubelets.find_pod("a")
    assert running is not None
    assert Owners("c").replace_pod(running, NOW_MS) is None
