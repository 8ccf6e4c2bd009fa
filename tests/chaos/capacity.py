"""A plain account of capacity over the inputs of one partition, in the order applied.

It reports decisions that took room that was not free, or that were about a pod that already had a node.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from schemas.base.quantities import parse_amount
from schemas.messages.commands import CommandOutcome
from schemas.messages.decisions import PlacementDecision, SchedulingRequest
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from schemas.topics.codec import decode
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord


@dataclass(frozen=True)
class _Taken:
    node: str
    decision_id: str | None
    cpu_millicores: int
    memory_bytes: int


class Capacity:
    """Reservations in the clusters of one partition."""

    def __init__(self, partition: int, partitions: int) -> None:
        self._stage = ClusterStage(partition, partitions)
        self._allocatable: dict[str, tuple[int, int]] = {}
        self._taken: dict[str, _Taken] = {}
        self._size: dict[str, tuple[int, int]] = {}
        """Millicores and bytes that each pod asked for."""
        self._placed: set[str] = set()
        self.figures: Counter[str] = Counter()
        self.fullest_percent = 0

    def follow(self, records: Iterable[InputRecord]) -> Iterator[str]:
        """Account for each record and for the decisions that it causes."""
        for record in records:
            # One record at a time, since a decision depends on the records applied before it.
            result = self._stage.apply([record])
            if not result.dead_letters:
                self._account(decode(record.topic, record.value))
            self.figures["dead letters"] += len(result.dead_letters)
            for output in result.outputs:
                decision = decode(output.topic, output.value)
                if isinstance(decision, PlacementDecision):
                    self.figures[decision.outcome] += 1
                    yield from self._decide(decision)

    def missing(self) -> Iterator[str]:
        """Yield the pods that never got a node."""
        self.figures["pods"] = len(self._size)
        return (f"pod {uid} was never placed" for uid in self._size if uid not in self._placed)

    def _account(self, message: object) -> None:
        match message:
            case NodeState():
                allocatable = message.allocatable
                self._allocatable[message.node] = (
                    parse_amount("cpu", allocatable["cpu"]),
                    parse_amount("memory", allocatable["memory"]),
                )
            case SchedulingRequest():
                requests = message.pod.containers[0].requests
                cpu, memory = (
                    parse_amount("cpu", requests["cpu"]),
                    parse_amount("memory", requests["memory"]),
                )
                self._size[message.pod.uid] = cpu, memory
            case CommandOutcome() if message.result != "done":
                claim = self._taken.get(message.pod.uid)
                if claim is not None and claim.decision_id == message.command_id:
                    del self._taken[message.pod.uid]
            case PodLifecycle(event="finished" | "deleted"):
                self._taken.pop(message.pod.uid, None)
            case PodLifecycle(event="bound"):
                self._bind(message)

    def _bind(self, lifecycle: PodLifecycle) -> None:
        uid = lifecycle.pod.uid
        if lifecycle.pod.node is not None:
            self._taken[uid] = _Taken(lifecycle.pod.node, None, *self._size[uid])

    def _decide(self, decision: PlacementDecision) -> Iterator[str]:
        uid = decision.pod.uid
        if decision.outcome == "expired":
            self._taken.pop(uid, None)
        if decision.outcome != "placed":
            return
        self._placed.add(uid)
        if uid in self._taken:
            yield f"pod {uid} was placed while it held room on {self._taken[uid].node}"
        node = decision.node or ""
        self._taken[uid] = _Taken(node, decision.decision_id, *self._size[uid])
        on_it = [item for item in self._taken.values() if item.node == node]
        sums = sum(item.cpu_millicores for item in on_it), sum(item.memory_bytes for item in on_it)
        cpu, memory = self._allocatable[node]
        self.fullest_percent = max(self.fullest_percent, 100 * sums[0] // cpu)
        if sums[0] > cpu or sums[1] > memory:
            yield f"{decision.decision_id} puts {sums} on {node}, which has {cpu, memory}"
