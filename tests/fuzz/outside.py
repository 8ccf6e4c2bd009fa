"""Binder, evictor and owners of one cluster: what they make of decisions and commands, and when.

They are as unreliable as the real ones: bindings fail, commands are refused by budgets, outcomes
come twice, late or never, and a pod that was evicted is made anew by its owner.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random
from typing import Any

from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from tests.fuzz.world import Payload, World

#: Most records of delay.
_LATE = 40


class Outside:
    """Answers what is said to a cluster."""

    def __init__(self, random: Random, world: World) -> None:
        self._random = random
        self._world = world
        self._due: list[tuple[int, int, str, Payload]] = []
        """Round, number, topic and payload of what will be written."""
        self._turn = 0
        self._number = 0

    def hear(self, message: Any) -> None:
        """The stage has said this."""
        if isinstance(message, PlacementDecision) and message.outcome == "placed":
            self._bind(message)
        elif isinstance(message, EvictionCommand):
            self._evict(message)

    def due(self) -> Iterator[tuple[str, Payload]]:
        """Topic and payload of what is written by now."""
        self._turn += 1
        while self._due and self._due[0][0] <= self._turn:
            _, _, topic, payload = heappop(self._due)
            yield topic, payload

    def _bind(self, decision: PlacementDecision) -> None:
        random, world = self._random, self._world
        pod = world.pods.get(decision.pod.uid)
        how = random.random()
        if how < 0.08:
            return  # it is not bound: the reservation expires
        if how < 0.25:
            result = random.choice(("failed", "refused", "expired", "dry"))
            self._outcome(decision.decision_id, "bind", decision, decision.node, result)
            return
        self._outcome(decision.decision_id, "bind", decision, decision.node, "done")
        if pod is not None and random.random() < 0.95:
            pod |= {"node": decision.node, "phase": "Running", "ready": random.random() < 0.9}
            pod["scheduled_at_ms"] = world.now_ms
            self._later("pod-lifecycle", world.lifecycle("bound", pod))

    def _evict(self, command: EvictionCommand) -> None:
        random, world = self._random, self._world
        how = random.random()
        if how < 0.08:
            return  # it expires
        result = "dry" if command.dry_run else "done"
        if how < 0.35:
            result = random.choice(("failed", "refused", "expired"))
        self._outcome(command.command_id, "evict", command, command.node, result)
        pod = world.pods.get(command.pod.uid)
        if result != "done" or pod is None or command.policy == "SoftEviction":
            return
        if random.random() < 0.95:
            del world.pods[command.pod.uid]
            self._later("pod-lifecycle", world.lifecycle("deleted", pod))
            again = world.new_pod()
            for name in ("namespace", "owners", "labels", "containers", "scheduler"):
                if name in pod:
                    again[name] = pod[name]
            self._later("scheduling-requests", world.request(again))

    def _outcome(self, id_: str, command: str, of: Any, node: str | None, result: str) -> None:
        pod = {name: getattr(of.pod, name) for name in ("namespace", "name", "uid")}
        payload = {
            "schema_version": 1,
            "command_id": id_,
            "cluster": self._world.cluster,
            "command": command,
            "pod": pod,
            "node": node,
            "result": result,
            "reason": self._random.choice(("", "a budget forbids it", 'ü"\\' * 500)),
            "happened_at_ms": self._world.now_ms,
        }
        self._later("command-outcomes", payload)
        if self._random.random() < 0.05:
            self._later("command-outcomes", payload)

    def _later(self, topic: str, payload: Payload) -> None:
        self._number += 1
        delay = self._random.choice((1, 1, 1, 2, 5, _LATE))
        heappush(self._due, (self._turn + delay, self._number, topic, payload))
