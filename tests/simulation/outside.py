"""What stands between clusters and topics, with its faults: watchers, agents of nodes, and the binder.

A watcher that loses its connection misses everything until it lists again; after that it holds requests
back until its list has been read, since a pod that is newer than the list is not in it. Samples are lost,
late and doubled. The binder acts once per decision, fails now and then, and sometimes forgets to say that
it did not.
"""

import random
from collections.abc import Callable
from typing import Any

from schemas.codec import decode
from schemas.decisions import PlacementDecision
from schemas.lists import ListBegin, ListEnd
from schemas.outcomes import CommandOutcome
from schemas.pods import PodLifecycle
from schemas.requests import SchedulingRequest
from tests.simulation.kubernetes import Cluster, Machine
from tests.simulation.log import PARTITIONS, Log

#: A record may be read this much before one of another topic that was written first.
SKEW_MS = 2_000
SAMPLE_EVERY_MS = 5_000


class Watcher:
    """Makes records of what happens in one cluster."""

    def __init__(self, random: random.Random, log: Log, name: str) -> None:
        self.random, self.log = random, log
        self.cluster = Cluster(name, random, self._heard)
        self.now_ms = 0
        self.faulty = True
        self._blind_until_ms = 0
        self._silent_until_ms = 0
        self._lists = 0

    @property
    def _blind(self) -> bool:
        return self.now_ms < self._blind_until_ms

    def _heard(self, topic: str, message: Any) -> None:
        if self._blind:
            return
        if self.faulty and self.random.random() < 0.01:
            self._blind_until_ms = self.now_ms + self.random.randint(1, 15) * 1000
            return
        self._write(topic, message)
        if isinstance(message, PodLifecycle) and message.event == "deleted":
            self._request(message.pod, withdrawn=True)

    def _write(self, topic: str, message: Any) -> None:
        for _ in range(2 if self.faulty and self.random.random() < 0.02 else 1):
            self.log.say(topic, message, self.now_ms)

    def _request(self, pod: Any, *, withdrawn: bool = False) -> None:
        asking = SchedulingRequest(
            cluster=self.cluster.name, pod=pod, requested_at_ms=self.now_ms, withdrawn=withdrawn
        )
        self._write("scheduling-requests", asking)

    def create_pod(self) -> None:
        """A pod is made; its request goes out unless requests are held back."""
        pod = self.cluster.create(self.now_ms)
        if not self._blind and self.now_ms >= self._silent_until_ms:
            self._request(pod.pod())

    def advance(self, now_ms: int) -> None:
        """It is later; a watcher that was blind lists everything, and asks again for what waits."""
        was_blind, was_silent = self._blind, self.now_ms < self._silent_until_ms
        self.now_ms = now_ms
        if was_blind and not self._blind:
            self.list_all()
        elif was_silent and now_ms >= self._silent_until_ms and not self._blind:
            for pod in self.cluster.pending():
                self._request(pod.pod())

    def list_all(self) -> None:
        """Send full lists of nodes and pods."""
        self._blind_until_ms = 0
        self._silent_until_ms = self.now_ms + SKEW_MS + 1000
        self._lists += 1
        name, list_id = self.cluster.name, f"{self.cluster.name}-{self._lists}"
        states = [each.state(name, "added") for each in self.cluster.machines.values()]
        seen = [
            PodLifecycle(cluster=name, event="seen", pod=pod.pod())
            for pod in self.cluster.pods.values()
        ]
        lists: tuple[tuple[str, list[Any]], ...] = (("node-state", states), ("pod-lifecycle", seen))
        for topic, messages in lists:
            self.log.say(topic, ListBegin(cluster=name, list_id=list_id), self.now_ms)
            for message in messages:
                named = message.model_copy(update={"list_id": list_id})
                self.log.say(topic, named, self.now_ms)
            self.log.say(topic, ListEnd(cluster=name, list_id=list_id), self.now_ms)


class Agents:
    """The agents that measure the nodes of all clusters."""

    def __init__(self, random: random.Random, log: Log) -> None:
        self.random, self.log = random, log
        self.faulty = True
        self._late: list[tuple[int, Any]] = []

    def measure(self, clusters: list[Cluster], now_ms: int) -> None:
        """Write the samples that are due, and those that were held up."""
        for at_ms, sample in [each for each in self._late if each[0] <= now_ms]:
            self._late.remove((at_ms, sample))
            self.log.say("node-usage", sample, now_ms)
        for cluster in clusters:
            for machine in cluster.machines.values():
                if now_ms % SAMPLE_EVERY_MS == 0 and now_ms >= machine.silent_until_ms:
                    self._sample(cluster, machine, now_ms)

    def _sample(self, cluster: Cluster, machine: Machine, now_ms: int) -> None:
        sample = cluster.measure(machine, now_ms)
        chance = self.random.random() if self.faulty else 1.0
        if chance < 0.005:
            machine.silent_until_ms = now_ms + self.random.randint(30, 90) * 1000
        elif chance < 0.05:
            self._late.append((now_ms + self.random.randint(5, 20) * 1000, sample))
        elif chance > 0.1 or not self.faulty:
            for _ in range(2 if self.faulty and chance < 0.15 else 1):
                self.log.say("node-usage", sample, now_ms)


class Binder:
    """Binds pods as decisions say, once each."""

    def __init__(
        self, random: random.Random, log: Log, cluster_of: Callable[[str], Cluster]
    ) -> None:
        self.random, self.log, self._cluster_of = random, log, cluster_of
        self.faulty = True
        self.bytes_of: dict[str, bytes] = {}
        """Every decision seen, by id."""
        self._positions = dict.fromkeys(range(PARTITIONS), -1)

    def work(self, now_ms: int) -> None:
        """Act on decisions, some of them a moment later."""
        for partition in self._positions:
            while (record := self._next(partition)) is not None:
                if self.faulty and self.random.random() < 0.2:
                    break
                self._positions[partition] = record.offset
                decision = decode("placement-decisions", record.value)
                assert isinstance(decision, PlacementDecision)
                known = self.bytes_of.setdefault(decision.decision_id, record.value or b"")
                assert known == record.value, f"two decisions have the id {decision.decision_id}"
                if decision.outcome == "placed":
                    self._bind(decision, now_ms)

    def _next(self, partition: int) -> Any:
        return self.log.after("placement-decisions", partition, self._positions[partition])

    def _bind(self, decision: PlacementDecision, now_ms: int) -> None:
        assert decision.node is not None
        assert decision.expires_at_ms is not None
        result, reason = "done", ""
        if now_ms >= decision.expires_at_ms:
            result = "expired"
        elif self.faulty and self.random.random() < 0.05:
            result, reason = "failed", "the API server is busy"
        else:
            why = self._cluster_of(decision.cluster).bind(decision.pod.uid, decision.node)
            if why is not None:
                result, reason = "failed", why
        if self.faulty and self.random.random() < 0.05:
            return
        said = CommandOutcome.model_validate(
            {
                "command_id": decision.decision_id,
                "cluster": decision.cluster,
                "command": "bind",
                "pod": decision.pod,
                "node": decision.node,
                "result": result,
                "reason": reason,
                "happened_at_ms": now_ms,
            }
        )
        self.log.say("command-outcomes", said, now_ms)
