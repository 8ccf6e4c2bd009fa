"""Rows of the memory of moves, and how long they are kept."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import Policy
from schemas.storage.tables import kind_of_key, row_key
from streams.moves.memory import MoveMemory
from streams.stage.packing import apply_changes
from streams.stage.records import RowChange
from tests.streams.builders import (
    AS_OF,
    CLUSTER,
    START_MS,
    at,
    followed_eviction,
    moves_policy,
    replica,
)

_OWNERS = st.sampled_from(("web", "job", "shop/bare"))
_NODES = st.sampled_from(("a", "b", "c"))
_UIDS = st.sampled_from(("u1", "u2", "u3", "u4"))
#: So short that everything ends and begins again within a few events.
_POLICIES = (
    moves_policy(
        coolingSeconds=40, coolingMetrics=1, loopWindowSeconds=200, maxMovesPerOwner=2,
        initialFreezeSeconds=30, maxFreezeSeconds=100, followSeconds=50,
    ),
    moves_policy(coolingSeconds=5, loopWindowSeconds=60),
    moves_policy("observe", loopWindowSeconds=100, initialFreezeSeconds=50),
    moves_policy(enabled=False),
)  # fmt: skip
_EVENTS = st.one_of(
    st.tuples(st.just("tick"), st.sampled_from((1, 7, 31, 55, 130, 400))),
    st.tuples(st.just("tick"), st.sampled_from((1, 7, 31))),
    st.tuples(st.just("left"), _OWNERS, _NODES, st.booleans(), st.integers(1, 3)),
    st.tuples(st.just("stayed"), _OWNERS, _NODES),
    st.tuples(st.just("arrived"), _OWNERS, _NODES, _UIDS),
    st.tuples(st.just("metric"), _NODES),
    st.tuples(st.just("round"), st.frozensets(_NODES)),
    st.tuples(st.just("node gone"), _NODES),
    st.tuples(st.just("evicted"), _OWNERS, _NODES, _UIDS, st.booleans(), st.integers(0, 99)),
    st.tuples(st.just("read"), st.dictionaries(_NODES, st.booleans())),
    st.tuples(st.just("policy"), st.sampled_from(_POLICIES)),
)


class Kept:
    """A memory and the rows that it has written."""

    def __init__(self, policy: Policy) -> None:
        self.memory = MoveMemory(CLUSTER, policy)
        self.rows: dict[str, bytes] = {}

    def write(self) -> list[RowChange]:
        """Write the rows that have changed; return them."""
        changes = [
            RowChange(row_key(0, CLUSTER, table.kind, name), row)
            for table in self.memory.tracked_rows
            for name, row in table.take_changed_rows()
        ]
        apply_changes(self.rows, changes)
        return changes


def happen(kept: Kept, now_ms: int, event: tuple[Any, ...]) -> int:
    """Let one thing happen; return the time after it."""
    memory = kept.memory
    moves, followed = memory.moves, memory.followed
    match event:
        case ("tick", seconds):
            now_ms += seconds * 1000
            memory.tick(now_ms, AS_OF)
        case ("left", owner, node, dry_run, replicas):
            moves.record_departure(owner, node, now_ms, "hot", dry_run=dry_run, replicas=replicas)
        case ("stayed", owner, node):
            moves.cancel_departure(owner, node, now_ms)
        case ("arrived", owner, node, uid):
            memory.record_arrival(replica(uid, owner), node, now_ms)
        case ("metric", node):
            moves.cooldown.record_metric(node, now_ms)
        case ("round", hot):
            moves.cooldown.record_hot_nodes(hot, now_ms)
        case ("node gone", node):
            moves.cooldown.drop(node)
        case ("evicted", owner, node, uid, hot, number):
            seconds = (now_ms - START_MS) / 1000
            followed.follow(
                followed_eviction(uid, owner, node, seconds, number=f"{number:02}", hot=hot)
            )
        case ("read", hot):
            for row in list(followed.rows.values()):
                followed.note_hot(row, hot.get(row.source_node), hot.get(row.target_node))
        case ("policy", policy):
            memory.set_policy(policy, now_ms)
    return now_ms


@given(st.lists(_EVENTS, max_size=60), st.sampled_from(_POLICIES))
def test_after_a_long_time_no_rows_are_left(events: list[tuple[Any, ...]], first: Any) -> None:
    kept = Kept(first)
    now_ms = START_MS
    for event in events:
        now_ms = happen(kept, now_ms, event)
    for _ in range(3):
        now_ms += 8 * 86_400_000
        kept.memory.tick(now_ms, AS_OF)
    kept.write()
    assert kept.rows == {}


def test_a_row_is_written_only_when_it_has_changed() -> None:
    kept = Kept(moves_policy())
    moves = kept.memory.moves
    moves.record_departure("web", "a", at(0), "hot")
    keys = [row_key(0, CLUSTER, "cooling_nodes", "a"), row_key(0, CLUSTER, "recent_moves", "web")]
    assert [row.key for row in kept.write()] == keys
    moves.cooldown.record_hot_nodes({"b"}, at(60))
    moves.cooldown.record_metric("b", at(60))
    kept.memory.record_arrival(replica("x", "another"), "a", at(60))
    kept.memory.tick(at(61), AS_OF)
    assert kept.write() == []
    assert list(kept.rows) == keys
    assert moves.cluster == CLUSTER


def test_a_policy_can_shorten_running_waits_and_not_extend_them() -> None:
    kept = Kept(moves_policy(initialFreezeSeconds=7_200))
    memory = kept.memory
    memory.moves.record_departure("web", "a", at(0), "hot")
    memory.moves.record_arrival("web", "a", at(1))
    kept.write()
    memory.set_policy(moves_policy(initialFreezeSeconds=14_400), at(100))
    assert kept.write() == []
    memory.set_policy(moves_policy(initialFreezeSeconds=60), at(200))
    assert [kind_of_key(row.key) for row in kept.write()] == ["recent_moves"]
    assert memory.moves.explain_freeze("web", at(259)) is not None
    assert memory.moves.explain_freeze("web", at(260)) is None
