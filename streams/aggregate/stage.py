"""The aggregate stage of one partition: applies records of `node-usage`, returns metrics and rows.

The results depend only on the records and their order, not on the sizes of batches or on restarts. A
refused record goes to `dead-letters` and changes nothing else.

If applying a sample raises an exception, the sample becomes a dead letter. Its node is forgotten, because
the state may be inconsistent, and the windows begin again with the next sample. Other nodes are not
affected.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from schemas.base.refusals import Refusal
from streams.aggregate.collect_policies import AggregateLimits
from streams.aggregate.intake import INPUT, SampleIntake, node_of
from streams.aggregate.partition import PartitionState
from streams.stage.records import (
    InputRecord,
    OutputRecord,
    RowChange,
    StageResult,
    build_dead_letters,
)
from streams.stage.statistics import Counts, Figures

logger = logging.getLogger(__name__)


class AggregateStage:
    """Implements `streams.stage.records.Stage`."""

    def __init__(
        self,
        state: PartitionState,
        partitions: int,
        limits: AggregateLimits,
        *,
        has_table: bool = True,
    ) -> None:
        """Args:
        state: state of the partition.
        partitions: number of partitions of `node-usage`; a record in a partition that its key does
            not hash to is refused.
        limits: limits of the stage.
        has_table: False: return no rows.
        """
        self.state = state
        self.counts: Counter[str] = Counter()
        """Records by result since `take_counts`: taken, taken_late, duplicate,
        refused_<category>; also reported, forgotten, set_back, renewed, policy_adopted,
        policy_repeated, and zero_points: pods that were left out because of memory 0."""
        self._intake = SampleIntake(state, partitions, limits, self.counts)
        self._has_table = has_table
        self._dead_letters: dict[int, list[OutputRecord]] = {}

    @property
    def positions(self) -> Mapping[str, int]:
        return {INPUT: self.state.position} if self.state.position >= 0 else {}

    @property
    def now_ms(self) -> int | None:
        return self.state.clock.now_ms

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        for record in records:
            self.state.position = record.offset
            self._apply(record)
            self._intake.sweep()
        rows: tuple[RowChange, ...] = ()
        if records:
            if self._has_table:
                rows = self.state.changes()
            else:
                self.state.mark_written()
        outputs, self._intake.metrics = tuple(self._intake.metrics.values()), {}
        letters, self._dead_letters = self._dead_letters, {}
        dead = tuple(letter for offset in sorted(letters) for letter in letters[offset])
        return StageResult(outputs, rows, dead)

    def prepare(self) -> bool:
        return False

    def take_counts(self) -> Counts:
        counts = Counts(results=Counter(self.counts))
        self.counts.clear()
        for result, number in counts.results.items():
            if result.startswith("refused_"):
                counts.refused[INPUT, result.removeprefix("refused_")] += number
        return counts

    def figures(self) -> Figures:
        return Figures(self.state.clock.now_ms, len(self.state.nodes))

    def _apply(self, record: InputRecord) -> None:
        try:
            refusal = self._intake.apply(record)
        except Exception as error:
            logger.exception("%s offset %d", record.topic, record.offset)
            node = self.state.nodes.get(node_of(record))
            if node is not None:
                self.state.forget(node)
            refusal = Refusal("internal", f"{type(error).__name__}: {error}")
        if refusal is not None:
            self.counts[f"refused_{refusal.category}"] += 1
            self._dead_letters[record.offset] = build_dead_letters(record, refusal)
