"""Content of decisions, and how room is reserved and released. `test_waiting` and `test_lists`
cover the other cases."""

from collections.abc import Iterator
from typing import Any

import pytest

from schemas.messages.nodes import Taint
from schemas.messages.pods import Pod, PodAffinityTerm, PodSelector, SelectorRequirement, Toleration
from streams.cluster import placement
from streams.inventory import pod_index
from streams.inventory.node import Node
from tests.streams.builders import (
    at,
    big_pod,
    lifecycle,
    metric,
    node,
    outcome,
    pod,
    policy_record,
    removed_node,
    request,
    tick,
)
from tests.streams.world import World, only, outcomes

HOST = "kubernetes.io/hostname"
WEB = PodSelector(match_labels={"app": "web"})
NOT_DB = SelectorRequirement(key="app", operator="NotIn", values=("db",))

# --- content of decisions -----------------------------------------------------------------------


def test_a_placement_names_node_expiry_and_scores() -> None:
    world = World(
        tick(),
        node("a"),
        node("b"),
        node("c"),
        node("d", cpu="100m"),
        metric("a", cpu=6100),
        metric("b"),
    )
    world.send(metric("c", cpu=1000))
    decision = only(world.send(request()))
    assert (decision.outcome, decision.node, decision.attempt) == ("placed", "b", 0)
    assert decision.expires_at_ms == at(300)
    assert (decision.nodes, decision.stale_nodes) == (4, 1)
    assert decision.refused_by == {"NodeResourcesFit": 1, "LoadAwareScheduling": 1}
    assert decision.winner is not None
    assert [(term.plugin, term.weight) for term in decision.winner.terms] == [
        ("OverutilizationRisk", 1),
    ]
    assert [node.node for node in decision.runners_up] == ["c"]
    assert (decision.reasons, decision.message) == ((), "")


def test_a_waiting_decision_counts_nodes_by_reason() -> None:
    world = World(policy_record("whenOverloaded: wait"))
    world.send(tick(180), *(node(name) for name in "abcde"))
    world.send(*(metric(name, cpu=7000, seconds=180) for name in "abc"))
    world.send(metric("d", seconds=0), metric("e", seconds=0))
    decision = only(world.send(request()))
    assert decision.message == "3 nodes: cpu usage exceed threshold; 2 nodes: nodeMetric expired"
    assert (decision.outcome, decision.attempt, decision.retry_after_ms) == ("waiting", 1, 1000)
    assert (decision.nodes, decision.stale_nodes) == (5, 2)
    assert decision.refused_by == {"LoadAwareScheduling": 5}
    assert [(reason.nodes, reason.reason) for reason in decision.reasons] == [
        (3, "node(s) cpu usage exceed threshold"),
        (2, "node(s) nodeMetric expired"),
    ]


def test_reservations_count_like_usage() -> None:
    world = World(tick(), node(cpu="32"), metric(cpu=20_000), policy_record("whenOverloaded: wait"))
    decisions = world.send(*(request(pod(f"p{number}", cpu="2")) for number in range(6)))
    # Each counts 1.7 cores from its placement on: three bring the node to 25.1 of 32, above 75 %.
    assert [decision.outcome for decision in decisions] == ["placed"] * 3 + ["waiting"] * 3


def test_a_pod_goes_to_the_best_node_when_all_are_overloaded() -> None:
    world = World(tick(), node("a"), node("b"), node("full", cpu="100m"))
    world.send(metric("a", cpu=7900), metric("b", cpu=6500), metric("full"))
    decision = only(world.send(request()))
    assert (decision.outcome, decision.node) == ("placed", "b")
    assert decision.refused_by == {"NodeResourcesFit": 1, "LoadAwareScheduling": 2}
    assert decision.message == (
        "no node passes every filter (2 nodes: cpu usage exceed threshold; 1 node: Insufficient "
        "cpu); placed on the best node that remains"
    )


