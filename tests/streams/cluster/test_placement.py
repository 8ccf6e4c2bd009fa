"""What a decision says, and what takes room and gives it back; `test_waiting` and `test_lists` hold
the rest."""

from collections.abc import Iterator
from typing import Any

import pytest

from schemas.messages.nodes import Taint
from schemas.messages.pod_selectors import PodSelector, SelectorRequirement
from schemas.messages.pods import Pod, PodAffinityTerm, Toleration
from streams.cluster import placement
from streams.inventory.node import Node
from streams.pods import anti_affinity
from tests.streams.cluster.builders import (
    at,
    full,
    lifecycle,
    metric,
    node,
    node_gone,
    outcome,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run, cluster, only, outcomes, waiting

HOST = "kubernetes.io/hostname"
WEB = PodSelector(match_labels={"app": "web"})
NOT_DB = SelectorRequirement(key="app", operator="NotIn", values=("db",))

# --- what a decision says -----------------------------------------------------------------------


def test_a_placement_names_node_expiry_and_scores() -> None:
    run = cluster(
        node("a"), node("b"), node("c"), node("d", cpu="100m"), metric("a", cpu=6100), metric("b")
    )
    run.say(metric("c", cpu=1000))
    made = only(run.say(request()))
    assert (made.outcome, made.node, made.attempt) == ("placed", "b", 0)
    assert made.expires_at_ms == at(300)
    assert (made.nodes, made.stale_nodes) == (4, 1)
    assert made.refused_by == {"NodeResourcesFit": 1, "LoadAwareScheduling": 1}
    assert made.winner is not None
    assert [(term.plugin, term.weight) for term in made.winner.terms] == [
        ("OverutilizationRisk", 1),
    ]
    assert [each.node for each in made.runners_up] == ["c"]
    assert (made.reasons, made.message) == ((), "")


def test_a_waiting_decision_counts_nodes_by_reason() -> None:
    run = Run()
    run.say(policy_record("whenOverloaded: wait"))
    run.say(tick(180), *(node(name) for name in "abcde"))
    run.say(*(metric(name, cpu=7000, seconds=180) for name in "abc"))
    run.say(metric("d", seconds=0), metric("e", seconds=0))
    made = only(run.say(request()))
    assert made.message == "3 nodes: cpu usage exceed threshold; 2 nodes: nodeMetric expired"
    assert (made.outcome, made.attempt, made.retry_after_ms) == ("waiting", 1, 1000)
    assert (made.nodes, made.stale_nodes) == (5, 2)
    assert made.refused_by == {"LoadAwareScheduling": 5}
    assert [(each.nodes, each.reason) for each in made.reasons] == [
        (3, "node(s) cpu usage exceed threshold"),
        (2, "node(s) nodeMetric expired"),
    ]


def test_reservations_count_like_usage() -> None:
    run = cluster(node(cpu="32"), metric(cpu=20_000), policy_record("whenOverloaded: wait"))
    made = run.say(*(request(pod(f"p{number}", cpu="2")) for number in range(6)))
    # Each counts 1.7 cores from its placement on: three bring the node to 25.1 of 32, above 75 %.
    assert [each.outcome for each in made] == ["placed"] * 3 + ["waiting"] * 3


def test_a_pod_goes_to_the_best_node_when_all_are_overloaded() -> None:
    run = cluster(node("a"), node("b"), node("full", cpu="100m"))
    run.say(metric("a", cpu=7900), metric("b", cpu=6500), metric("full"))
    made = only(run.say(request()))
    assert (made.outcome, made.node) == ("placed", "b")
    assert made.refused_by == {"NodeResourcesFit": 1, "LoadAwareScheduling": 2}
    assert made.message == (
        "no node passes every filter (2 nodes: cpu usage exceed threshold; 1 node: Insufficient "
        "cpu); placed on the best node that remains"
    )


def test_a_tolerated_prefer_no_schedule_taint_has_no_effect() -> None:
    run = cluster(node("a", taints=(Taint(key="spare", effect="PreferNoSchedule"),)), node("b"))
    run.say(metric("a", cpu=1), metric("b", cpu=5000))
    assert only(run.say(request(pod(tolerations=(Toleration(key="spare"),))))).node == "a"


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
    run = cluster(*(node(name, labels={"zone": zone}) for name, zone in zones.items()))
    run.say(lifecycle("running", holder, "a"))
    if restarts:
        run.restart()
    pods = [pod(f"w{number}", cpu="7", labels={"app": "web"}) for number in range(3)]
    made = run.say(*(request(each) for each in pods))
    taken = sorted(each.node for each in made if each.node)
    assert taken == [name for name in "abc" if name not in kept_away]
    if kept_away:
        assert made[0].refused_by == {"InterPodAffinity": len(kept_away)}
    run.say(lifecycle("deleted", holder, "a"))
    made = run.say(tick(60))
    assert sorted(each.node for each in made if each.node) == kept_away


def test_a_pod_that_many_terms_may_select_is_kept_away_by_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anti_affinity, "COMPARED_MAX", 1)
    run = cluster(node())
    wanted = SelectorRequirement(key="tier", operator="Exists")
    for number in range(2):
        selector = PodSelector(match_labels={"app": "web"}, match_expressions=(wanted,) * number)
        holder = keeping_away(f"h{number}", selector=selector)
        run.say(lifecycle("running", holder, "node-1"))
    assert outcomes(run.say(request(pod("w", labels={"app": "web"})))) == [("w", "waiting")]


