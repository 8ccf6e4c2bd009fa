"""What a simulated cluster does with eviction commands."""

from typing import Any

import numpy as np
import pytest

from connectors.simulated.baseline_no_eviction import Placed, stay
from connectors.simulated.machines import Machine, make_machines
from connectors.simulated.sink import Evictor
from connectors.simulated.fitted import ALIBABA_2018
from connectors.simulated.kubelet import GRACE_MS, START_MS, Kubelets, PodEvent
from connectors.simulated.owners import Owners
from connectors.simulated.pods import PodPlan
from connectors.simulated.readings import Readings
from schemas.decisions import AsOf
from schemas.evictions import EvictionCommand
from schemas.pods import OwnerReference, Pod, PodRef
from schemas.workloads import DisruptionBudget, WorkloadState
from tests.connectors.simulated.test_kubelet import GIB, NOW_MS, pod

MINUTE_MS = 60_000


class World:
    """Machines with their residents, and what is told of them."""

    def __init__(self, nodes: int = 4, **more: Any) -> None:
        self.machines = make_machines(nodes, 1, ALIBABA_2018, NOW_MS)
        self.kubelets = Kubelets(self.machines)
        self.owners = Owners("c", **more)
        self.sent: list[tuple[str, Any]] = []
        self.evictor = Evictor(
            "c",
            self.kubelets,
            self.owners,
            lambda topic, message: self.sent.append((topic, message)),
        )
        for machine in self.machines:
            for plan in machine.residents:
                self.owners.wanted(plan.pod, ready=True)
        self.hot = next(machine for machine in self.machines if machine.temper == "hot")
        self.number = 0

    def command(self, plan: PodPlan, **more: Any) -> EvictionCommand:
        self.number += 1
        pod = PodRef(namespace=plan.pod.namespace, name=plan.pod.name, uid=plan.pod.uid)
        values: dict[str, Any] = {
            "command_id": f"command-{self.number}", "cluster": "c", "pod": pod, "node": self.hot.name,
            "reason": "hot", "dry_run": False, "decided_at_ms": NOW_MS,
            "expires_at_ms": NOW_MS + MINUTE_MS, "as_of": AsOf(partition=0, offsets={}, policy_digest=""),
        }  # fmt: skip
        return EvictionCommand(**(values | more))

    def happen(self, until_ms: int) -> list[PodEvent]:
        events = self.kubelets.advance(until_ms)
        for event in events:
            self.owners.happened(event)
        return events

    def outcomes(self) -> list[str]:
        return [message.result for topic, message in self.sent if topic == "command-outcomes"]


def test_an_evicted_pod_terminates_and_its_controller_makes_another_one() -> None:
    world = World()
    plan = world.hot.residents[0]
    replacement = world.evictor.hear(world.command(plan), NOW_MS)
    assert world.outcomes() == ["done"]
    (lifecycle,) = [message for topic, message in world.sent if topic == "pod-lifecycle"]
    assert (lifecycle.event, lifecycle.pod.deleting_at_ms) == ("changed", NOW_MS)
    (deleted,) = world.happen(NOW_MS + GRACE_MS)
    assert (deleted.event, deleted.pod.uid) == ("deleted", plan.pod.uid)
    assert replacement is not None
    assert replacement.pod.uid != plan.pod.uid
    assert replacement.pod.owners == plan.pod.owners
    assert (replacement.pod.node, replacement.pod.ready) == (None, False)
    assert replacement.requests == plan.requests


def test_the_replacement_of_a_replacement_has_a_name_of_its_own() -> None:
    world = World()
    plan = world.hot.residents[0]
    names = [plan.pod.name]
    for number in range(3):
        now_ms = NOW_MS + number * 10 * MINUTE_MS
        replacement = world.evictor.hear(
            world.command(plan, expires_at_ms=now_ms + MINUTE_MS), now_ms
        )
        assert replacement is not None
        world.happen(now_ms + GRACE_MS)
        world.kubelets.admit(replacement, world.hot.name, now_ms + GRACE_MS)
        world.happen(now_ms + GRACE_MS + START_MS)
        plan = replacement
        names.append(plan.pod.name)
    assert names == [names[0], *(f"{names[0]}.{number}" for number in (1, 2, 3))]


def test_a_pod_carries_its_load_to_the_node_where_it_runs_next() -> None:
    world = World()
    target = next(
        machine
        for machine in world.machines
        if machine.temper == "idle" or machine.temper == "busy"
    )
    base = {"cpu": 80_000, "memory": 10 * GIB}
    none = {"cpu": 0, "memory": 0}
    before = world.kubelets.sample("c", world.hot.name, base, NOW_MS)
    assert before.usage["cpu"] == pytest.approx(80_000, abs=10)
    plan = world.hot.residents[0]
    share = before.pods[0].usage["cpu"]
    replacement = world.evictor.hear(world.command(plan), NOW_MS)
    assert replacement is not None
    world.happen(NOW_MS + GRACE_MS)
    later_ms = NOW_MS + GRACE_MS + START_MS
    world.kubelets.admit(replacement, target.name, NOW_MS + GRACE_MS)
    world.happen(later_ms)
    source = world.kubelets.sample("c", world.hot.name, base, later_ms)
    moved = world.kubelets.sample("c", target.name, none, later_ms)
    assert source.usage["cpu"] == pytest.approx(80_000 - share, abs=10)
    assert moved.usage["cpu"] == pytest.approx(share, abs=1)
    assert replacement.pod.uid in {used.uid for used in moved.pods}


