"""Waiting requests: order, back-off, and the records that end it."""

from typing import Any

import pytest

from schemas.messages.decisions import SchedulingRequest
from schemas.messages.nodes import NodeState, Taint
from schemas.messages.pods import HostPort, Pod
from streams.cluster import placement
from streams.placement.filters.fit import NodeResourcesFit
from streams.placement.pending import REPORTS_PER_ATTEMPT_MAX, WaitingRequest
from streams.pods.kind import kind_of
from tests.streams.builders import (
    at,
    big_pod,
    container,
    lifecycle,
    metric,
    node,
    outcome,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.world import World, count_calls, only, outcomes, placed_uids

PORT = container({"cpu": "1"}, host_ports=(HostPort(port=80),))
PORT_OF_ALL = container({"cpu": "8"}, host_ports=(HostPort(port=80),))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_policy_with_shorter_back_offs_shortens_those_under_way(restarts: bool) -> None:
    world = World(
        tick(), policy_record("{initialBackoffSeconds: 3600, maxBackoffSeconds: 3600}"), node()
    )
    placed = only(world.send(request("failed")))
    world.send(outcome(placed, "failed"), request(big_pod("huge", memory="64Gi")), tick(10))
    if restarts:
        world.restart()
    world.send(policy_record("{initialBackoffSeconds: 20}"), node("big", cpu="32", memory="128Gi"))
    if restarts:
        world.restart()
    assert outcomes(world.send(tick(29))) == [("huge", "placed")]
    assert outcomes(world.send(tick(30))) == [("failed", "placed")]


def test_a_policy_with_longer_back_offs_leaves_those_under_way() -> None:
    world = World(tick(), policy_record("{initialBackoffSeconds: 20}"))
    world.send(request("a"))
    world.send(policy_record("{initialBackoffSeconds: 60}"), node(), tick(20))
    assert world.waiting == []


def test_a_request_joins_the_group_of_its_kind_and_its_back_off() -> None:
    world = World(tick(), node(cpu="1500m"))
    world.send(request("a"))
    first = only(world.send(request("b")))
    assert first.retry_after_ms == 1000
    world.send(tick(0.5))
    second = only(world.send(request("c")))
    assert (second.outcome, second.retry_after_ms) == ("waiting", 500)
    assert second.message == "1 node: Insufficient cpu"


def test_the_higher_priority_goes_first_across_kinds_and_within_one() -> None:
    world = World(tick())
    world.send(
        request(pod("low", priority=-5)),
        request(pod("none")),
        request(pod("high", priority=100)),
        request(big_pod("large", priority=50)),
        request(pod("higher", priority=2**31 - 1)),
        request(pod("first", priority=100)),
    )
    decisions = world.send(node("a", cpu="11"), node("b", cpu="3"), tick(1))
    assert placed_uids(decisions) == [
        "higher", "high", "first", "large", "none", "low",
    ]  # fmt: skip


def test_the_back_off_doubles_up_to_its_limit_without_attempts_in_between() -> None:
    world = World(tick(), node(cpu="500m"), policy_record("maxBackoffSeconds: 8"))
    world.send(request())
    answered = []
    for second in range(1, 40):
        # Something changes every second, so only the back-off holds attempts up.
        decisions = world.send(metric(seconds=second), tick(second))
        if decisions:
            answered.append((second, only(decisions).attempt, only(decisions).retry_after_ms))
    assert answered == [
        (1, 2, 2000), (3, 3, 4000), (7, 4, 8000), (15, 5, 8000), (23, 6, 8000), (31, 7, 8000), (39, 8, 8000),
    ]  # fmt: skip


# --- events that end the back-off ---------------------------------------------------------------

ZONE = {"zone": "a"}
TAINT = Taint(key="gpu", effect="NoSchedule")


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("before", "waiting", "event"),
    [
        (node(), big_pod("w"), lifecycle("deleted", big_pod("holder"))),
        (node(), big_pod("w"), node(cpu="16")),
        (node(cpu="32", unschedulable=True), pod("w"), node(cpu="32")),
        (node(cpu="32", taints=(TAINT,)), pod("w"), node(cpu="32")),
        (node(cpu="32"), pod("w", node_selector=ZONE), node(cpu="32", labels=ZONE)),
        (node(cpu="32"), pod("w", containers=(PORT,)), lifecycle("deleted", big_pod("holder"))),
    ],
)
def test_a_waiting_pod_is_placed_by_the_record_that_makes_room(
    restarts: bool, before: NodeState, waiting: Pod, event: Any
) -> None:
    world = World(tick(), before)
    world.send(lifecycle("running", big_pod("holder", containers=(PORT_OF_ALL,)), "node-1"))
    world.send(request(waiting), *(tick(second) for second in range(1, 100)))
    if restarts:
        world.restart()
    assert outcomes(world.send(event)) == [("w", "placed")]