def test_topology_keys_that_no_node_has_are_not_looked_for_on_every_node() -> None:
    run = cluster(node("a"), node("b"))
    terms = tuple(PodAffinityTerm(topology_key=f"k{number}", selector=WEB) for number in range(64))
    run.say(lifecycle("running", pod("h", required_anti_affinity=terms), "a"))
    run.say(request(pod("first")))
    visits = 0

    class Visited(list[Node]):
        def __iter__(self) -> Iterator[Node]:
            nonlocal visits
            visits += 1
            return super().__iter__()

    index = run.state.inventory.index
    index.nodes = Visited(index.nodes)
    assert only(run.say(request(pod("w", labels={"app": "web"})))).outcome == "placed"
    assert visits < len(terms)


@pytest.mark.parametrize("restarts", [False, True])
def test_room_nominated_by_another_scheduler_is_not_used(restarts: bool) -> None:
    run = cluster(node("a"), node("b"))
    theirs = full("theirs", nominated_node="a")
    run.say(lifecycle("changed", theirs))
    if restarts:
        run.restart()
    placed = only(run.say(request(full("p"))))
    assert placed.node == "b"
    run.say(outcome(placed, "done"))
    assert outcomes(run.say(request(full("q")), tick(9999))) == [("q", "waiting")] * 2
    made = run.say(lifecycle("changed", theirs.model_copy(update={"nominated_node": "b"})))
    assert [(each.pod.uid, each.node) for each in made] == [("q", "a")]


@pytest.mark.parametrize("end", ["unnominated", "deleted", "bound elsewhere", "unlisted"])
def test_nominated_room_ends_with_the_nomination(end: str) -> None:
    run = cluster(node("a"), node("b", cpu="0"))
    theirs = full("theirs")
    run.say(lifecycle("changed", theirs.model_copy(update={"nominated_node": "a"})))
    run.say(request(full("p")))
    match end:
        case "unnominated":
            made = run.say(lifecycle("changed", theirs))
        case "deleted":
            made = run.say(lifecycle("deleted", theirs))
        case "bound elsewhere":
            made = run.say(lifecycle("bound", theirs, "b"))
        case _:
            made = run.full_list("pod-lifecycle", "1", lifecycle("seen", full("p")))
    assert [(each.pod.uid, each.node) for each in made] == [("p", "a")]


def test_nominated_room_becomes_that_of_the_bound_pod() -> None:
    run = cluster(node("a"))
    run.say(lifecycle("changed", full("theirs", nominated_node="a")))
    assert run.say(lifecycle("bound", full("theirs"), "a")) == []
    assert only(run.say(request(full("p")))).outcome == "waiting"


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_pod_rejected_by_the_kubelet_releases_its_room(confirmed: bool) -> None:
    run = cluster(node("a"))
    placed = only(run.say(request(full("p"))))
    if confirmed:
        run.say(outcome(placed, "done"), lifecycle("bound", full("p"), "a"))
    failed = full("p", phase="Failed", failure="OutOfcpu")
    made = run.say(lifecycle("finished", failed, "a"))
    assert [(each.outcome, each.node, each.rejected, each.message) for each in made] == [
        ("withdrawn", "a", "OutOfcpu", "the kubelet of a rejected the pod: OutOfcpu")
    ]
    assert only(run.say(request(full("replacement")))).node == "a"
    assert (
        run.say(lifecycle("finished", full("other", phase="Failed", failure="Evicted"), "a")) == []
    )


