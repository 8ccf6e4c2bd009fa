"""The demo's session against the real stages, in memory: no broker, no clock, no threads."""

from collections import defaultdict
from typing import Any

from connectors.kafka.records import place
from schemas.base.refusals import Refusal
from schemas.topics.catalog import CLUSTER_INPUTS, TOPIC_BY_NAME
from schemas.topics.codec import decode, encode
from schemas.topics.partitions import partition_for
from simulation.demo.scenario import CLUSTER, Scenario
from simulation.demo.session import READ_TOPICS, Session
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord, OutputRecord

PARTITIONS = 2
STEP_MS = 120_000


class InMemoryWorker:
    """Both stages over a log in memory; what they publish is passed to the session."""

    def __init__(self, scenario: Scenario) -> None:
        collecting = Collecting.of(*scenario.policy.collect.of_nodes)
        partition = partition_for(CLUSTER.encode(), PARTITIONS)
        self.session = Session(scenario, self.send, partition)
        self.sent: dict[str, list[Any]] = defaultdict(list)
        """Everything that the session has sent, by topic."""
        self._aggregate = [
            AggregateStage(restore(p, {}, collecting), PARTITIONS, AggregateLimits())
            for p in range(PARTITIONS)
        ]
        self._cluster = [ClusterStage(p, PARTITIONS) for p in range(PARTITIONS)]
        self._ends: dict[tuple[str, int], int] = defaultdict(int)
        self._inbox: list[InputRecord] = []

    def send(self, topic: str, message: Any) -> None:
        """What the session sends."""
        self.sent[topic].append(message)
        target = place(TOPIC_BY_NAME[topic], message)
        partition = target.partition
        if partition is None:
            partition = partition_for(target.key, PARTITIONS)
        self._append(topic, partition, target.key, encode(message), target.timestamp_ms)

    def settle(self) -> None:
        """Let the stages apply everything and the session take in everything."""
        while self._inbox:
            records, self._inbox = self._inbox, []
            for record in records:
                stages = self._cluster if record.topic in CLUSTER_INPUTS else self._aggregate
                result = stages[record.partition].apply([record])
                for output in (*result.outputs, *result.dead_letters):
                    self._publish(output)

    def run(self, until_ms: int | None = None) -> Session:
        """From the beginning to the end of the scenario, or to a time."""
        end_ms = self.session.scenario.end_ms if until_ms is None else until_ms
        self.session.begin()
        self.settle()
        while self.session.now_ms < end_ms:
            self.session.advance(min(end_ms, self.session.now_ms + STEP_MS))
            self.settle()
        return self.session

    def _publish(self, output: OutputRecord) -> None:
        partition = output.partition
        if partition is None:
            partition = partition_for(output.key.encode(), PARTITIONS)
        self._append(
            output.topic, partition, output.key.encode(), output.value, output.timestamp_ms
        )
        if output.topic in READ_TOPICS:
            message = decode(output.topic, output.value)
            assert not isinstance(message, Refusal), message
            self.session.receive(message)

    def _append(
        self, topic: str, partition: int, key: bytes, value: bytes, timestamp_ms: int | None
    ) -> None:
        offset = self._ends[topic, partition]
        self._ends[topic, partition] += 1
        if topic in CLUSTER_INPUTS or topic == "node-usage":
            at_ms = self.session.now_ms if timestamp_ms is None else timestamp_ms
            self._inbox.append(InputRecord(topic, partition, offset, key, value, at_ms))
