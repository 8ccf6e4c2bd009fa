"""Closed loop of rounds and their commands: moves end, and their outcomes are reported."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from schemas.messages.commands import EvictionCommand
from schemas.messages.pods import Pod
from tests.streams.builders import (
    START_MS,
    at,
    lifecycle,
    metric,
    node,
    outcome,
    pod_metric,
    policy_record,
    replica,
    request,
    tick,
)
from tests.streams.world import World

#: Rounds each minute, a node is hot after its second one, and pods may move one by one at once.
POLICY = """
mode: {mode}
plugins: {{balance: [LowNodeLoad]}}
rebalance:
  highThresholds: {{cpu: 70}}
  lowThresholds: {{cpu: 40}}
  anomalyCondition: {{consecutiveAbnormalities: 2, consecutiveNormalities: 1}}
migration:
  defaultJobMode: EvictDirectly
  skipCheckExpectedReplicas: true
  maxUnavailablePerWorkload: 100%
  maxMigratingPerWorkload: 100%
  objectLimiters: {{}}
"""
#: Reported usage of each pod.
POD_CPU = 1_000


class ClosedLoop(World):
    """Nodes of 10 cores. Evicted pods go, their owners make new ones, and placed pods run at once."""

    def __init__(
        self, nodes: int, used: Callable[[str, list[str]], int], mode: str = "enforce"
    ) -> None:
        """`used` returns the millicores that a node uses with the pods of these names."""
        super().__init__(tick(), policy_record(POLICY.format(mode=mode)))
        self.nodes = [f"node-{number + 1}" for number in range(nodes)]
        self.send(*(node(name, cpu="10") for name in self.nodes))
        self.used = used
        self.running: dict[str, tuple[Pod, str]] = {}
        """Pods and their nodes, by uid."""
        self.made = 0

    def add(self, owner: str, name: str) -> None:
        """A pod of an owner runs on a node."""
        self.carry_out(self._run(self._make(owner), name))

    def minutes(self, count: int) -> None:
        """Let minutes pass: each has a tick, a metric of every node and another tick."""
        for _ in range(count):
            self.seconds += 60
            self.carry_out(tick(self.seconds), *map(self._measure, self.nodes))
            self.carry_out(tick(self.seconds + 1))

    def carry_out(self, *messages: Any) -> None:
        """Apply messages one by one, and carry out the commands until there are none."""
        todo = list(messages)
        while todo:
            evictions = len(self.evictions)
            decisions = self.send(todo.pop(0))
            for decision in decisions:
                if decision.outcome == "placed" and decision.node:
                    placed = replica(decision.pod.uid, decision.pod.uid.rpartition("-")[0])
                    todo += [outcome(decision), self._run(placed, decision.node)]
            for command in self.evictions[evictions:]:
                todo += self._evict(command)

    def _measure(self, name: str) -> Any:
        uids = [uid for uid, (_, where) in self.running.items() if where == name]
        cpu = self.used(name, uids)
        system = {"cpu": cpu - POD_CPU * len(uids), "memory": 0}
        pods = tuple(pod_metric(uid, cpu=POD_CPU, memory=0) for uid in uids)
        return metric(name, cpu=cpu, seconds=self.seconds, pods=pods, system_usage=system)

    def _evict(self, command: EvictionCommand) -> list[Any]:
        if command.dry_run:
            return [outcome(command, "dry")]
        gone, name = self.running.pop(command.pod.uid)
        new = self._make(gone.owners[0].uid)
        return [outcome(command), lifecycle("deleted", gone, name), request(new)]

    def _make(self, owner: str) -> Pod:
        self.made += 1
        return replica(f"{owner}-{self.made}", owner)

    def _run(self, pod: Pod, name: str) -> Any:
        self.running[pod.uid] = (pod, name)
        return lifecycle("running", pod, name)


def when(loop: ClosedLoop) -> list[tuple[str, int]]:
    """Node and minute of each eviction command."""
    return [(item.node, (item.decided_at_ms - START_MS) // 60_000) for item in loop.evictions]


def gates(loop: ClosedLoop) -> str:
    """Everything that stopped a pool, a node or a pod in the newest round."""
    pools = loop.rounds[-1].pools
    hot = [node for pool in pools for node in pool.hot]
    return "; ".join(
        [
            *(pool.gate for pool in pools),
            *(node.gate for node in hot),
            *(pod.gate for node in hot for pod in node.pods),
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
    assert all(move.target_hot_after or move.moved_again for move in loop.moves)


def test_no_pod_moves_to_a_node_that_has_not_cooled() -> None:
    loop = ClosedLoop(2, hot_wherever_web_is)
    loop.add("web", "node-1")
    loop.minutes(6)
    assert [name for name, _ in when(loop)] == ["node-1"]
    assert [decision.outcome for decision in loop.decisions] == ["placed"]
    assert [name for _, name in loop.running.values()] == ["node-2"]


def test_a_move_that_relieves_its_node_is_reported() -> None:
    def used(name: str, pods: list[str]) -> int:
        return (4800 if name == "node-1" else 500) + 1000 * len(pods)

    loop = ClosedLoop(3, used)
    for owner in ("web", "job", "cache"):
        loop.add(owner, "node-1")
    loop.minutes(20)
    assert len(loop.evictions) == 1
    (reported,) = loop.moves
    assert (reported.source_node, reported.source_hot_before) == ("node-1", True)
    assert (reported.source_hot_after, reported.target_hot_after) == (False, False)
    assert (reported.returned, reported.moved_again) == (False, False)
    assert reported.target_node in ("node-2", "node-3")
    assert reported.migration_id == loop.evictions[0].migration_id
    # Once nothing of it matters any more, nothing is remembered.
    loop.minutes(70)
    assert not loop.state.memory.moves.rows


def test_a_cluster_in_observe_mode_moves_nothing() -> None:
    loop = ClosedLoop(2, hot_wherever_web_is, mode="observe")
    loop.add("web", "node-1")
    loop.minutes(40)
    assert loop.evictions
    assert all(eviction.dry_run for eviction in loop.evictions)
    assert loop.decisions == []
    assert loop.moves == []
    assert loop.state.memory.moves.find_avoided("web", at(60)) == frozenset()