def test_what_cannot_be_done_is_answered_with_why_and_changes_nothing() -> None:
    world = World()
    one, two = world.hot.residents[:2]
    gone = pod("gone")
    for command, result in (
        (world.command(one, dry_run=True), "dry"),
        (world.command(one, expires_at_ms=NOW_MS), "expired"),
        (world.command(gone), "failed"),
        (world.command(one, node="elsewhere"), "failed"),
    ):
        assert world.evictor.hear(command, NOW_MS) is None
        assert world.outcomes()[-1] == result
    assert world.kubelets.advance(NOW_MS + MINUTE_MS) == []
    assert world.evictor.hear(world.command(two, cluster="another"), NOW_MS) is None
    assert len(world.outcomes()) == 4


def test_a_command_that_comes_twice_is_carried_out_once_and_noticed() -> None:
    world = World()
    command = world.command(world.hot.residents[0])
    assert world.evictor.hear(command, NOW_MS) is not None
    assert world.evictor.hear(command, NOW_MS) is None
    assert world.evictor.hear(world.command(world.hot.residents[0]), NOW_MS) is None
    assert world.outcomes() == ["done", "failed"]
    assert len(world.evictor.repeated) == 2
    assert len(world.evictor.evictions) == 1


def test_a_budget_lets_one_pod_go_at_a_time() -> None:
    world = World(budgeted=frozenset({"residents"}))
    one, two = world.hot.residents[:2]
    replacement = world.evictor.hear(world.command(one), NOW_MS)
    assert world.evictor.hear(world.command(two), NOW_MS) is None
    assert world.outcomes() == ["done", "refused"]
    assert replacement is not None
    world.happen(NOW_MS + GRACE_MS)
    world.kubelets.admit(replacement, world.hot.name, NOW_MS + GRACE_MS)
    world.happen(NOW_MS + GRACE_MS + START_MS)
    assert world.evictor.hear(world.command(two), NOW_MS) is not None


def test_workloads_and_budgets_are_told_when_they_change_and_whole_in_a_list() -> None:
    world = World(nodes=3, budgeted=frozenset({"residents"}))
    listed = list(world.owners.changes("list"))
    assert {type(each) for each in listed} == {WorkloadState, DisruptionBudget}
    assert all(each.list_id == "list" for each in listed)
    assert list(world.owners.changes()) == []
    budgets = {each.name: each for each in listed if isinstance(each, DisruptionBudget)}
    budget = budgets[f"resident-{world.hot.name}"]
    assert (budget.disruptions_allowed, budget.expected_pods) == (1, 8)
    assert budget.selector is not None
    assert all(budget.selector.matches(plan.pod.labels) for plan in world.hot.residents)
    replacement = world.evictor.hear(world.command(world.hot.residents[0]), NOW_MS)
    assert replacement is not None
    (changed,) = world.owners.changes()
    assert isinstance(changed, DisruptionBudget), "as many replicas are wanted as before"
    assert (changed.disruptions_allowed, changed.current_healthy, changed.expected_pods) == (
        0,
        7,
        8,
    )


def test_a_service_lives_on_for_what_was_left_and_a_job_begins_anew() -> None:
    owner = (OwnerReference(kind="ReplicaSet", name="rs", uid="rs", controller=True),)
    owners = Owners("c")
    for job, life_ms in ((False, 1_800_000), (True, 3_600_000)):
        plan = pod("a", job=job, pod=Pod(namespace="ns", name="a", uid="a", owners=owner))
        kubelets = Kubelets([Machine("n1", 16_000, 64 * GIB)])
        kubelets.admit(plan, "n1", NOW_MS - START_MS)
        owners.wanted(plan.pod)
        running = kubelets.pod("a")
        assert running is not None
        replacement = owners.replaced(running, NOW_MS + 1_800_000)
        assert replacement is not None
        assert replacement.life_ms == life_ms


def test_a_pod_without_a_controller_is_not_replaced() -> None:
    kubelets = Kubelets([Machine("n1", 16_000, 64 * GIB)])
    kubelets.admit(pod("a"), "n1", NOW_MS)
    running = kubelets.pod("a")
    assert running is not None
    assert Owners("c").replaced(running, NOW_MS) is None


def _readings(machines: int, millicores: list[int]) -> Readings:
    minutes = 60
    at_ms = np.repeat(NOW_MS + np.arange(minutes, dtype=np.int64) * MINUTE_MS, machines)
    which = np.tile(np.arange(machines, dtype=np.int64), minutes)
    cpu = np.tile(np.array(millicores, dtype=np.int64), minutes)
    return Readings(at_ms, which, cpu, np.full(len(at_ms), GIB, dtype=np.int64))


def test_without_evictions_pods_stay_where_they_were_placed() -> None:
    machines = [Machine("n1", 16_000, 64 * GIB), Machine("n2", 16_000, 64 * GIB)]
    placed = [Placed(NOW_MS, pod("a"), "n1")]
    usages = list(stay(machines, placed, _readings(2, [1000, 1000]), NOW_MS + 10**7, 0.7))
    assert usages[-2][2]["cpu"] > 2000
    assert usages[-1][2]["cpu"] == 1000


def test_without_evictions_no_pod_goes_to_a_node_that_is_hot_then() -> None:
    machines = [Machine("n1", 16_000, 64 * GIB), Machine("n2", 16_000, 64 * GIB)]
    placed = [Placed(NOW_MS + MINUTE_MS, pod("a"), "n1")]
    usages = list(stay(machines, placed, _readings(2, [13_000, 1000]), NOW_MS + 10**7, 0.7))
    assert usages[-2][2]["cpu"] == 13_000
    assert usages[-1][2]["cpu"] > 2000