def test_a_tolerated_prefer_no_schedule_taint_has_no_effect() -> None:
    world = World(
        tick(), node("a", taints=(Taint(key="spare", effect="PreferNoSchedule"),)), node("b")
    )
    world.send(metric("a", cpu=1), metric("b", cpu=5000))
    assert only(world.send(request(pod(tolerations=(Toleration(key="spare"),))))).node == "a"


def keeping_away(uid: str, topology_key: str = HOST, **term: Any) -> Pod:
    """A pod that keeps pods with a label away from where it runs."""
    terms = (PodAffinityTerm(topology_key=topology_key, **{"selector": WEB, **term}),)
    return pod(uid, required_anti_affinity=terms)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("holder", "kept_away"),
    [
        (keeping_away("h"), ["a"]),
        (keeping_away("h", "zone"), ["a", "b"]),
        (keeping_away("h", "rack"), []),
        (keeping_away("h", namespaces=("other",)), []),
        (keeping_away("h", namespaces=("other",), all_namespaces=True), ["a"]),
        (keeping_away("h", selector=None), []),
        (keeping_away("h", selector=PodSelector()), ["a"]),
        (keeping_away("h", selector=PodSelector(match_labels={"app": "db"})), []),
        (keeping_away("h", selector=PodSelector(match_expressions=(NOT_DB,))), ["a"]),
    ],
)
def test_a_running_pod_keeps_away_the_pods_that_its_required_anti_affinity_selects(
    restarts: bool, holder: Pod, kept_away: list[str]
) -> None:
    zones = {"a": "1", "b": "1", "c": "2"}
    world = World(tick(), *(node(name, labels={"zone": zone}) for name, zone in zones.items()))
    world.send(lifecycle("running", holder, "a"))
    if restarts:
        world.restart()
    pods = [pod(f"w{number}", cpu="7", labels={"app": "web"}) for number in range(3)]
    decisions = world.send(*(request(pod) for pod in pods))
    node_names = sorted(decision.node for decision in decisions if decision.node)
    assert node_names == [name for name in "abc" if name not in kept_away]
    if kept_away:
        assert decisions[0].refused_by == {"InterPodAffinity": len(kept_away)}
    world.send(lifecycle("deleted", holder, "a"))
    decisions = world.send(tick(60))
    assert sorted(decision.node for decision in decisions if decision.node) == kept_away


def test_a_pod_that_many_terms_may_select_is_kept_away_by_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_index, "COMPARED_MAX", 1)
    world = World(tick(), node())
    exists = SelectorRequirement(key="tier", operator="Exists")
    for number in range(2):
        selector = PodSelector(match_labels={"app": "web"}, match_expressions=(exists,) * number)
        holder = keeping_away(f"h{number}", selector=selector)
        world.send(lifecycle("running", holder, "node-1"))
    assert outcomes(world.send(request(pod("w", labels={"app": "web"})))) == [("w", "waiting")]


def test_topology_keys_that_no_node_has_are_not_looked_for_on_every_node() -> None:
    world = World(tick(), node("a"), node("b"))
    terms = tuple(PodAffinityTerm(topology_key=f"k{number}", selector=WEB) for number in range(64))
    world.send(lifecycle("running", pod("h", required_anti_affinity=terms), "a"))
    world.send(request(pod("first")))
    visits = 0

    class Visited(list[Node]):
        def __iter__(self) -> Iterator[Node]:
            nonlocal visits
            visits += 1
            return super().__iter__()

    index = world.state.inventory.index
    index.nodes = Visited(index.nodes)
    assert only(world.send(request(pod("w", labels={"app": "web"})))).outcome == "placed"
    assert visits < len(terms)


