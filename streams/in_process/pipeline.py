"""The two stages of one partition, joined as their topics join them.

    node-usage ──▶ aggregate ──▶ node-metrics ─┐
        ▲                                      ▼
        └── collect policies ──── other ──▶ cluster ──▶ outputs for outside

Records are numbered as a broker would number them. What the aggregate stage makes of a batch comes
after the batch's other records; a collect policy that the cluster stage writes comes before the
samples of the next batch. Nothing is journaled: what is in memory is all there is, and the stages
make no rows, which would not be read. Pure: the same records in the same batches give the same
outputs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.topics.catalog import CLUSTER_INPUTS
from streams.aggregate.collect import AggregateLimits, PoolRules
from streams.aggregate.intake import INPUT, OUTPUT
from streams.aggregate.partition import PartitionState
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord


@dataclass(frozen=True, slots=True)
class Written:
    """A record as its producer wrote it."""

    topic: str
    key: str
    value: bytes
    written_ms: int
    """When it was written, by the producer's clock."""


class LocalPipeline:
    """Both stages of the only partition."""

    def __init__(self) -> None:
        self.cluster = ClusterStage(0, 1, has_tables=False)
        self.aggregate = AggregateStage(
            PartitionState(0, PoolRules(), first=True), 1, AggregateLimits(), has_table=False
        )
        self.applied = 0
        """How many records both have applied."""
        self._ends: Counter[str] = Counter()
        self._policies: list[InputRecord] = []
        """Collect policies that the aggregate stage has not read yet."""

    def apply(self, records: Sequence[Written]) -> list[tuple[str, bytes]]:
        """Apply records in order; answers with topic and value of each output for outside.

        Raises ValueError for a record of a topic that neither stage reads.
        """
        samples, self._policies = self._policies, []
        others = []
        written_ms = 0
        for record in records:
            written_ms = record.written_ms
            if record.topic == INPUT:
                samples.append(self._numbered(INPUT, record.key, record.value, written_ms))
            elif record.topic in CLUSTER_INPUTS:
                others.append(self._numbered(record.topic, record.key, record.value, written_ms))
            else:
                raise ValueError(
                    f"found a record of topic {record.topic}; expected {INPUT} or one of "
                    f"{', '.join(CLUSTER_INPUTS)}"
                )
        measured = self.aggregate.apply(samples)
        others += [
            self._numbered(OUTPUT, output.key, output.value, written_ms)
            for output in measured.outputs
        ]
        decided = self.cluster.apply(others)
        self.applied += len(samples) + len(others)
        outside = [(each.topic, each.value) for each in measured.dead_letters]
        for output in decided.outputs:
            if output.topic == INPUT:
                policy = self._numbered(INPUT, output.key, output.value, written_ms)
                self._policies.append(policy)
            else:
                outside.append((output.topic, output.value))
        outside += [(each.topic, each.value) for each in decided.dead_letters]
        return outside

    def _numbered(self, topic: str, key: str, value: bytes, written_ms: int) -> InputRecord:
        offset = self._ends[topic]
        self._ends[topic] = offset + 1
        return InputRecord(topic, 0, offset, key.encode(), value, written_ms)
