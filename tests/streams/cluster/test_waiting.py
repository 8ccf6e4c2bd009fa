"""Waiting requests: order, back-off, and the records that end it."""

from collections import Counter
from typing import Any

import pytest

from schemas.messages.nodes import NodeState, Taint
from schemas.messages.pods import HostPort, Pod
from schemas.messages.requests import SchedulingRequest
from streams.cluster import placement
from streams.placement.filters.fit import NodeResourcesFit
from streams.placement.pending import REPORTS_PER_ATTEMPT_MAX, WaitingRequest
from streams.pods.kind import kind_of
from tests.streams.cluster.builders import (
    at,
    container,
    full,
    lifecycle,
    metric,
    node,
    outcome,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run, cluster, only, outcomes, waiting

PORT = container({"cpu": "1"}, host_ports=(HostPort(port=80),))
PORT_OF_ALL = container({"cpu": "8"}, host_ports=(HostPort(port=80),))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_policy_with_shorter_back_offs_shortens_those_under_way(restarts: bool) -> None:
    run = cluster(policy_record("{initialBackoffSeconds: 3600, maxBackoffSeconds: 3600}"), node())
    placed = only(run.say(request("failed")))
    run.say(outcome(placed, "failed"), request(full("huge", memory="64Gi")), tick(10))
    if restarts:
        run.restart()
    run.say(policy_record("{initialBackoffSeconds: 20}"), node("big", cpu="32", memory="128Gi"))
    if restarts:
        run.restart()
    assert outcomes(run.say(tick(29))) == [("huge", "placed")]
    assert outcomes(run.say(tick(30))) == [("failed", "placed")]


def test_a_policy_with_longer_back_offs_leaves_those_under_way() -> None:
    run = cluster(policy_record("{initialBackoffSeconds: 20}"))
    run.say(request("a"))
    run.say(policy_record("{initialBackoffSeconds: 60}"), node(), tick(20))
    assert waiting(run) == []


def test_a_request_joins_the_group_of_its_kind_and_its_back_off() -> None:
    run = cluster(node(cpu="1500m"))
    run.say(request("a"))
    first = only(run.say(request("b")))
    assert first.retry_after_ms == 1000
    run.say(tick(0.5))
    second = only(run.say(request("c")))
    assert (second.outcome, second.retry_after_ms) == ("waiting", 500)
    assert second.message == "1 node: Insufficient cpu"


def test_the_higher_priority_goes_first_across_kinds_and_within_one() -> None:
    run = cluster()
    run.say(
        request(pod("low", priority=-5)),
        request(pod("none")),
        request(pod("high", priority=100)),
        request(full("large", priority=50)),
        request(pod("higher", priority=2**31 - 1)),
        request(pod("first", priority=100)),
    )
    made = run.say(node("a", cpu="11"), node("b", cpu="3"), tick(1))
    assert [each.pod.uid for each in made if each.outcome == "placed"] == [
        "higher", "high", "first", "large", "none", "low",
    ]  # fmt: skip


def test_the_back_off_doubles_up_to_its_limit_and_nothing_is_asked_in_between() -> None:
    run = cluster(node(cpu="500m"), policy_record("maxBackoffSeconds: 8"))
    run.say(request())
    answered = []
    for second in range(1, 40):
        # Something changes every second, so only the back-off holds attempts up.
        made = run.say(metric(seconds=second), tick(second))
        if made:
            answered.append((second, only(made).attempt, only(made).retry_after_ms))
    assert answered == [
        (1, 2, 2000), (3, 3, 4000), (7, 4, 8000), (15, 5, 8000), (23, 6, 8000), (31, 7, 8000), (39, 8, 8000),
    ]  # fmt: skip


# --- back-off is ended by what may help ---------------------------------------------------------

ZONE = {"zone": "a"}
TAINT = Taint(key="gpu", effect="NoSchedule")


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("before", "wanting", "event"),
    [
        (node(), full("w"), lifecycle("deleted", full("holder"))),
        (node(), full("w"), node(cpu="16")),
        (node(cpu="32", unschedulable=True), pod("w"), node(cpu="32")),
        (node(cpu="32", taints=(TAINT,)), pod("w"), node(cpu="32")),
        (node(cpu="32"), pod("w", node_selector=ZONE), node(cpu="32", labels=ZONE)),
        (node(cpu="32"), pod("w", containers=(PORT,)), lifecycle("deleted", full("holder"))),
    ],
)
def test_a_waiting_pod_is_placed_by_the_record_that_makes_room(
    restarts: bool, before: NodeState, wanting: Pod, event: Any
) -> None:
    run = cluster(before)
    run.say(lifecycle("running", full("holder", containers=(PORT_OF_ALL,)), "node-1"))
    run.say(request(wanting), *(tick(second) for second in range(1, 100)))
    if restarts:
        run.restart()
    assert outcomes(run.say(event)) == [("w", "placed")]


