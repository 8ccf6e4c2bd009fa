from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streams.inventory.node_index import Change
from streams.placement.pending import PendingRequests, WaitingRequest
from streams.pods.kind import kind_of
from tests.streams.builders import pod, request


def waiting(
    pending: PendingRequests, uid: str, *, add: bool = True, **fields: Any
) -> WaitingRequest:
    of = pod(uid, **fields)
    one = pending.create_waiting(request(of), kind_of(of), applied=0)
    one.attempt = 1
    if add:
        pending.add(one, now_ms=0)
    return one


def test_a_group_is_due_when_its_back_off_is_over_or_a_change_may_help_it() -> None:
    pending = PendingRequests()
    group = pending.find_group(waiting(pending, "a").kind)
    assert group is not None
    assert pending.list_due(0)
    group.failures, group.retry_at_ms, group.version = 1, 1000, 7
    group.opened_by = Change.STATE | Change.PODS
    assert not pending.list_due(999)
    assert pending.list_due(1000)
    pending.wake(Change.METRIC, 8)
    assert not pending.list_due(999)
    pending.wake(Change.PODS, 8)
    assert pending.list_due(999)
    group.version = 8
    assert not pending.list_due(999)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from((None, -1, 0, 5)), st.sampled_from(("1", "2"))), max_size=30), st.data())  # fmt: skip
def test_the_first_of_a_group_is_the_first_in_priority_and_arrival(
    history: list[tuple[str, int | None, str]], data: Any
) -> None:
    pending = PendingRequests()
    for uid, priority, cpu in history:
        if data.draw(st.booleans()):
            pending.remove(uid)
        else:
            waiting(pending, uid, priority=priority, cpu=cpu)
        for group in {waits.kind.key: pending.find_group(waits.kind) for waits in pending}.values():
            assert group is not None
            live = [waits for waits in pending if waits.kind.key == group.kind.key]
            expected = min(live, key=lambda waits: waits.rank)
            assert pending.find_first(group) is expected
            assert pending.list_first(group, 2) == sorted(live, key=lambda waits: waits.rank)[:2]


def test_a_request_that_became_another_kind_is_not_in_its_old_group() -> None:
    pending = PendingRequests()
    old = pending.find_group(waiting(pending, "a", priority=9).kind)
    waiting(pending, "b")
    new = pending.find_group(waiting(pending, "a", priority=9, cpu="2").kind)
    assert old is not None
    assert new is not None
    for group, uid in ((old, "b"), (new, "a")):
        first = pending.find_first(group)
        assert first is not None
        assert first.request.pod.uid == uid


def test_the_order_survives_the_clearing_of_entries_that_came_again() -> None:
    pending = PendingRequests()
    uids = [f"p{number}" for number in range(50)]
    for number, uid in enumerate(uids):
        waiting(pending, uid, priority=number)
    group = pending.find_group(next(iter(pending)).kind)
    assert group is not None
    before = 0
    while len(group.heap) > before:
        before = len(group.heap)
        waiting(pending, uids[0], priority=0)
    order = []
    while (first := pending.find_first(group)) is not None:
        order.append(first.request.pod.uid)
        pending.remove(first.request.pod.uid)
    assert order == uids[::-1]


def test_repeated_requests_use_no_more_memory() -> None:
    pending = PendingRequests()
    kind = waiting(pending, "a").kind
    waiting(pending, "b")
    for _ in range(1000):
        waiting(pending, "b")
    group = pending.find_group(kind)
    assert group is not None
    assert len(group.heap) < 100
    first = pending.find_first(group)
    assert first is not None
    assert first.request.pod.uid == "a"


def test_a_request_joins_its_group_after_its_own_back_off() -> None:
    pending = PendingRequests()
    one = waiting(pending, "a", add=False)
    one.not_before_ms = 1000
    pending.add(one, now_ms=0)
    assert pending.get("a") is one
    pending.release_delayed(999)
    assert pending.find_group(one.kind) is None
    pending.release_delayed(1000)
    assert pending.find_group(one.kind) is not None


def test_a_removed_request_does_not_return_after_its_back_off() -> None:
    pending = PendingRequests()
    for not_before_ms in (1000, 5000):
        one = waiting(pending, "a", add=False)
        one.not_before_ms = not_before_ms
        pending.add(one, now_ms=0)
    pending.release_delayed(1000)
    assert pending.find_group(one.kind) is None
    pending.remove("a")
    pending.release_delayed(5000)
    assert pending.find_group(one.kind) is None
