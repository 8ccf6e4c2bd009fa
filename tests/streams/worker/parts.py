"""Parts of a stage's worker that do without a broker."""

from collections.abc import Sequence
from types import SimpleNamespace

from schemas.settings.connection import KafkaSettings
from streams.cluster.stage import ClusterStage
from streams.stage.journal import JournalPosition
from streams.stage.packing import Changes
from streams.stage.records import AppliedBatch
from streams.worker.consume.intake import Intake
from streams.worker.partitions import Partitions
from streams.worker.report.metrics import Metrics
from streams.worker.store.pipeline import Pipeline
from streams.worker.store.writethrough import WriteThrough


class NoBroker(WriteThrough):
    """Durability that reaches no broker: everything is durable at once."""

    def __init__(self) -> None:
        self.journaled: list[int] = []
        self.durable: list[int] = []

    async def append(self, batches: Sequence[AppliedBatch]) -> list[JournalPosition]:
        self.journaled += [batch.partition for batch in batches]
        return []

    async def commit(
        self, batches: Sequence[AppliedBatch], places: Sequence[JournalPosition] = ()
    ) -> None:
        self.durable += [batch.partition for batch in batches]

    async def flush(self, *, force: bool = False) -> None:
        return None

    def list_unwritten(self, partition: int) -> Sequence[Changes]:
        return ()

    def close(self, partition: int) -> None:
        return None


def own_partition(*topics: str) -> Partitions:
    """Partition 0 of the cluster stage, empty, with these inputs."""
    app = SimpleNamespace(in_recovery=True, row_read_at_s=0.0)
    partitions = Partitions(app, "cluster", topics)
    partitions.stages[0] = ClusterStage(0, 4)
    partitions.recovered = True
    return partitions


def positions_of(partitions: Partitions) -> dict[str, int]:
    """Offset applied last in partition 0, by topic; a test may change it."""
    stage = partitions.stages[0]
    assert isinstance(stage, ClusterStage)
    return stage.positions


class RecordingIntake(Intake):
    """An intake that records the requested ranges and applies only positions."""

    def __init__(
        self,
        *topics: str,
        in_time: bool = True,
        holds_records: bool = True,
        taken_after: str | None = None,
    ) -> None:
        """`taken_after` is the topic after whose records the partition is taken away."""
        super().__init__(own_partition(*topics), Pipeline(NoBroker()), KafkaSettings(), Metrics())
        self.positions = positions_of(self.partitions)
        self.requested: list[tuple[str, int]] = []
        """Topic and end offset of each request."""
        self.generations: list[int] = []
        """Generation of each request."""
        self._in_time = in_time
        self._holds_records = holds_records
        self._taken_after = taken_after

    async def apply_up_to(
        self,
        topic: str,
        partition: int,
        end: int,
        until_s: float,
        generation: int,
        *,
        undelivered: bool = False,
    ) -> bool:
        assert partition == 0
        self.requested.append((topic, end))
        self.generations.append(generation)
        if topic == self._taken_after:
            self.partitions.generation += 1
        if self._in_time and self._holds_records:
            self.positions[topic] = end - 1
        if self._in_time:
            following = self.partitions.next_offset(topic, partition)
            self.partitions.skip_empty({(topic, partition, following): end})
        return self._in_time