def test_a_pod_with_an_unsupported_requirement_is_refused_by_its_name() -> None:
    run = cluster(node())
    made = only(run.say(request(pod(unsupported=("topology spread",)))))
    assert made.outcome == "refused"
    assert made.message == "the pod requires topology spread, which loadstream does not evaluate"
    assert waiting(run) == []


@pytest.mark.parametrize("fields", [{"node": "x"}, {"phase": "Failed"}, {"deleting_at_ms": at(0)}])
def test_a_pod_that_wants_no_node_is_refused(fields: dict[str, Any]) -> None:
    assert only(cluster(node()).say(request(pod(**fields)))).outcome == "refused"


# --- before the clock ---------------------------------------------------------------------------


def test_requests_that_come_before_the_first_tick_are_decided_at_it() -> None:
    run = Run()
    assert run.say(node(), request("a"), request(pod("b", unsupported=("x",))), request("c")) == []
    assert run.say(request("c", withdrawn=True)) == []
    made = run.say(tick(5))
    assert outcomes(made) == [("a", "placed"), ("b", "refused")]
    assert {each.decided_at_ms for each in made} == {at(5)}


def test_requests_from_before_the_first_tick_are_decided_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 7)
    run = Run()
    run.say(node(), *(request(name) for name in "abcdef"), request("a"))
    assert outcomes(run.say(tick(0))) == [("a", "placed"), ("b", "placed")]
    # What comes meanwhile waits its turn, and takes the backlog two further.
    assert outcomes(run.say(request("g"))) == [("c", "placed"), ("d", "placed")]
    run.restart()
    assert outcomes(run.say(tick(1))) == [("e", "placed"), ("f", "placed")]
    assert outcomes(run.say(tick(2))) == [("g", "placed")]
    assert outcomes(run.say(request("h"))) == [("h", "placed")]


def test_a_backlog_leaves_waiting_pods_half_of_each_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 8)
    run = Run()
    run.say(*(request(name) for name in "abcd"))
    assert outcomes(run.say(tick(0))) == [("a", "waiting"), ("b", "waiting")]
    made = run.say(node(), tick(1))
    assert outcomes(made)[:2] == [("c", "waiting"), ("d", "waiting")]
    assert outcomes(made)[2:4] == [("a", "placed"), ("b", "placed")]


def test_reservations_that_end_at_once_end_over_several_ticks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = cluster(node(), policy_record("reservationSeconds: 5"))
    run.say(*(request(name) for name in "abc"))
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 8)
    assert [each for each in outcomes(run.say(tick(6))) if each[1] == "expired"] == [
        ("a", "expired")
    ]
    run.restart()
    assert [each for each in outcomes(run.say(tick(7))) if each[1] == "expired"] == [
        ("b", "expired")
    ]


def test_more_requests_than_may_wait_go_to_dead_letters_before_the_first_tick() -> None:
    run = Run()
    run.say(policy_record("maxPendingRequests: 2"), *(request(name) for name in "abbc"))
    assert [letter.category for letter in run.dead_letters] == ["limit"]
    assert waiting(run) == ["a", "b"]


# --- room ---------------------------------------------------------------------------------------


def test_a_decision_reserves_room_until_the_pod_ends() -> None:
    for end in ("deleted", "finished"):
        run = cluster(node())
        run.say(request(full("first")))
        assert outcomes(run.say(request(full("second")))) == [("second", "waiting")]
        assert outcomes(run.say(lifecycle(end, full("first")))) == [
            ("first", "withdrawn"), ("second", "placed"),
        ]  # fmt: skip


def test_a_withdrawn_request_releases_its_room() -> None:
    run = cluster(node())
    run.say(request(full("first")))
    made = only(run.say(request(full("first"), withdrawn=True)))
    assert (made.outcome, made.node) == ("withdrawn", "node-1")
    assert only(run.say(request(full("second")))).outcome == "placed"


@pytest.mark.parametrize("result", ["failed", "refused", "expired"])
def test_a_binding_that_fails_is_tried_again_after_its_own_back_off(result: Any) -> None:
    run = cluster(node(), tick(50))
    first = only(run.say(request(full("p"))))
    made = only(run.say(outcome(first, result, "conflict")))
    assert (made.outcome, made.attempt, made.retry_after_ms) == ("waiting", 1, 1000)
    assert made.message == f"binding to node-1 {result}: conflict"
    (again,) = run.state.placement.pending
    assert again.request.requested_at_ms == request().requested_at_ms
    assert run.say(tick(50)) == []
    second = only(run.say(tick(51)))
    assert (second.outcome, second.attempt) == ("placed", 1)
    assert second.decision_id != first.decision_id