@pytest.mark.parametrize("restarts", [False, True])
def test_room_nominated_by_another_scheduler_is_not_used(restarts: bool) -> None:
    world = World(tick(), node("a"), node("b"))
    theirs = big_pod("theirs", nominated_node="a")
    world.send(lifecycle("changed", theirs))
    if restarts:
        world.restart()
    placed = only(world.send(request(big_pod("p"))))
    assert placed.node == "b"
    world.send(outcome(placed, "done"))
    assert outcomes(world.send(request(big_pod("q")), tick(9999))) == [("q", "waiting")] * 2
    decisions = world.send(lifecycle("changed", theirs.model_copy(update={"nominated_node": "b"})))
    assert [(decision.pod.uid, decision.node) for decision in decisions] == [("q", "a")]


@pytest.mark.parametrize("end", ["unnominated", "deleted", "bound elsewhere", "unlisted"])
def test_nominated_room_ends_with_the_nomination(end: str) -> None:
    world = World(tick(), node("a"), node("b", cpu="0"))
    theirs = big_pod("theirs")
    world.send(lifecycle("changed", theirs.model_copy(update={"nominated_node": "a"})))
    world.send(request(big_pod("p")))
    match end:
        case "unnominated":
            decisions = world.send(lifecycle("changed", theirs))
        case "deleted":
            decisions = world.send(lifecycle("deleted", theirs))
        case "bound elsewhere":
            decisions = world.send(lifecycle("bound", theirs, "b"))
        case _:
            decisions = world.full_list("pod-lifecycle", lifecycle("seen", big_pod("p")))
    assert [(decision.pod.uid, decision.node) for decision in decisions] == [("p", "a")]


def test_nominated_room_becomes_that_of_the_bound_pod() -> None:
    world = World(tick(), node("a"))
    world.send(lifecycle("changed", big_pod("theirs", nominated_node="a")))
    assert world.send(lifecycle("bound", big_pod("theirs"), "a")) == []
    assert only(world.send(request(big_pod("p")))).outcome == "waiting"


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_pod_rejected_by_the_kubelet_releases_its_room(confirmed: bool) -> None:
    world = World(tick(), node("a"))
    placed = only(world.send(request(big_pod("p"))))
    if confirmed:
        world.send(outcome(placed, "done"), lifecycle("bound", big_pod("p"), "a"))
    failed = big_pod("p", phase="Failed", failure="OutOfcpu")
    end = only(world.send(lifecycle("finished", failed, "a")))
    assert (end.outcome, end.node, end.rejected) == ("withdrawn", "a", "OutOfcpu")
    assert end.message == "the kubelet of a rejected the pod: OutOfcpu"
    assert only(world.send(request(big_pod("replacement")))).node == "a"
    assert (
        world.send(lifecycle("finished", big_pod("other", phase="Failed", failure="Evicted"), "a"))
        == []
    )


def test_a_pod_with_an_unsupported_requirement_is_refused_by_its_name() -> None:
    world = World(tick(), node())
    answer = only(world.send(request(pod(unsupported=("topology spread",)))))
    assert answer.outcome == "refused"
    assert answer.message == "the pod requires topology spread, which loadstream does not evaluate"
    assert world.waiting == []


# --- before the clock ---------------------------------------------------------------------------


def test_requests_that_come_before_the_first_tick_are_decided_at_it() -> None:
    world = World()
    assert (
        world.send(node(), request("a"), request(pod("b", unsupported=("x",))), request("c")) == []
    )
    assert world.send(request("c", withdrawn=True)) == []
    decisions = world.send(tick(5))
    assert outcomes(decisions) == [("a", "placed"), ("b", "refused")]
    assert {decision.decided_at_ms for decision in decisions} == {at(5)}


def test_requests_from_before_the_first_tick_are_decided_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 7)
    world = World(node(), *(request(name) for name in "abcdef"), request("a"))
    assert outcomes(world.send(tick(0))) == [("a", "placed"), ("b", "placed")]
    # A new request joins the backlog, and two older requests are decided.
    assert outcomes(world.send(request("g"))) == [("c", "placed"), ("d", "placed")]
    world.restart()
    assert outcomes(world.send(tick(1))) == [("e", "placed"), ("f", "placed")]
    assert outcomes(world.send(tick(2))) == [("g", "placed")]
    assert outcomes(world.send(request("h"))) == [("h", "placed")]


