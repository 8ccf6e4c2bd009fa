"""Reported outcomes of followed evictions."""

import pytest

from schemas.messages.moves import MoveOutcome
from schemas.policy import Policy
from streams.moves import followed_evictions
from streams.moves.followed_evictions import FollowedEvictions
from tests.streams.builders import (
    AS_OF,
    CLUSTER,
    at,
    followed_eviction,
    moves_policy,
    ref,
    replica,
)
from tests.streams.world import read_message


def following(of: Policy | None = None) -> FollowedEvictions:
    return FollowedEvictions(CLUSTER, of or moves_policy(followSeconds=600))


def see(followed: FollowedEvictions, **hot: bool | None) -> None:
    """A round finds these nodes hot or not, and has not measured the others."""
    for row in list(followed.rows.values()):
        followed.note_hot(row, hot.get(row.source_node), hot.get(row.target_node or ""))


def outcome(followed: FollowedEvictions, seconds: float = 600) -> MoveOutcome:
    """The only outcome at this time."""
    (message,) = map(read_message, followed.tick(at(seconds), AS_OF))
    assert isinstance(message, MoveOutcome)
    return message


def test_a_move_is_reported_with_what_the_newest_round_found() -> None:
    followed = following()
    followed.follow(followed_eviction("old", source="a", hot=True))
    see(followed, a=True)
    followed.note_arrival("owner", replica("new", "owner"), "b")
    see(followed, a=True, b=True)
    see(followed, a=False, b=False)
    report = outcome(followed)
    assert (report.source_hot_before, report.source_hot_after, report.target_hot_after) == (
        True,
        False,
        False,
    )
    assert (report.pod, report.source_node, report.evicted_at_ms) == (ref("old"), "a", at(0))
    assert (report.replacement, report.target_node) == (ref("new"), "b")
    assert (report.returned, report.moved_again) == (False, False)
    assert (report.ended_at_ms, report.as_of.model_dump()) == (at(600), AS_OF)
    assert not followed


def test_an_eviction_is_reported_once_the_time_of_the_policy_in_force_is_over() -> None:
    followed = following(moves_policy(followSeconds=600))
    followed.follow(followed_eviction("old"))
    assert followed.tick(at(599), AS_OF) == []
    followed.set_policy(moves_policy(followSeconds=900))
    assert followed.tick(at(899), AS_OF) == []
    assert outcome(followed, 900).pod == ref("old")
    assert followed.tick(at(901), AS_OF) == []


def test_unmeasured_nodes_are_unknown() -> None:
    followed = following()
    followed.follow(followed_eviction("old", hot=False))
    report = outcome(followed)
    assert not report.source_hot_before
    assert (report.source_hot_after, report.target_hot_after) == (None, None)
    assert (report.returned, report.moved_again) == (None, None)


def test_a_round_that_measures_no_node_leaves_the_earlier_finding() -> None:
    followed = following()
    followed.follow(followed_eviction("old", source="a"))
    see(followed, a=True)
    see(followed)
    assert outcome(followed).source_hot_after is True


@pytest.mark.parametrize(("node", "returned"), [("a", True), ("b", False)])
def test_a_replacement_on_the_source_has_returned(node: str, returned: bool) -> None:
    followed = following()
    followed.follow(followed_eviction("old", source="a"))
    followed.note_arrival("owner", replica("new", "owner"), node)
    assert outcome(followed).returned is returned


def test_a_replacement_that_is_evicted_was_moved_again() -> None:
    followed = following()
    followed.follow(followed_eviction("old", source="a"))
    followed.note_arrival("owner", replica("new", "owner"), "b")
    followed.follow(followed_eviction("new", source="b", seconds=100))
    followed.note_arrival("owner", replica("newer", "owner"), "c")
    first = outcome(followed, 600)
    assert (first.pod, first.moved_again) == (ref("old"), True)
    second = outcome(followed, 700)
    assert (second.pod, second.target_node, second.moved_again) == (ref("new"), "c", False)


def test_replacements_go_to_evictions_in_their_order_and_never_twice() -> None:
    followed = following()
    followed.follow(followed_eviction("one"))
    followed.follow(followed_eviction("two", seconds=1))
    for uid, node in (("x", "b"), ("x", "c"), ("y", "d"), ("z", "e")):
        followed.note_arrival("owner", replica(uid), node)
    followed.note_arrival("another", replica("w", "another"), "f")
    reports = list(map(read_message, followed.tick(at(601), AS_OF)))
    targets = [(report.pod.uid, report.target_node) for report in reports]
    assert targets == [("one", "b"), ("two", "d")]


def test_a_command_is_followed_once() -> None:
    followed = following()
    followed.follow(followed_eviction("old"))
    followed.note_arrival("owner", replica("new", "owner"), "b")
    followed.follow(followed_eviction("old"))
    assert outcome(followed).target_node == "b"


def test_beyond_the_limit_the_oldest_are_reported_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_evictions, "FOLLOWED_MAX", 2)
    followed = following()
    for seconds, uid in enumerate(("one", "two", "three")):
        followed.follow(followed_eviction(uid, seconds=seconds))
    assert outcome(followed, 3).pod == ref("one")
    assert len(followed) == 2