def test_a_request_ends_when_a_binding_finds_that_its_pod_is_gone() -> None:
    run = cluster(node(), tick(50))
    run.say(lifecycle("deleted", full("p")))
    first = only(run.say(request(full("p"))))  # it comes after its pod has gone
    made = only(run.say(outcome(first, "failed", pod_gone=True)))
    assert (made.outcome, made.node) == ("withdrawn", "node-1")
    assert made.message == "the pod no longer exists"
    assert waiting(run) == []
    assert only(run.say(request(full("another")))).outcome == "placed", "its room is given back"
    assert {each.pod.uid for each in run.say(tick(51), tick(5000))} == {"another"}


def test_a_late_report_that_the_pod_is_gone_ends_its_waiting() -> None:
    run = cluster(node(), tick(50))
    first = only(run.say(request(full("p"))))
    assert only(run.say(outcome(first, "failed"))).outcome == "waiting"
    made = only(run.say(outcome(first, "failed", pod_gone=True)))
    assert (made.pod.uid, made.outcome) == ("p", "withdrawn")
    assert waiting(run) == []


def test_repeated_binding_failures_increase_the_back_off_up_to_its_limit() -> None:
    run = cluster(node(), policy_record("maxBackoffSeconds: 10"))
    made, now, waits = only(run.say(request())), 0.0, []
    for number in range(6):
        failed = only(run.say(outcome(made, "failed")))
        assert failed.retry_after_ms is not None
        waits.append(failed.retry_after_ms)
        now += failed.retry_after_ms / 1000
        if number == 3:
            run.restart()
        made = only(run.say(tick(now)))
    assert waits == [1000, 2000, 4000, 8000, 10_000, 10_000]


def test_a_dry_binding_releases_its_room_and_ends_the_request() -> None:
    run = cluster(node())
    made = only(run.say(request(full("p"))))
    assert run.say(outcome(made, "dry")) == []
    assert waiting(run) == []
    assert only(run.say(request(full("q")))).outcome == "placed"


def test_an_outcome_of_an_older_decision_changes_nothing() -> None:
    run = cluster(node())
    first = only(run.say(request()))
    run.say(outcome(first, "failed"))
    run.say(tick(1))
    assert run.say(outcome(first, "failed"), outcome(first, "done")) == []
    assert list(run.state.inventory.node_of_pod) == ["pod-1"]


def test_a_reservation_that_nobody_confirms_expires_and_the_pod_waits_again() -> None:
    run = cluster(node())
    run.say(request(full("p")))
    assert run.say(tick(299.999)) == []
    made = only(run.say(tick(300)))
    assert (made.outcome, made.node) == ("expired", "node-1")
    assert (
        made.message == "the reservation on node-1 was not confirmed in time; the pod waits again"
    )
    again = only(run.say(tick(301)))
    assert (again.outcome, again.attempt, again.expires_at_ms) == ("placed", 1, at(601))


@pytest.mark.parametrize("event", ["bound", "initialised", "running", "changed", "seen"])
def test_the_lifecycle_of_a_pod_on_its_node_confirms_the_reservation(event: str) -> None:
    run = cluster(node())
    run.say(request(full("p")))
    assert run.say(lifecycle(event, full("p"), "node-1"), tick(9999)) == []
    assert run.state.inventory.node_of_pod == {"p": "node-1"}


def test_a_pod_bound_by_another_scheduler_stops_waiting() -> None:
    run = cluster()
    run.say(request())
    made = only(run.say(lifecycle("bound", pod(), "elsewhere")))
    assert (made.outcome, made.node) == ("withdrawn", "elsewhere")
    assert made.message == "the pod was bound to elsewhere, where it had no reservation"


def test_a_second_request_of_a_pod_that_has_its_node_is_not_answered() -> None:
    run = cluster(node())
    made = only(run.say(request()))
    assert run.say(request()) == []
    run.say(outcome(made, "done"))
    assert run.say(request()) == []


def test_reservations_on_a_removed_node_expire() -> None:
    run = cluster(node())
    run.say(request())
    run.say(node_gone())
    assert only(run.say(request("q"))).message == "the cluster has no nodes"
    assert ("pod-1", "expired") in outcomes(run.say(tick(300)))