def test_a_backlog_leaves_waiting_pods_half_of_each_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 8)
    world = World(*(request(name) for name in "abcd"))
    assert outcomes(world.send(tick(0))) == [("a", "waiting"), ("b", "waiting")]
    decisions = world.send(node(), tick(1))
    assert outcomes(decisions)[:2] == [("c", "waiting"), ("d", "waiting")]
    assert outcomes(decisions)[2:4] == [("a", "placed"), ("b", "placed")]


def test_reservations_that_end_at_once_end_over_several_ticks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(tick(), node(), policy_record("reservationSeconds: 5"))
    world.send(*(request(name) for name in "abc"))
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 8)
    assert [outcome for outcome in outcomes(world.send(tick(6))) if outcome[1] == "expired"] == [
        ("a", "expired")
    ]
    world.restart()
    assert [outcome for outcome in outcomes(world.send(tick(7))) if outcome[1] == "expired"] == [
        ("b", "expired")
    ]


def test_more_requests_than_may_wait_go_to_dead_letters_before_the_first_tick() -> None:
    world = World(policy_record("maxPendingRequests: 2"))
    (letter,) = world.send_refused(*(request(name) for name in "abbc"))
    assert letter.category == "limit"
    assert world.waiting == ["a", "b"]


# --- room ---------------------------------------------------------------------------------------


def test_a_decision_reserves_room_until_the_pod_ends() -> None:
    for end in ("deleted", "finished"):
        world = World(tick(), node())
        world.send(request(big_pod("first")))
        assert outcomes(world.send(request(big_pod("second")))) == [("second", "waiting")]
        assert outcomes(world.send(lifecycle(end, big_pod("first")))) == [
            ("first", "withdrawn"), ("second", "placed"),
        ]  # fmt: skip


def test_a_withdrawn_request_releases_its_room() -> None:
    world = World(tick(), node())
    world.send(request(big_pod("first")))
    decision = only(world.send(request(big_pod("first"), withdrawn=True)))
    assert (decision.outcome, decision.node) == ("withdrawn", "node-1")
    assert only(world.send(request(big_pod("second")))).outcome == "placed"


@pytest.mark.parametrize("result", ["failed", "refused", "expired"])
def test_a_binding_that_fails_is_tried_again_after_its_own_back_off(result: Any) -> None:
    world = World(tick(), node(), tick(50))
    first = only(world.send(request(big_pod("p"))))
    decision = only(world.send(outcome(first, result, "conflict")))
    assert (decision.outcome, decision.attempt, decision.retry_after_ms) == ("waiting", 1, 1000)
    assert decision.message == f"binding to node-1 {result}: conflict"
    (again,) = world.state.placement.pending
    assert again.request.requested_at_ms == request().requested_at_ms
    assert world.send(tick(50)) == []
    second = only(world.send(tick(51)))
    assert (second.outcome, second.attempt) == ("placed", 1)
    assert second.decision_id != first.decision_id


def test_a_request_ends_when_a_binding_finds_that_its_pod_is_gone() -> None:
    world = World(tick(), node(), tick(50))
    world.send(lifecycle("deleted", big_pod("p")))
    first = only(world.send(request(big_pod("p"))))  # it comes after its pod has gone
    decision = only(world.send(outcome(first, "failed", pod_gone=True)))
    assert (decision.outcome, decision.node) == ("withdrawn", "node-1")
    assert decision.message == "the pod no longer exists"
    assert world.waiting == []
    assert only(world.send(request(big_pod("another")))).outcome == "placed", (
        "its room is given back"
    )
    assert {decision.pod.uid for decision in world.send(tick(51), tick(5000))} == {"another"}


