"""A policy as a contender: both stages decide, from the same records as in production.

    world ─▶ watch, samples ─▶ records ─▶ stages ─▶ decisions, commands ─▶ rules, sink ─▶ world

All records are encoded and decoded. The sink applies the command rules (each id once, expiry, disruption
budgets) and reports outcomes. An evicted pod terminates for 30 s, and its replacement requests a node.

The stages run in this process (`streams.in_process`) or in a worker (`simulation.worker_stages`).
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
import orjson

from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import Pod
from schemas.topics.catalog import key_of, node_key
from schemas.topics.codec import decode, encode
from simulation.closed_loop.measures import HOT_CPU
from simulation.closed_loop.usage import Moment
from simulation.closed_loop.world import World
from simulation.cluster.connected_cluster import ConnectedCluster
from simulation.cluster.pods import PROD
from streams.in_process.pipeline import LocalPipeline, ProducedRecord
from streams.risk.overutilization import NODE_DEVIATION

#: Memory that a node without pods uses, because the stage refuses samples with memory 0.
_NODE_MEMORY_MIN_BYTES = 2**20


class SampleBuilder:
    """Builds usage samples of the nodes of a world, as node agents send them.

    A run has millions of samples, so they are built without their message class; the stage validates them.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.scenario.cluster
        self._names = [machine.name for machine in world.scenario.machines]
        self._keys = [node_key(self._cluster, name) for name in self._names]

    def build(self, moment: Moment) -> list[ProducedRecord]:
        """Return the samples that are due."""
        nodes = self._world.list_sampled_nodes(moment.at_ms)
        usage = self._world.usage
        due = usage.node[moment.slots] % nodes.step == nodes.start
        pod_amounts = moment.pod_usage[due].astype(np.int64).tolist()
        amounts = dict(zip(moment.slots[due].tolist(), pod_amounts, strict=True))
        node_amounts = moment.node_usage.astype(np.int64).tolist()
        samples = []
        for node in nodes:
            cpu, memory = node_amounts[node]
            memory = max(memory, _NODE_MEMORY_MIN_BYTES)
            sample = {
                "cluster": self._cluster,
                "node": self._names[node],
                "sampled_at_ms": moment.at_ms,
                "usage": {"cpu": cpu, "memory": memory},
                "pods": [
                    _make_entry(usage.pod[slot], amounts[slot])
                    for slot in usage.on_node[node]
                    if slot in amounts
                ],
            }
            value = orjson.dumps(sample)
            samples.append(ProducedRecord("node-usage", self._keys[node], value, moment.at_ms))
        return samples


def _make_entry(pod: Pod, amounts: list[int]) -> dict[str, object]:
    """Return the part of a sample about one pod."""
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "usage": {"cpu": amounts[0], "memory": amounts[1]},
        "priority_class": PROD,
    }


#: Topics of the outputs that the contender reads.
_READ_TOPICS = ("placement-decisions", "eviction-commands", "dead-letters")


class Stages(Protocol):
    """Both stages, in this process or in a worker."""

    applied: int
    """Number of applied records."""

    def apply(self, records: Sequence[ProducedRecord], /) -> Iterable[tuple[str, bytes]]:
        """Apply records; return topic and value of each output."""
        ...


