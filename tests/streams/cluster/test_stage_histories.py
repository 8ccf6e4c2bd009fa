"""Random histories of a cluster, record by record, held to a small model of what must be so.

The model books room as the messages tell of it: a decision books, a lifecycle moves, an outcome or an end
gives back. At the end the whole log is folded again, in other batches and with a restart before each.
"""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from schemas.base.quantities import amounts
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from schemas.policy import Policy, effective_yaml
from schemas.topics.catalog import CLUSTER_INPUTS
from streams.pods.demand import pod_demand
from tests.streams.cluster.builders import (
    CLUSTER,
    lifecycle,
    metric,
    node_gone,
    outcome,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.figures import check_figures
from tests.streams.cluster.harness import Run
from tests.streams.cluster.loads import (
    annotated_nodes,
    loading_pods,
    metrics,
    policies,
    small_nodes,
    small_pods,
)
from tests.streams.cluster.strategies import UIDS, node_names

pytestmark = pytest.mark.slow

#: So few that they meet often.
_UIDS = UIDS[:8]
_POLICIES = st.one_of(
    st.sampled_from(
        ("", "maxBackoffSeconds: 4", "{reservationSeconds: 20, maxPendingRequests: 3}")
    ),
    policies().map(effective_yaml),
)
_PODS = small_pods(st.sampled_from(_UIDS))


@dataclass(frozen=True)
class Booking:
    """Room that a pod takes."""

    pod: Pod
    node: str
    decision: PlacementDecision | None
    """The decision that reserves it; none: the pod's lifecycle or its binder has confirmed it."""


class ClusterMachine(RuleBasedStateMachine):
    """One cluster, its log, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Run()
        self.now_s = 0
        self.begun = False
        """The clock has ticked."""
        self.lists = 0
        self.allocatable: dict[str, dict[str, int]] = {}
        self.booked: dict[str, Booking] = {}
        self.waiting: dict[str, Pod] = {}
        self.kept: set[str] = set()
        """Requests that came before the first tick."""
        self.placed: list[PlacementDecision] = []
        self.ids: set[str] = set()

    # --- what happens ---------------------------------------------------------------------------

    @initialize(
        states=st.lists(small_nodes(), min_size=1, max_size=3),
        late=st.sampled_from((False, False, True)),
    )
    def begin(self, states: list[NodeState], late: bool) -> None:
        for state in states:
            self.node(state)
        if not late:
            self.time(1)

    @rule(state=st.one_of(small_nodes(), annotated_nodes()))
    def node(self, state: NodeState) -> None:
        self.allocatable[state.node] = amounts(state.allocatable)
        self.take_over(self.say(state))

    @rule(name=node_names())
    def node_goes(self, name: str) -> None:
        self.say(node_gone(name))
        self.allocatable.pop(name, None)

    @rule(name=node_names(), cpu=st.integers(0, 4000))
    def usage(self, name: str, cpu: int) -> None:
        self.take_over(self.say(metric(name, cpu=cpu, seconds=self.now_s)))

    @rule(said=metrics())
    def any_metric(self, said: NodeMetric) -> None:
        self.take_over(self.say(said))

    @rule(seconds=st.sampled_from((30, 61, 200, 301)))
    def much_later(self, seconds: int) -> None:
        self.time(seconds)

    @rule(seconds=st.sampled_from((0, 1, 1, 2, 5)))
    def time(self, seconds: int) -> None:
        self.now_s += seconds
        self.begun = True
        self.kept.clear()
        self.take_over(self.say(tick(self.now_s)))

    @rule(pod=_PODS)
    def another_pod(self, pod: Pod) -> None:
        self.request(pod, ())

    @rule(pod=_PODS)
    def one_more_pod(self, pod: Pod) -> None:
        self.request(pod, ())

    @rule(
        pod=loading_pods(st.sampled_from(_UIDS)), needs=st.sampled_from(((), (), ("pod affinity",)))
    )
    def request(self, pod: Pod, needs: tuple[str, ...]) -> None:
        uid, known = pod.uid, pod.uid in self.booked
        wanting = pod.model_copy(update={"unsupported": needs})
        made = self.say(request(wanting))
        if known:
            assert made == []
            return
        full = uid not in self.waiting and len(self.waiting) >= self.most_waiting()
        if not self.begun:
            assert made == []
            if not full:
                self.waiting[uid] = wanting
                self.kept.add(uid)
            return
        self.waiting[uid] = wanting
        assert [each.pod.uid for each in made] == [uid]
        assert made[0].outcome in (("refused",) if needs or full else ("placed", "waiting"))
        self.take_over(made, wanting)

    @rule(uid=st.sampled_from(_UIDS))
    def withdraw(self, uid: str) -> None:
        self.ends(uid, self.say(request(uid, withdrawn=True)))

    @rule(uid=st.sampled_from(_UIDS), event=st.sampled_from(("deleted", "finished")))
    def pod_ends(self, uid: str, event: str) -> None:
        known = self.booked.get(uid)
        pod = known.pod if known else request(uid).pod
        made = self.say(lifecycle(event, pod, known.node if known else None))
        self.ends(uid, made, over=True)

    def ends(self, uid: str, made: list[PlacementDecision], *, over: bool = False) -> None:
        """A pod wants no node any more; others may get its room."""
        others = [each for each in made if each.pod.uid != uid]
        made = [each for each in made if each.pod.uid == uid]
        booking = self.booked.get(uid)
        reserved = booking is not None and booking.decision is not None
        answered = uid in self.waiting and self.begun
        assert [each.outcome for each in made] == ["withdrawn"] * (answered or reserved)
        self.waiting.pop(uid, None)
        self.kept.discard(uid)
        if reserved or over:
            self.booked.pop(uid, None)
        self.take_over(others)

    @rule(
        pod=loading_pods(st.sampled_from(_UIDS)),
        name=node_names(),
        event=st.sampled_from(("seen", "bound", "running")),
    )
    def pod_bound(self, pod: Pod, name: str, event: str) -> None:
        said = self.say(lifecycle(event, pod, name))
        answered = pod.uid in self.waiting and self.begun
        made = [each for each in said if each.pod.uid == pod.uid]
        assert [each.outcome for each in made] == ["withdrawn"] * answered
        self.waiting.pop(pod.uid, None)
        self.kept.discard(pod.uid)
        self.booked[pod.uid] = Booking(pod, name, None)
        self.take_over([each for each in said if each.pod.uid != pod.uid])

    @precondition(lambda self: self.placed)
    @rule(data=st.data(), result=st.sampled_from(("done", "failed", "refused", "expired", "dry")))
    def binding(self, data: Any, result: str) -> None:
        decision = data.draw(st.sampled_from(self.placed))
        uid = decision.pod.uid
        booking = self.booked.get(uid)
        said = self.say(outcome(decision, result))
        made = [each for each in said if each.pod.uid == uid]
        if booking is None or booking.decision != decision:
            assert made == []
        elif result == "done":
            self.booked[uid] = Booking(booking.pod, booking.node, None)
            assert made == []
        else:
            del self.booked[uid]
            assert [each.outcome for each in made] == ["waiting"] * (result != "dry")
            self.waiting.update({each.pod.uid: booking.pod for each in made})
        self.take_over([each for each in said if each.pod.uid != uid])

    @rule(document=_POLICIES, paused=st.sampled_from((False, False, True)))
    def policy(self, document: str, paused: bool) -> None:
        self.say(policy_record(document, paused=paused))

    @rule(states=st.lists(annotated_nodes(), max_size=3))
    def all_nodes(self, states: list[NodeState]) -> None:
        self.lists += 1
        made = self.run.full_list("node-state", f"list-{self.lists}", *states)
        self.allocatable = {each.node: amounts(each.allocatable) for each in states}
        self.take_over(made, has_room=False)

    @rule(data=st.data())
    def all_pods(self, data: Any) -> None:
        self.lists += 1
        uids = st.lists(st.sampled_from(_UIDS), unique=True, max_size=4)
        listed = {uid: data.draw(st.one_of(st.none(), node_names())) for uid in data.draw(uids)}
        known = {uid: booking.pod for uid, booking in self.booked.items()} | self.waiting
        pods = {uid: known.get(uid) or request(uid).pod for uid in listed}
        said = self.run.full_list(
            "pod-lifecycle",
            f"list-{self.lists}",
            *(lifecycle("seen", pods[uid], name) for uid, name in listed.items()),
        )
        gone = {uid for uid in self.waiting if uid not in listed or listed[uid] is not None}
        gone |= {u for u, b in self.booked.items() if u not in listed and b.decision is not None}
        answered = gone if self.begun else set()
        made = [each for each in said if each.outcome == "withdrawn"]
        assert {each.pod.uid for each in made} == answered
        for uid in gone:
            self.waiting.pop(uid, None)
            self.kept.discard(uid)
        self.booked = {uid: each for uid, each in self.booked.items() if uid in listed}
        for uid, name in listed.items():
            if name is not None:
                self.booked[uid] = Booking(pods[uid], name, None)
        self.take_over([each for each in said if each.outcome != "withdrawn"], has_room=False)

    @rule(
        topic=st.sampled_from(CLUSTER_INPUTS),
        value=st.binary(max_size=8),
        key=st.binary(max_size=4),
    )
    def garbage(self, topic: str, value: bytes, key: bytes) -> None:
        dead = len(self.run.dead_letters)
        assert self.run.apply([self.run.log.raw(topic, value, key)]) == []
        assert len(self.run.dead_letters) == dead + 1

    @precondition(lambda self: self.run.log.records)
    @rule(data=st.data())
    def record_again(self, data: Any) -> None:
        rows, dead = dict(self.run.rows), len(self.run.dead_letters)
        assert self.run.apply([data.draw(st.sampled_from(self.run.log.records))]) == []
        assert self.run.rows == rows
        assert len(self.run.dead_letters) == dead

    @rule(order=st.randoms(use_true_random=False))
    def restart(self, order: random.Random) -> None:
        rows = self.run.stored()
        order.shuffle(rows)
        self.run.restart(rows)
        self.compare()

    # --- what must be so ------------------------------------------------------------------------

    def say(self, message: Any) -> list[PlacementDecision]:
        made = self.run.say(message)
        record = self.run.log.records[-1]
        for decision in made:
            assert decision.decision_id not in self.ids
            self.ids.add(decision.decision_id)
            assert decision.as_of.offsets[record.topic] == record.offset
            check_figures(decision)
        return made

    def take_over(
        self, made: list[PlacementDecision], asked: Pod | None = None, *, has_room: bool = True
    ) -> None:
        """Bind what was decided, and see that there was room for it."""
        for decision in made:
            uid = decision.pod.uid
            if decision.outcome == "placed":
                pod = self.waiting.pop(uid) if asked is None else asked
                self.waiting.pop(uid, None)
                assert uid not in self.booked
                assert decision.node is not None
                self.booked[uid] = Booking(pod, decision.node, decision)
                self.placed.append(decision)
            elif decision.outcome == "expired":
                self.waiting[uid] = self.booked.pop(uid).pod
            elif decision.outcome == "refused":
                self.waiting.pop(uid, None)
            else:
                assert decision.outcome == "waiting"
                assert uid in self.waiting
        for decision in made:
            if decision.outcome == "placed" and has_room:
                self.check_room(self.booked[decision.pod.uid])
        self.compare()

    def check_room(self, booking: Booking) -> None:
        if not self.enforces("NodeResourcesFit"):
            return
        here = [each.pod for each in self.booked.values() if each.node == booking.node]
        taken = Counter[str]()
        for each in here:
            taken.update(pod_demand(each).requests)
        offered = self.allocatable[booking.node]
        assert len(here) <= offered.get("pods", 0)
        for resource, amount in pod_demand(booking.pod).requests.items():
            assert not amount or taken[resource] <= offered.get(resource, 0)

    def most_waiting(self) -> int:
        if CLUSTER not in self.run.stage.clusters:
            return Policy().max_pending_requests
        policy: Policy = self.run.state.policy
        return policy.max_pending_requests

    def enforces(self, plugin: str) -> bool:
        policy: Policy = self.run.state.policy
        return plugin in [each.name for each in policy.plugins.filter]

    def compare(self) -> None:
        """The stage holds and lets wait what the model does."""
        if CLUSTER not in self.run.stage.clusters:
            assert not self.booked
            assert not self.waiting
            return
        state = self.run.state
        assert state.inventory.where == {uid: each.node for uid, each in self.booked.items()}
        assert {each.request.pod.uid for each in state.placement.pending} == set(self.waiting)
        assert set(state.placement.pending.deferred) == self.kept

    def teardown(self) -> None:
        records = self.run.log.records
        for size, restarts in ((len(records) or 1, False), (3, True), (1, True)):
            again = Run()
            for number, start in enumerate(range(0, len(records), size)):
                if restarts:
                    rows = again.stored()
                    random.Random(number).shuffle(rows)
                    again.restart(rows)
                again.keep(again.stage.apply(records[start : start + size]))
            assert again.outputs == self.run.outputs
            assert again.rows == self.run.rows
            assert again.dead_letters == self.run.dead_letters


TestClusterHistories = ClusterMachine.TestCase
TestClusterHistories.settings = settings(max_examples=12, stateful_step_count=50, deadline=None)