def test_a_late_report_that_the_pod_is_gone_ends_its_waiting() -> None:
    world = World(tick(), node(), tick(50))
    first = only(world.send(request(big_pod("p"))))
    assert only(world.send(outcome(first, "failed"))).outcome == "waiting"
    decision = only(world.send(outcome(first, "failed", pod_gone=True)))
    assert (decision.pod.uid, decision.outcome) == ("p", "withdrawn")
    assert world.waiting == []


def test_repeated_binding_failures_increase_the_back_off_up_to_its_limit() -> None:
    world = World(tick(), node(), policy_record("maxBackoffSeconds: 10"))
    decision, now, waits = only(world.send(request())), 0.0, []
    for number in range(6):
        failed = only(world.send(outcome(decision, "failed")))
        assert failed.retry_after_ms is not None
        waits.append(failed.retry_after_ms)
        now += failed.retry_after_ms / 1000
        if number == 3:
            world.restart()
        decision = only(world.send(tick(now)))
    assert waits == [1000, 2000, 4000, 8000, 10_000, 10_000]


def test_a_dry_binding_releases_its_room_and_ends_the_request() -> None:
    world = World(tick(), node())
    decision = only(world.send(request(big_pod("p"))))
    assert world.send(outcome(decision, "dry")) == []
    assert world.waiting == []
    assert only(world.send(request(big_pod("q")))).outcome == "placed"


def test_an_outcome_of_an_older_decision_changes_nothing() -> None:
    world = World(tick(), node())
    first = only(world.send(request()))
    world.send(outcome(first, "failed"))
    world.send(tick(1))
    assert world.send(outcome(first, "failed"), outcome(first, "done")) == []
    assert list(world.state.inventory.node_of_pod) == ["pod-1"]


def test_a_reservation_that_nobody_confirms_expires_and_the_pod_waits_again() -> None:
    world = World(tick(), node())
    world.send(request(big_pod("p")))
    assert world.send(tick(299.999)) == []
    end = only(world.send(tick(300)))
    assert (end.outcome, end.node) == ("expired", "node-1")
    assert end.message == "the reservation on node-1 was not confirmed in time; the pod waits again"
    again = only(world.send(tick(301)))
    assert (again.outcome, again.attempt, again.expires_at_ms) == ("placed", 1, at(601))


def test_a_later_reservation_does_not_end_with_the_earlier_one() -> None:
    world = World(tick(), node(), tick(50))
    first = only(world.send(request()))
    world.send(outcome(first, "failed"), tick(51))
    assert world.send(tick(350)) == []
    assert outcomes(world.send(tick(351))) == [("pod-1", "expired")]


@pytest.mark.parametrize("event", ["bound", "initialised", "running", "changed", "seen"])
def test_the_lifecycle_of_a_pod_on_its_node_confirms_the_reservation(event: str) -> None:
    world = World(tick(), node())
    world.send(request(big_pod("p")))
    assert world.send(lifecycle(event, big_pod("p"), "node-1"), tick(9999)) == []
    assert world.state.inventory.node_of_pod == {"p": "node-1"}


def test_a_pod_bound_by_another_scheduler_stops_waiting() -> None:
    world = World(tick())
    world.send(request())
    decision = only(world.send(lifecycle("bound", pod(), "elsewhere")))
    assert (decision.outcome, decision.node) == ("withdrawn", "elsewhere")
    assert decision.message == "the pod was bound to elsewhere, where it had no reservation"


def test_a_second_request_of_a_pod_that_has_its_node_is_not_answered() -> None:
    world = World(tick(), node())
    decision = only(world.send(request()))
    assert world.send(request()) == []
    world.send(outcome(decision, "done"))
    assert world.send(request()) == []


def test_reservations_on_a_removed_node_expire() -> None:
    world = World(tick(), node())
    world.send(request())
    world.send(removed_node())
    assert only(world.send(request("q"))).message == "the cluster has no nodes"
    assert ("pod-1", "expired") in outcomes(world.send(tick(300)))