class StageContender:
    """Both stages under one policy."""

    def __init__(
        self,
        name: str,
        policy: str | None,
        stages: Stages,
        partition: int = 0,
    ) -> None:
        """Prepare a run.

        Args:
            name: name of the contender in reports.
            policy: text of a policy; None if the cluster already has a policy.
            stages: the stages, which have applied no record of the cluster yet.
            partition: partition of the cluster and its clock.
        """
        self.name = name
        self.dead_letters: list[str] = []
        """Sentences about the first dead letters; a correct run has no dead letter."""
        self._policy = policy
        self._stages = stages
        self._next_records: list[ProducedRecord] = []
        self._delayed_samples: deque[tuple[int, list[ProducedRecord]]] = deque()
        """Times of arrival, and the delayed samples."""
        self._commands: list[Any] = []
        """Commands for the end of this turn."""
        self._counts: Counter[str] = Counter()
        self._partition = partition

    def begin(self, world: World) -> None:
        """Send the policy and the full lists."""
        parameters = world.scenario.parameters
        self._lag_ms = 1000 * parameters.lag_s
        self._turn_ms = 1000 * max(parameters.turn_s, parameters.step_s)
        self._world = world
        self._begin_ms = self._now_ms = world.scenario.begin_ms
        self._sample_builder = SampleBuilder(world)
        self._connected = ConnectedCluster(world.cluster, self.send)
        self._tick()
        if self._policy is not None:
            self._connected.apply_policy(self._policy, self.name)
        self._connected.begin(f"begin-{self._begin_ms}")
        self._apply()

    def step(self, now_ms: int) -> None:
        """In each turn, send new records to the stages, and carry out their commands."""
        self._now_ms = now_ms
        is_turn = (now_ms - self._begin_ms) % self._turn_ms == 0
        if is_turn:
            self._tick()
            self._connected.publish()
        moment = self._world.usage.measure(now_ms)
        self._delayed_samples.append((now_ms + self._lag_ms, self._sample_builder.build(moment)))
        if is_turn:
            while self._delayed_samples and self._delayed_samples[0][0] <= now_ms:
                self._next_records += self._delayed_samples.popleft()[1]
            self._apply()
            self._carry_out_commands()

    def predict_hot(self) -> list[float]:
        """Return the probability of being hot that the risk score computes for each node.

        Empty if the stages run in another process, or the policy does not use the risk score.
        """
        if not isinstance(self._stages, LocalPipeline):
            return []
        scenario = self._world.scenario
        inventory = self._stages.cluster.clusters[scenario.cluster].inventory
        if inventory.fleet is None or "cpu" not in inventory.fleet.resources:
            return []
        cpu = inventory.fleet.resources.index("cpu")
        predicted = []
        for machine in scenario.machines:
            statistics = inventory.nodes[machine.name].statistics
            mean, variance = statistics.get_figures()[cpu] if statistics else (0.0, 0.0)
            capacity = machine.millicores
            deviation = sqrt(variance + (NODE_DEVIATION * capacity) ** 2)
            predicted.append(1.0 - NormalDist(mean, deviation).cdf(HOT_CPU * capacity))
        return predicted

    def get_counts(self) -> dict[str, int]:
        """Count records, outcomes, decisions without placement, and dead letters."""
        counts = {name: self._counts[name] for name in sorted(self._counts)}
        return {"records": self._stages.applied, **counts}

    def send(self, topic: str, message: Any) -> None:
        """Send a record to the stages in the next turn."""
        record = ProducedRecord(topic, key_of(topic, message), encode(message), self._now_ms)
        self._next_records.append(record)

    def _tick(self) -> None:
        self._connected.rules.advance_clock(self._now_ms)
        self.send("clock", ClockTick(partition=self._partition, now_ms=self._now_ms))

    def _carry_out_commands(self) -> None:
        commands, self._commands = self._commands, []
        for command in commands:
            outcome = self._connected.carry_out(command)
            if outcome is not None:
                self._counts[f"{outcome.command}_{outcome.result}"] += 1

    def _apply(self) -> None:
        records, self._next_records = self._next_records, []
        for topic, value in self._stages.apply(records):
            if topic in _READ_TOPICS:
                self._handle_output(topic, value)

    def _handle_output(self, topic: str, value: bytes) -> None:
        message = decode(topic, value)
        if isinstance(message, Refusal):
            raise TypeError(f"the stages wrote a record of {topic} that cannot be read: {message}")
        if isinstance(message, DeadLetter):
            self._counts["dead_letters"] += 1
            if len(self.dead_letters) < 5:
                self.dead_letters.append(f"{message.topic}: {message.reason}")
            return
        if isinstance(message, PlacementDecision) and message.outcome != "placed":
            self._counts[f"decision_{message.outcome}"] += 1
        self._commands.append(message)
