"""Random histories of migrations, record by record, held to a small model of what must be so.

The model knows which commands may still be carried out and what each budget has left. At the end the
whole log is folded again with a restart before each record.
"""

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from schemas.base.refusals import Refusal
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.migrations import MigrationRequest, MigrationStatus
from schemas.messages.pods import Pod
from schemas.messages.workloads import DisruptionBudget, WorkloadState
from schemas.topics.codec import decode
from streams.migration.gates.concurrency_limits import resolve_limit
from tests.streams.cluster.builders import (
    lifecycle,
    metric,
    node,
    node_gone,
    pod_metric,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run
from tests.streams.migration.builders import ask, budget, evicted, policy_text, replica, workload

pytestmark = pytest.mark.slow

NODES = ("node-1", "node-2", "node-3")
UIDS = tuple(f"pod-{n}" for n in range(9))
OWNERS = ("web", "db")
REPLICAS = {"web": 6, "db": 3}
_RATES: dict[str, Any] = {
    "evictQPS": 0.5,
    "evictBurst": 2,
    "objectLimiters": {"workload": {"duration": "30s", "burst": 2}},
    "skipEvictionGates": [],
}
#: Rounds that act on the first hot reading.
_ROUNDS = """
rebalance:
  lowThresholds: {cpu: 40}
  highThresholds: {cpu: 60}
  anomalyCondition: {consecutiveAbnormalities: 1}
descheduling:
  deschedulingInterval: 2s
  maxNoOfPodsToEvictPerNode: 1
  maxNoOfPodsToEvictTotal: 2
"""
_POLICIES = (
    policy_text(_ROUNDS, evictQPS=0.5, evictBurst=5),
    policy_text(_ROUNDS, maxMigratingPerNode=2, **_RATES),
    # Budgets alone hold back.
    policy_text(evictQPS=0.5, evictBurst=5, defaultJobMode="EvictDirectly"),
    policy_text(maxMigratingPerNode=2, maxMigratingGlobally=3, **_RATES),
    policy_text(maxMigratingPerNode=1, defaultJobMode="EvictDirectly", **_RATES),
    policy_text("mode: observe", maxMigratingPerNamespace=2, defaultJobTTL="20s", **_RATES),
    policy_text(
        "maintenance: {windows: [{from: '08:50', to: '08:55'}, {from: '09:00', to: '23:00'}]}",
        maxMigratingPerWorkload="50%",
        **_RATES,
    ),
)


class MigrationMachine(RuleBasedStateMachine):
    """One cluster whose pods users move about, its log, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Run()
        self.now_s = 0
        self.text = ""
        self.paused = False
        self.pods: dict[str, Pod] = {}
        """Pods on nodes."""
        self.alive: dict[str, EvictionCommand] = {}
        """Commands that may still be carried out, by pod uid."""
        self.commands: list[tuple[int, EvictionCommand, str]] = []
        """All of them, with time and owner."""
        self.allowed: dict[str, int] = {}
        self.taken: dict[str, set[str]] = {owner: set() for owner in OWNERS}
        self.gone: set[str] = set()
        self.cordoned: set[str] = set()

    # --- what happens -----------------------------------------------------------------------------

    @initialize(text=st.sampled_from(_POLICIES), known=st.booleans(), allowed=st.integers(0, 2))
    def begin(self, text: str, known: bool, allowed: int) -> None:
        self.text = text
        self.say(policy_record(text))
        for name in NODES:
            self.say(node(name))
        if known:
            self.say(*(workload(owner, count) for owner, count in REPLICAS.items()))
        self.known = known
        if allowed:
            self.budget(allowed, "web", False)
        self.time(1)
        for index, uid in enumerate(UIDS):
            self.pod(uid, "web" if index < REPLICAS["web"] else "db", NODES[index % 3], True)
        if "rebalance" in text:
            self.one_node_gets_hot(NODES[0])

    @rule(seconds=st.sampled_from((1, 1, 1, 1, 2, 2, 5, 31)))
    def time(self, seconds: int) -> None:
        self.now_s += seconds
        self.say(tick(self.now_s))

    @rule(seconds=st.sampled_from((61, 301)))
    def much_later(self, seconds: int) -> None:
        self.time(seconds)

    @rule(
        uid=st.sampled_from(UIDS),
        owner=st.sampled_from(OWNERS),
        name=st.sampled_from(NODES),
        ready=st.sampled_from((True, True, True, False)),
    )
    def pod(self, uid: str, owner: str, name: str, ready: bool) -> None:
        known = self.pods.get(uid)
        made = replica(uid, owner, ready=ready) if known is None else known
        made = made.model_copy(update={"ready": ready, "node": name})
        self.pods[uid] = made
        self.gone.discard(uid)
        self.say(lifecycle("seen" if known is None else "changed", made))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def pod_goes(self, data: Any) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.alive.pop(uid, None)
        self.gone.add(uid)
        self.say(lifecycle("deleted", self.pods.pop(uid)))

    @rule(name=st.sampled_from(NODES), each=st.sampled_from((500, 2_000)))
    def usage(self, name: str, each: int) -> None:
        here = [uid for uid, pod in self.pods.items() if pod.node == name]
        self.say(
            metric(
                name,
                cpu=each * len(here) + 500,
                seconds=self.now_s,
                system_usage={"cpu": 500},
                pods=tuple(pod_metric(uid, cpu=each, memory=0) for uid in here),
            )
        )

    @rule(name=st.sampled_from(NODES))
    def one_node_gets_hot(self, name: str) -> None:
        for other in NODES:
            self.usage(other, 1_500 if other == name else 0)
        self.time(2)
        self.time(1)

    @rule(uid=st.sampled_from(UIDS), owner=st.sampled_from(OWNERS))
    def pod_asks(self, uid: str, owner: str) -> None:
        if uid not in self.pods:
            self.say(request(replica(uid, owner, ready=False, phase="Pending")))

    @rule(uid=st.sampled_from(UIDS), ignore=st.sampled_from((False, False, True)))
    def migrate(self, uid: str, ignore: bool) -> None:
        if uid in self.pods:
            self.say(ask("migrate", pod=self.pods[uid], ignore_windows=ignore))

    @rule(uids=st.lists(st.sampled_from(UIDS), min_size=3, unique=True), ticks=st.integers(1, 4))
    def migrate_many(self, uids: list[str], ticks: int) -> None:
        for uid in uids:
            self.migrate(uid, False)
        for _ in range(ticks):
            self.time(1)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), result=st.sampled_from(("done", "done", "refused", "dry")))
    def outcome_of_one_alive(self, data: Any, result: str) -> None:
        uid = data.draw(st.sampled_from(sorted(self.alive)))
        self.report(self.alive[uid], result)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), action=st.sampled_from(("abort", "pause")))
    def once_more(self, data: Any, action: Any) -> None:
        uid = data.draw(st.sampled_from(sorted(self.alive)))
        self.say(ask(action, pod=self.pods[uid]))
        self.migrate(uid, False)
        self.time(1)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def an_evicted_pod_goes_and_another_comes(self, data: Any) -> None:
        uid = data.draw(st.sampled_from(sorted(self.alive)))
        owner = self.pods[uid].controller
        assert owner is not None
        self.pod_is_evicted(uid)
        self.pod_asks(uid, owner.uid)

    @rule(uid=st.sampled_from(UIDS), action=st.sampled_from(("pause", "resume", "abort")))
    def switch(self, uid: str, action: Any) -> None:
        self.say(ask(action, pod=replica(uid)))

    @rule(name=st.sampled_from(NODES), action=st.sampled_from(("drain", "undrain")))
    def drain(self, name: str, action: Any) -> None:
        self.say(ask(action, node=name))

    @rule(
        allowed=st.integers(0, 3),
        app=st.sampled_from(OWNERS),
        removed=st.sampled_from((False, False, False, True)),
    )
    def budget(self, allowed: int, app: str, removed: bool) -> None:
        self.taken[app] -= self.gone
        self.allowed[app] = allowed
        if removed:
            del self.allowed[app]
            self.taken[app].clear()
        self.say(budget(allowed, app, app, removed=removed))

    @precondition(lambda self: self.commands)
    @rule(data=st.data(), result=st.sampled_from(("done", "failed", "refused", "expired", "dry")))
    def outcome(self, data: Any, result: str) -> None:
        command = data.draw(st.sampled_from([each[1] for each in self.commands]))
        self.report(command, result)

    @rule(paused=st.sampled_from((False, False, True)))
    def switch_cluster(self, paused: bool) -> None:
        self.paused = paused
        self.say(policy_record(self.text, paused=paused))

    @rule(name=st.sampled_from(NODES), there=st.sampled_from((True, True, True, False)))
    def node(self, name: str, there: bool) -> None:
        self.say(node(name) if there else node_gone(name))

    @rule(uids=st.sets(st.sampled_from(UIDS), max_size=6))
    def all_pods(self, uids: set[str]) -> None:
        list_id = f"list-{len(self.run.log.records)}"
        listed = [self.pods[uid] for uid in sorted(uids & self.pods.keys())]
        for uid in self.pods.keys() - uids:
            self.alive.pop(uid, None)
            self.gone.add(uid)
        self.pods = {each.uid: each for each in listed}
        self.say(ListBegin(cluster="test", list_id=list_id), topic="pod-lifecycle")
        for each in listed:
            self.say(lifecycle("seen", each, list_id=list_id))
        self.say(ListEnd(cluster="test", list_id=list_id), topic="pod-lifecycle")

    @rule(order=st.randoms(use_true_random=False))
    def restart(self, order: random.Random) -> None:
        rows = self.run.stored()
        order.shuffle(rows)
        self.run.restart(rows)

    def pod_is_evicted(self, uid: str) -> None:
        self.report(self.alive[uid], "done")
        self.alive.pop(uid, None)
        self.gone.add(uid)
        self.say(lifecycle("deleted", self.pods.pop(uid)))

    def report(self, command: EvictionCommand, result: Any) -> None:
        self.end(command, took=result == "done" and not command.dry_run)
        self.say(evicted(command, result))

    # --- what must be so --------------------------------------------------------------------------

    def say(self, *messages: Any, topic: str | None = None) -> None:
        for message in messages:
            named = topic or _TOPICS.get(type(message))
            result = self.run.stage.apply([self.run.log.message(message, named)])
            self.run.keep(result)
            heard = [decode(output.topic, output.value) for output in result.outputs]
            for said in heard:
                assert not isinstance(said, Refusal)
                self.heard(said)
            self.check_round(heard)
        self.expire()
        self.check_rooms()

    def heard(self, said: Any) -> None:
        if isinstance(said, EvictionCommand):
            self.commanded(said)
        elif isinstance(said, PlacementDecision) and said.outcome == "placed":
            drains = self.run.state.migrations.drains.rows
            assert said.node not in drains or drains[said.node].dry_run
        elif isinstance(said, MigrationStatus):
            assert said.target_node != said.source_node

    def commanded(self, command: EvictionCommand) -> None:
        uid = command.pod.uid
        assert not self.paused
        self.expire()
        assert uid not in self.alive, "a pod is commanded while a command for it is alive"
        pod = self.pods[uid]
        assert command.node == pod.node
        owner = pod.controller
        assert owner is not None
        if owner.uid in self.allowed:
            self.taken[owner.uid].add(uid)
            left = self.allowed[owner.uid] - len(self.taken[owner.uid])
            assert left >= 0, "more is taken from a budget than it has"
        self.alive[uid] = command
        self.commands.append((self.now_s, command, owner.uid))
        self.check_limits()
        args = self.run.state.policy.migration
        times = [when for when, _, _ in self.commands]
        self.check_rates(times, Fraction(str(args.evict_qps)), args.evict_burst)
        if self.known and args.object_limiters["workload"].duration_ms:
            own = [when for when, _, whose in self.commands if whose == owner.uid]
            share = resolve_limit(args.max_migrating_per_workload, REPLICAS[owner.uid])
            self.check_rates(own, Fraction(share, 30), 2)
        policy = self.run.state.policy
        row = self.run.state.migrations.of_pod(uid)
        if row is not None and not row.ignore_windows:
            closed = policy.maintenance.closed(row.pool, "default", command.decided_at_ms)
            assert closed is None

    def check_round(self, heard: list[Any]) -> None:
        """A record holds one round at most, and a round lets go no more than it may."""
        begun = Counter(
            said.source_node
            for said in heard
            if isinstance(said, MigrationStatus)
            and (said.phase, said.trigger) == ("Pending", "rebalance")
            and not said.conditions
        )
        limits = self.run.state.policy.descheduling
        assert sum(begun.values()) <= (limits.max_no_of_pods_to_evict_total or 0)
        for count in begun.values():
            assert count <= (limits.max_no_of_pods_to_evict_per_node or 0)

    def check_limits(self) -> None:
        args = self.run.state.policy.migration
        at_node = Counter(command.node for command in self.alive.values())
        assert max(at_node.values()) <= (args.max_migrating_per_node or len(UIDS))
        for most in (args.max_migrating_globally, args.max_migrating_per_namespace):
            assert len(self.alive) <= (most or len(UIDS))
        if self.known and "MaxMigratingPerWorkload" not in args.skip_eviction_gates:
            owners = Counter(self.pods[uid].owners[0].uid for uid in self.alive)
            for owner, count in owners.items():
                assert count <= resolve_limit(args.max_migrating_per_workload, REPLICAS[owner])

    def check_rates(self, times: list[int], per_second: Fraction, burst: int) -> None:
        """No window that ends now has had more than the bucket gives."""
        for count, start in enumerate(reversed(times), start=1):
            assert count <= burst + per_second * (self.now_s - start)

    def end(self, command: EvictionCommand, *, took: bool) -> None:
        """A command may be carried out no more."""
        uid = command.pod.uid
        if self.alive.get(uid) == command:
            del self.alive[uid]
            if not took:
                for taken in self.taken.values():
                    taken.discard(uid)

    def expire(self) -> None:
        for command in list(self.alive.values()):
            if command.expires_at_ms <= self.run.state.inventory.now_ms:
                self.end(command, took=False)

    def check_rooms(self) -> None:
        """Room is held for exactly the migrations that say so."""
        state = self.run.stage.clusters.get("test")
        if state is None:
            return
        held = {uid for uid in state.inventory.where if uid.startswith("reserved-")}
        registry = state.migrations.lifecycle.registry
        assert held == {row.reserved.uid for row in registry if row.reserved is not None}

    def teardown(self) -> None:
        records = self.run.log.records
        again = Run()
        for number, record in enumerate(records):
            rows = again.stored()
            random.Random(number).shuffle(rows)
            again.restart(rows)
            again.keep(again.stage.apply([record]))
        assert again.outputs == self.run.outputs
        assert again.rows == self.run.rows
        assert again.dead_letters == self.run.dead_letters


_TOPICS: dict[type, str] = {
    MigrationRequest: "migration-requests",
    WorkloadState: "pod-lifecycle",
    DisruptionBudget: "pod-lifecycle",
}

TestMigrationHistories = MigrationMachine.TestCase
TestMigrationHistories.settings = settings(max_examples=10, stateful_step_count=40, deadline=None)


def test_a_workload_whose_share_is_larger_than_by_default_is_evicted_from_as_fast_as_it_says() -> (
    None
):
    """Half of six replicas in 30 s is one each 10 s, and the model grants it."""
    (policy,) = (text for text in _POLICIES if "maxMigratingPerWorkload" in text)
    machine = MigrationMachine()
    machine.begin(policy, known=True, allowed=0)
    for uid in UIDS[:3]:
        machine.migrate(uid, False)
    for _ in range(12):
        machine.time(1)
        for uid in list(machine.alive):
            machine.pod_is_evicted(uid)
            machine.pod(uid, "web", NODES[0], True)
    assert [when for when, _, _ in machine.commands] == [2, 2, 12]
    machine.teardown()
