"""The two stages of one partition, connected without Kafka.

    node-usage ──▶ aggregate ──▶ node-metrics ─┐
        ▲                                      ▼
        └── collect policies ──── other ──▶ cluster ──▶ outputs

Records get offsets as in a broker. In a batch, node metrics come after all other records. Collect policies
come before the samples of the next batch. There is no journal, and rows are dropped. The same records in
the same batches give the same outputs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.topics.catalog import CLUSTER_INPUTS
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.intake import INPUT, OUTPUT
from streams.aggregate.partition import PartitionState
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord


@dataclass(frozen=True, slots=True)
class ProducedRecord:
    """A record of a producer."""

    topic: str
    key: str
    value: bytes
    written_ms: int
    """Timestamp of the record."""


class LocalPipeline:
    def __init__(self) -> None:
        self.cluster = ClusterStage(0, 1)
        self.aggregate = AggregateStage(
            PartitionState(0, PoolRules(), first=True), 1, AggregateLimits(), has_table=False
        )
        self.applied = 0
        """Number of records that both stages have applied."""
        self._next_offsets: Counter[str] = Counter()
        self._policies: list[InputRecord] = []
        """Collect policies that the aggregate stage has not read yet."""

    def apply(self, records: Sequence[ProducedRecord]) -> list[tuple[str, bytes]]:
        """Apply records in order; return topic and value of each output and dead letter.

        Raises ValueError for a topic that neither stage reads.
        """
        samples, self._policies = self._policies, []
        inputs = []
        written_ms = 0
        for record in records:
            written_ms = record.written_ms
            if record.topic == INPUT:
                samples.append(self._write(INPUT, record.key, record.value, written_ms))
            elif record.topic in CLUSTER_INPUTS:
                inputs.append(self._write(record.topic, record.key, record.value, written_ms))
            else:
                raise ValueError(
                    f"found a record of topic {record.topic}; expected {INPUT} or one of "
                    f"{', '.join(CLUSTER_INPUTS)}"
                )
        aggregated = self.aggregate.apply(samples)
        inputs += [
            self._write(OUTPUT, output.key, output.value, written_ms)
            for output in aggregated.outputs
        ]
        result = self.cluster.apply(inputs)
        self.applied += len(samples) + len(inputs)
        published = [(letter.topic, letter.value) for letter in aggregated.dead_letters]
        for output in result.outputs:
            if output.topic == INPUT:
                policy = self._write(INPUT, output.key, output.value, written_ms)
                self._policies.append(policy)
            else:
                published.append((output.topic, output.value))
        published += [(letter.topic, letter.value) for letter in result.dead_letters]
        return published

    def _write(self, topic: str, key: str, value: bytes, written_ms: int) -> InputRecord:
        offset = self._next_offsets[topic]
        self._next_offsets[topic] = offset + 1
        return InputRecord(topic, 0, offset, key.encode(), value, written_ms)
