"""The aggregate stage of one partition: records of `node-usage` in, node metrics and rows out.

A fold: what comes out depends on the records and their order alone, not on how they are cut into
batches and not on restarts in between. A record that cannot be used goes to `dead-letters` and
changes nothing else. What a record that can be used changes is the business of `intake`.

A defect of loadstream that a sample shows, in applying it or in writing its rows, touches its node
alone: the sample is refused, and the node is forgotten, since what is in memory of it may be half
of what it should be. Its windows begin anew with the next sample, also with one of the same batch.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from schemas.refusals import Refusal
from streams.aggregate.collect import AggregateLimits
from streams.aggregate.intake import INPUT, Intake, node_of
from streams.aggregate.partition import PartitionState
from streams.aggregate.unwritable import unwritable
from streams.stage.dead_letters import buried
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
        redelivered, refused_<category>; and reported, forgotten, set_back, policy_adopted,
        policy_repeated."""
        self._intake = Intake(state, partitions, limits, self.counts)
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
            self._put(record)
            self._intake.sweep()
        rows = self._rows(applied) if applied else ()
        outputs, self._intake.metrics = _in_order(self._intake.metrics), {}
        dead_letters, self._dead_letters = _in_order(self._dead_letters), {}
        return StageResult(outputs, rows, dead_letters)

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

    def _put(self, record: InputRecord) -> None:
        refusal = self._contained(record)
        if refusal is not None:
            self._refuse(record, refusal)

    def _contained(self, record: InputRecord) -> Refusal | None:
        """Apply a record; a defect of ours touches its node alone, which begins anew."""
        try:
            return self._intake.apply(record)
        except Exception as error:
            logger.exception("%s offset %d", record.topic, record.offset)
            node = self.state.nodes.get(node_of(record))
            if node is not None:
                self.state.forget(node)
            return Refusal("internal", f"{type(error).__name__}: {error}")

    def _rows(self, applied: list[InputRecord]) -> tuple[RowChange, ...]:
        """Rows of the batch; what cannot be written is left out, and its node begins anew."""
        if not self._has_table:
            self.state.settle()
            return ()
        left = list(applied)
        while True:
            try:
                return self.state.changes()
            except Exception:
                blamed = unwritable(self.state, left[0].offset, partial(_newest_of, left))
                if not blamed:
                    raise
                logger.exception("rows of %s cannot be written", sorted(blamed))
                for name, (offset, cause) in sorted(blamed.items()):
                    left = self._leave_out(name, offset, cause, left)

    def _leave_out(
        self, name: str, offset: int, cause: Exception, left: list[InputRecord]
    ) -> list[InputRecord]:
        """A record makes a node unwritable: refuse it, and apply those of the node after it once
        more.

        Answers with the batch's records that have not failed.
        """
        self.state.drop(name, offset)
        again = [each for each in left if each.offset >= offset and node_of(each) == name]
        for record in again:
            self._intake.metrics.pop(record.offset, None)
            self._dead_letters.pop(record.offset, None)
        failed, *after = again
        self._refuse(failed, Refusal("internal", f"{type(cause).__name__}: {cause}"))
        for record in after:
            self._put(record)
        return [each for each in left if each is not failed]

    def _refuse(self, record: InputRecord, refusal: Refusal) -> None:
        self.counts[f"refused_{refusal.category}"] += 1
        self._dead_letters[record.offset] = buried(record, refusal)


def _in_order(by_offset: Mapping[int, list[OutputRecord]]) -> tuple[OutputRecord, ...]:
    """All records in the order of what causes them."""
    return tuple(record for offset in sorted(by_offset) for record in by_offset[offset])


def _newest_of(records: Sequence[InputRecord], name: str) -> int:
    return next(each.offset for each in reversed(records) if node_of(each) == name)