def test_a_pod_waiting_for_lower_load_is_placed_by_the_metric() -> None:
    run = cluster(policy_record("whenOverloaded: wait"), node(), metric(cpu=7900))
    run.say(request(), tick(100), metric(cpu=7900, seconds=100))
    assert outcomes(run.say(metric(cpu=1000, seconds=101))) == [("pod-1", "placed")]


@pytest.mark.parametrize("kinds_at_once", [200, 0])
def test_freed_room_is_for_the_first_in_priority_then_arrival_and_not_for_a_new_request(
    monkeypatch: pytest.MonkeyPatch, kinds_at_once: int
) -> None:
    monkeypatch.setattr(placement, "KINDS_AT_ONCE_MAX", kinds_at_once)
    run = cluster(node())
    run.say(request(full("holder")))
    waits = [
        request(pod("old", cpu="5")),
        request(pod("high", cpu="6", priority=1_000_000)),
        request(pod("small", cpu="2")),
        request(pod("new", cpu="3")),
    ]
    run.say(*waits, *(tick(second) for second in range(1, 151)))
    made = run.say(lifecycle("deleted", full("holder")), request(pod("last", cpu="1500m")))
    made += run.say(tick(151))
    assert [each.pod.uid for each in made if each.outcome == "placed"] == ["high", "small"]


def test_only_attempts_in_which_nothing_had_changed_lengthen_the_back_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "KINDS_AT_ONCE_MAX", 0)
    run = cluster(node(cpu="500m"))
    run.say(request())
    changed = []
    for second in range(1, 5):
        changed += run.say(node(cpu=f"{500 + second}m"), tick(second))
    assert [each.retry_after_ms for each in changed] == [1000] * 4
    unchanged = run.say(*(tick(second) for second in range(5, 13)))
    assert [each.retry_after_ms for each in unchanged] == [2000, 4000, 8000]


def test_a_change_that_helps_no_pod_makes_no_attempt() -> None:
    run = cluster(node(cpu="500m"), node("b", unschedulable=True))
    run.say(request(), *(tick(second) for second in range(1, 100)))
    assert run.say(node("b", cpu="700m"), node("b", unschedulable=True), metric("b")) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_is_refused_for_another_reason_later_is_not_forgotten(restarts: bool) -> None:
    run = cluster(node(taints=(TAINT,)))
    run.say(lifecycle("running", full("holder"), "node-1"))
    run.say(request(pod("w")), tick(1))
    assert run.say(node()) == []
    if restarts:
        run.restart()
    assert outcomes(run.say(lifecycle("deleted", full("holder")))) == [("w", "placed")]


def test_no_more_pods_are_placed_at_one_tick_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 5)
    run = cluster()
    run.say(*(request(f"a{number}") for number in range(5)))
    run.say(node(cpu="100"))
    placed = [
        [each.pod.uid for each in run.say(tick(second)) if each.outcome == "placed"]
        for second in (1, 2, 3)
    ]
    assert placed == [["a0", "a1", "a2"], ["a3", "a4"], []]


@pytest.mark.parametrize("restarts", [False, True])
def test_groups_that_are_due_together_share_the_following_ticks(
    monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 12)
    run = cluster(node(cpu="1"))
    for number in range(40):
        run.say(request(pod(f"p{number:02}", cpu=str(2 + number), priority=number % 3)))
    tried: list[list[str]] = []
    for second in range(60, 80):
        if restarts:
            run.restart()
        tried.append([each.pod.uid for each in run.say(tick(second))])
    assert {len(each) for each in tried} == {4}
    assert len({uid for each in tried for uid in each}) == 40
    assert tried[0][:2] == ["p02", "p05"]


def test_unplaceable_pods_of_high_priority_do_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 12)
    run = cluster(policy_record("maxBackoffSeconds: 1"))
    for number in range(40):
        run.say(request(pod(f"high-{number}", cpu=str(20 + number), priority=9)))
    run.say(request(pod("low", priority=0)))
    run.say(node())
    placed_at = next(
        second
        for second in range(2, 60)
        if any(each.outcome == "placed" for each in run.say(metric(seconds=second), tick(second)))
    )
    assert placed_at <= 2 + 41 / 2


