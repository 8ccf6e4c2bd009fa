"""Workloads, disruption budgets, and replacements of pods."""

from schemas.messages.objects import DisruptionBudget, WorkloadState
from schemas.messages.pods import Pod
from simulation.cluster.kubelet import START_MS, Kubelets
from simulation.cluster.machines import Machine
from simulation.cluster.owners import Owners
from tests.connectors.ports.sink_contract import NOW_MS
from tests.simulation.cluster.builders import GIB, pod
from tests.simulation.cluster.harness import World
from tests.streams.builders import controlled_by


def test_workloads_and_budgets_are_reported_on_change_and_in_full_lists() -> None:
    world = World(budgeted=True)
    listed = list(world.cluster.owners.collect_changes("list"))
    assert {type(record) for record in listed} == {WorkloadState, DisruptionBudget}
    assert all(record.list_id == "list" for record in listed)
    assert list(world.cluster.owners.collect_changes()) == []
    budgets = {budget.name: budget for budget in listed if isinstance(budget, DisruptionBudget)}
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


def test_a_replacement_has_the_remaining_lifetime() -> None:
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