def test_a_pod_waiting_for_lower_load_is_placed_by_the_metric() -> None:
    world = World(tick(), policy_record("whenOverloaded: wait"), node(), metric(cpu=7900))
    world.send(request(), tick(100), metric(cpu=7900, seconds=100))
    assert outcomes(world.send(metric(cpu=1000, seconds=101))) == [("pod-1", "placed")]


@pytest.mark.parametrize("kinds_at_once", [200, 0])
def test_freed_room_is_for_the_first_in_priority_then_arrival_and_not_for_a_new_request(
    monkeypatch: pytest.MonkeyPatch, kinds_at_once: int
) -> None:
    monkeypatch.setattr(placement, "GROUPS_AT_ONCE_MAX", kinds_at_once)
    world = World(tick(), node())
    world.send(request(big_pod("holder")))
    waits = [
        request(pod("old", cpu="5")),
        request(pod("high", cpu="6", priority=1_000_000)),
        request(pod("small", cpu="2")),
        request(pod("new", cpu="3")),
    ]
    world.send(*waits, *(tick(second) for second in range(1, 151)))
    last = request(pod("last", cpu="1500m"))
    decisions = world.send(lifecycle("deleted", big_pod("holder")), last)
    assert placed_uids(decisions + world.send(tick(151))) == ["high", "small"]


def test_only_attempts_in_which_nothing_had_changed_lengthen_the_back_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "GROUPS_AT_ONCE_MAX", 0)
    world = World(tick(), node(cpu="500m"))
    world.send(request())
    changed = []
    for second in range(1, 5):
        changed += world.send(node(cpu=f"{500 + second}m"), tick(second))
    assert [decision.retry_after_ms for decision in changed] == [1000] * 4
    unchanged = world.send(*(tick(second) for second in range(5, 13)))
    assert [decision.retry_after_ms for decision in unchanged] == [2000, 4000, 8000]


def test_a_change_that_helps_no_pod_makes_no_attempt() -> None:
    world = World(tick(), node(cpu="500m"), node("b", unschedulable=True))
    world.send(request(), *(tick(second) for second in range(1, 100)))
    assert world.send(node("b", cpu="700m"), node("b", unschedulable=True), metric("b")) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_is_refused_for_another_reason_later_is_not_forgotten(restarts: bool) -> None:
    world = World(tick(), node(taints=(TAINT,)))
    world.send(lifecycle("running", big_pod("holder"), "node-1"))
    world.send(request(pod("w")), tick(1))
    assert world.send(node()) == []
    if restarts:
        world.restart()
    assert outcomes(world.send(lifecycle("deleted", big_pod("holder")))) == [("w", "placed")]


def test_no_more_pods_are_placed_at_one_tick_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 5)
    world = World(tick())
    world.send(*(request(f"a{number}") for number in range(5)))
    world.send(node(cpu="100"))
    placed = [placed_uids(world.send(tick(second))) for second in (1, 2, 3)]
    assert placed == [["a0", "a1", "a2"], ["a3", "a4"], []]


@pytest.mark.parametrize("restarts", [False, True])
def test_groups_that_are_due_together_share_the_following_ticks(
    monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 12)
    world = World(tick(), node(cpu="1"))
    for number in range(40):
        world.send(request(pod(f"p{number:02}", cpu=str(2 + number), priority=number % 3)))
    tried: list[list[str]] = []
    for second in range(60, 80):
        if restarts:
            world.restart()
        tried.append([decision.pod.uid for decision in world.send(tick(second))])
    assert {len(uids) for uids in tried} == {4}
    assert len({uid for uids in tried for uid in uids}) == 40
    assert tried[0][:2] == ["p02", "p05"]