def test_every_first_failure_is_reported_and_later_ones_up_to_a_limit() -> None:
    run = cluster()
    count = REPORTS_PER_ATTEMPT_MAX + 50
    assert len(run.say(*(request(f"p{number:03}") for number in range(count)))) == count
    made = run.say(tick(1))
    assert [each.pod.uid for each in made] == [f"p{i:03}" for i in range(REPORTS_PER_ATTEMPT_MAX)]


@pytest.mark.slow
def test_a_group_of_100000_pods_checks_each_changed_node_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = cluster(node("a", cpu="500m"), node("b", cpu="500m"))
    run.say(request("p0"))
    pending = run.state.placement.pending
    kind, wanting = kind_of(pod()), request()
    for number in range(1, 100_000):
        named = wanting.pod.model_copy(update={"uid": f"p{number}"})
        another = wanting.model_copy(update={"pod": named})
        pending.add(WaitingRequest(another, kind, sequence=number + 1, attempt=1), at(0))
    calls = Counter[str]()
    for name in ("mask", "reason"):
        _count(monkeypatch, NodeResourcesFit, name, calls)
    answered = 0
    for second in range(1, 20):
        answered += len(run.say(metric("a", seconds=second), tick(second)))
    attempts = 4  # after 1, 2, 4 and 8 seconds
    assert answered == attempts * REPORTS_PER_ATTEMPT_MAX
    assert calls["mask"] == 0
    assert calls["reason"] <= attempts
    made = run.say(node("c", cpu="2500m"), tick(31))
    assert [each.pod.uid for each in made if each.outcome == "placed"] == ["p0", "p1"]
    assert len(pending) == 99_998


def _count(patch: pytest.MonkeyPatch, plugin: type, name: str, calls: Counter[str]) -> None:
    """Count how often a method of a plugin is called."""
    method = getattr(plugin, name)

    def counting(*arguments: Any) -> Any:
        calls[name] += 1
        return method(*arguments)

    patch.setattr(plugin, name, counting)


# --- limits and switches ------------------------------------------------------------------------


def test_more_requests_than_may_wait_are_refused() -> None:
    run = cluster(policy_record("maxPendingRequests: 2"))
    run.say(request("a"), request("b"))
    made = only(run.say(request("c")))
    assert made.outcome == "refused"
    assert made.message == "2 requests wait already; maxPendingRequests allows no more"
    assert only(run.say(request("b"))).outcome == "waiting"


def test_a_paused_cluster_keeps_requests_and_decides_when_it_goes_on() -> None:
    run = cluster(node(), policy_record(paused=True))
    made = only(run.say(request()))
    assert (made.outcome, made.message) == (
        "waiting",
        "the cluster is paused; the pod is placed after it resumes",
    )
    assert run.say(tick(1), tick(50)) == []
    run.restart()
    assert run.say(tick(51)) == []
    run.say(policy_record())
    assert outcomes(run.say(tick(52))) == [("pod-1", "placed")]


def test_a_policy_takes_effect_when_it_is_applied() -> None:
    run = cluster(node(unschedulable=True))
    before = only(run.say(request("a")))
    assert before.message == "1 node: were unschedulable"
    assert before.as_of.policy_digest == "default"
    run.say(policy_record("plugins: {filter: [NodeResourcesFit]}"))
    after = only(run.say(tick(1)))
    assert after.outcome == "placed"
    assert after.as_of.policy_digest == run.state.policy.digest


def test_a_group_is_tried_although_earlier_groups_keep_finding_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # At one tick four pods of the highest priority, and one of each of two other kinds.
    monkeypatch.setattr(placement, "UNITS_PER_TICK_MAX", 12)
    run = Run()

    def more(number: int) -> list[SchedulingRequest]:
        first = [pod(f"first-{number}-{of}", cpu="10m", priority=10) for of in range(4)]
        busy = [pod(f"busy-{number}-{cpu}", cpu=f"{cpu}m") for cpu in (20, 30)]
        return [request(each) for each in (*first, *busy)]

    run.say(tick(0), *more(0))
    run.say(tick(1), request(pod("late", cpu="40m")))
    run.say(node(cpu="100"))
    placed: list[str] = []
    for second in range(60, 70):
        made = run.say(*more(second), tick(second))
        placed += [each.pod.uid for each in made if each.outcome == "placed"]
    assert "late" in placed
