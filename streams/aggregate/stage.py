"""The aggregate stage of one partition: records of `node-usage` in, node metrics and rows out.

A fold: what comes out depends on the records and their order alone, not on how they are cut into
batches and not on restarts in between. A record that cannot be used goes to `dead-letters` and
changes nothing else. What a record that can be used changes is the business of `intake`.

A defect of loadstream touches one node. The node is forgotten, since its state in memory may be
half changed, and its windows begin anew with its next sample. If applying a sample raises an
exception, this sample becomes a dead letter. If rows of a node cannot be encoded at the end of a
batch, all samples of the node in the batch become dead letters; only then do batches matter. If no
node is to blame, the worker stops.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from schemas.base.refusals import Refusal
from streams.aggregate.collect import AggregateLimits
from streams.aggregate.intake import INPUT, SampleIntake, node_of
from streams.aggregate.partition import PartitionState
from streams.stage.dead_letters import build_dead_letters
from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult
from streams.stage.statistics import Counts, Figures

logger = logging.getLogger(__name__)


class AggregateStage:
    """Windows of the nodes of one partition; see `streams.stage.records.Stage`."""

    def __init__(
        self,
        state: PartitionState,
        partitions: int,
        limits: AggregateLimits,
        *,
        has_table: bool = True,
    ) -> None:
        """Start from a state.

        Args:
            state: of the partition.
            partitions: how many `node-usage` has: a key must hash to the one it is found in.
            limits: of the stage.
            has_table: without one no rows are made; all else is the same.
        """
        self.state = state
        self.counts: Counter[str] = Counter()
        """How many records came to what, since `take_counts`: taken, taken_late, duplicate,
        redelivered, refused_<category>; and reported, forgotten, set_back, renewed,
        policy_adopted, policy_repeated."""
        self._intake = SampleIntake(state, partitions, limits, self.counts)
        self._has_table = has_table
        self._dead_letters: dict[int, list[OutputRecord]] = {}

    @property
    def positions(self) -> Mapping[str, int]:
        """Offset of the record applied last."""
        return {INPUT: self.state.position} if self.state.position >= 0 else {}

    @property
    def now_ms(self) -> int | None:
        """The time of the partition's samples."""
        return self.state.clock.now_ms

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records in the order of the log; those applied before change nothing."""
        applied: list[InputRecord] = []
        for record in records:
            if record.offset <= self.state.position:
                self.counts["redelivered"] += 1
                continue
            applied.append(record)
            self.state.position = record.offset
            self._apply(record)
            self._intake.sweep()
        rows = self._rows(applied) if applied else ()
        outputs, self._intake.metrics = tuple(self._intake.metrics.values()), {}
        letters, self._dead_letters = self._dead_letters, {}
        dead = tuple(letter for offset in sorted(letters) for letter in letters[offset])
        return StageResult(outputs, rows, dead)

    def prepare(self) -> bool:
        """Nothing waits here: each sample is worked out when it comes."""
        return False

    def take_counts(self) -> Counts:
        """What was done since the last call."""
        counts = Counts(results=Counter(self.counts))
        self.counts.clear()
        for result, number in counts.results.items():
            if result.startswith("refused_"):
                counts.refused[INPUT, result.removeprefix("refused_")] += number
        return counts

    def figures(self) -> Figures:
        """The partition's nodes, and the time of their samples."""
        return Figures(self.state.clock.now_ms, len(self.state.nodes))

    def _apply(self, record: InputRecord) -> None:
        try:
            refusal = self._intake.apply(record)
        except Exception as error:
            logger.exception("%s offset %d", record.topic, record.offset)
            node = self.state.nodes.get(node_of(record))
            if node is not None:
                self.state.forget(node)
            refusal = _internal(error)
        if refusal is not None:
            self._refuse(record, refusal)

    def _rows(self, applied: Sequence[InputRecord]) -> tuple[RowChange, ...]:
        """Return the rows of the batch, without nodes whose rows cannot be encoded."""
        if not self._has_table:
            self.state.settle()
            return ()
        try:
            return self.state.changes()
        except Exception:
            logger.exception("rows of partition %d cannot be encoded", self.state.partition)
        names = sorted({node_of(record) for record in applied})
        failed = self.state.drop_unwritable(names, applied[0].offset)
        for record in applied:
            error = failed.get(node_of(record))
            if error is not None:
                self._intake.metrics.pop(record.offset, None)
                if record.offset not in self._dead_letters:
                    self._refuse(record, _internal(error))
        return self.state.changes()

    def _refuse(self, record: InputRecord, refusal: Refusal) -> None:
        self.counts[f"refused_{refusal.category}"] += 1
        self._dead_letters[record.offset] = build_dead_letters(record, refusal)


def _internal(error: Exception) -> Refusal:
    return Refusal("internal", f"{type(error).__name__}: {error}")