def test_unplaceable_pods_of_high_priority_do_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 12)
    world = World(tick(), policy_record("maxBackoffSeconds: 1"))
    for number in range(40):
        world.send(request(pod(f"high-{number}", cpu=str(20 + number), priority=9)))
    world.send(request(pod("low", priority=0)))
    world.send(node())
    placed_at = next(
        second
        for second in range(2, 60)
        if placed_uids(world.send(metric(seconds=second), tick(second)))
    )
    assert placed_at <= 2 + 41 / 2


def test_every_first_failure_is_reported_and_later_ones_up_to_a_limit() -> None:
    world = World(tick())
    count = REPORTS_PER_ATTEMPT_MAX + 50
    assert len(world.send(*(request(f"p{number:03}") for number in range(count)))) == count
    uids = [decision.pod.uid for decision in world.send(tick(1))]
    assert uids == [f"p{number:03}" for number in range(REPORTS_PER_ATTEMPT_MAX)]


@pytest.mark.slow
def test_a_group_of_100000_pods_checks_each_changed_node_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(tick(), node("a", cpu="500m"), node("b", cpu="500m"))
    world.send(request("p0"))
    pending = world.state.placement.pending
    kind, template = kind_of(pod()), request()
    for number in range(1, 100_000):
        renamed = template.pod.model_copy(update={"uid": f"p{number}"})
        another = template.model_copy(update={"pod": renamed})
        pending.add(WaitingRequest(another, kind, sequence=number + 1, attempt=1), at(0))
    calls = count_calls(monkeypatch, NodeResourcesFit, "mask", "reason")
    answered = 0
    for second in range(1, 20):
        answered += len(world.send(metric("a", seconds=second), tick(second)))
    attempts = 4  # after 1, 2, 4 and 8 seconds
    assert answered == attempts * REPORTS_PER_ATTEMPT_MAX
    assert calls["mask"] == 0
    assert calls["reason"] <= attempts
    assert placed_uids(world.send(node("c", cpu="2500m"), tick(31))) == ["p0", "p1"]
    assert len(pending) == 99_998


# --- limits and switches ------------------------------------------------------------------------


def test_more_requests_than_may_wait_are_refused() -> None:
    world = World(tick(), policy_record("maxPendingRequests: 2"))
    world.send(request("a"), request("b"))
    decision = only(world.send(request("c")))
    assert decision.outcome == "refused"
    assert decision.message == "2 requests wait already; maxPendingRequests allows no more"
    assert only(world.send(request("b"))).outcome == "waiting"


def test_a_paused_cluster_keeps_requests_and_decides_when_it_resumes() -> None:
    world = World(tick(), node(), policy_record(paused=True))
    decision = only(world.send(request()))
    assert (decision.outcome, decision.message) == (
        "waiting",
        "the cluster is paused; the pod is placed after it resumes",
    )
    assert world.send(tick(1), tick(50)) == []
    world.restart()
    assert world.send(tick(51)) == []
    world.send(policy_record())
    assert outcomes(world.send(tick(52))) == [("pod-1", "placed")]


def test_a_policy_takes_effect_when_it_is_applied() -> None:
    world = World(tick(), node(unschedulable=True))
    before = only(world.send(request("a")))
    assert before.message == "1 node: were unschedulable"
    assert before.as_of.policy_digest == "default"
    world.send(policy_record("plugins: {filter: [NodeResourcesFit]}"))
    after = only(world.send(tick(1)))
    assert after.outcome == "placed"
    assert after.as_of.policy_digest == world.state.policy.digest


def test_a_group_is_tried_although_earlier_groups_keep_finding_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # At one tick four pods of the highest priority, and one of each of two other kinds.
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 12)
    world = World()

    def more(number: int) -> list[SchedulingRequest]:
        first = [pod(f"first-{number}-{of}", cpu="10m", priority=10) for of in range(4)]
        busy = [pod(f"busy-{number}-{cpu}", cpu=f"{cpu}m") for cpu in (20, 30)]
        return [request(member) for member in (*first, *busy)]

    world.send(tick(0), *more(0))
    world.send(tick(1), request(pod("late", cpu="40m")))
    world.send(node(cpu="100"))
    placed: list[str] = []
    for second in range(60, 70):
        placed += placed_uids(world.send(*more(second), tick(second)))
    assert "late" in placed
