"""Rounds whose commands are carried out: loops end, and what became of moves is reported."""

from itertools import pairwise

import pytest

from tests.streams.cluster.builders import START_MS, at
from tests.streams.cluster.closedloop import ClosedLoop


def when(loop: ClosedLoop) -> list[tuple[str, int]]:
    """Node and minute of each eviction command."""
    return [(each.node, (each.decided_at_ms - START_MS) // 60_000) for each in loop.commands]


def gates(loop: ClosedLoop) -> str:
    """Everything that stopped a pool, a node or a pod in the newest round."""
    pools = loop.rounds[-1].pools
    hot = [each for pool in pools for each in pool.hot]
    return "; ".join(
        [
            *(pool.gate for pool in pools),
            *(each.gate for each in hot),
            *(each.gate for node in hot for each in node.pods),
        ]
    )


def hot_wherever_web_is(_: str, pods: list[str]) -> int:
    """The load comes along with the pod, and its own figures do not show it."""
    return 9000 if any(name.startswith("web") for name in pods) else 500


@pytest.mark.slow
def test_a_loop_ends_after_one_cycle_and_is_retried_with_doubling_waits() -> None:
    loop = ClosedLoop(2, hot_wherever_web_is)
    loop.add("web", "node-1")
    loop.minutes(500)
    nodes, minutes = zip(*when(loop), strict=True)
    assert nodes == ("node-1", "node-2") * (len(nodes) // 2) + ("node-1",) * (len(nodes) % 2)
    waits = [later - earlier for earlier, later in pairwise(minutes)]
    # One cycle as soon as node-1 has cooled, then a freeze of 10 minutes, which doubles.
    assert waits[0] <= 8
    assert [10 <= waits[1] <= 12, *(b >= 2 * a - 2 for a, b in pairwise(waits[1:]))] == [True] * (
        len(waits) - 1
    )
    assert len(waits) == 6
    assert "its pods moved node-" in gates(loop)
    assert all(each.target_hot_after or each.moved_again for each in loop.outcomes)


def test_no_pod_moves_to_a_node_that_has_not_cooled() -> None:
    loop = ClosedLoop(2, hot_wherever_web_is)
    loop.add("web", "node-1")
    loop.minutes(6)
    assert [name for name, _ in when(loop)] == ["node-1"]
    assert [each.outcome for each in loop.decisions] == ["placed"]
    assert [name for _, name in loop.where.values()] == ["node-2"]


def test_a_move_that_relieves_its_node_is_reported() -> None:
    def used(name: str, pods: list[str]) -> int:
        return (4800 if name == "node-1" else 500) + 1000 * len(pods)

    loop = ClosedLoop(3, used)
    for owner in ("web", "job", "cache"):
        loop.add(owner, "node-1")
    loop.minutes(20)
    assert len(loop.commands) == 1
    (reported,) = loop.outcomes
    assert (reported.source_node, reported.source_hot_before) == ("node-1", True)
    assert (reported.source_hot_after, reported.target_hot_after) == (False, False)
    assert (reported.returned, reported.moved_again) == (False, False)
    assert reported.target_node in ("node-2", "node-3")
    assert reported.migration_id == loop.commands[0].migration_id
    # Once nothing of it matters any more, nothing is remembered.
    loop.minutes(70)
    assert not loop.run.state.memory.moves.rows


def test_a_cluster_in_observe_mode_moves_nothing() -> None:
    loop = ClosedLoop(2, hot_wherever_web_is, mode="observe")
    loop.add("web", "node-1")
    loop.minutes(40)
    assert loop.commands
    assert all(each.dry_run for each in loop.commands)
    assert loop.decisions == []
    assert loop.outcomes == []
    assert loop.run.state.memory.moves.find_avoided_by_owner("web", at(60)) == frozenset()
