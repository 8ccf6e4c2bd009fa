"""The aggregate stage of one partition: applies records of `node-usage`, returns metrics and rows.

The results depend only on the records and their order. Sizes of batches and restarts do not change them. A
refused record goes to `dead-letters` and has no other effect.

A sample that raises an exception becomes a dead letter. Its node is forgotten, because the state may be
inconsistent, and the windows start with the next sample. Other nodes are not affected.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from schemas.base.refusals import Refusal
from streams.aggregate.collect_policies import AggregateLimits
from streams.aggregate.intake import INPUT, SampleIntake, get_node_key
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
        partitions: number of partitions of `node-usage`; the stage refuses records with a key of
            another partition.
        limits: limits of the stage.
        has_table: whether results have rows.
        """
        self.state = state
        self.counts: Counter[str] = Counter()
        """Counts since `take_counts`. Records: taken, taken_late, duplicate, refused_<category>,
        policy_adopted, policy_repeated; nodes: reported, forgotten, set_back, renewed; and
        unmeasured_pods: pods and host applications with memory 0, which are ignored."""
        self._intake = SampleIntake(state, partitions, limits, self.counts)
        self._has_table = has_table
        self._dead_letters: list[OutputRecord] = []

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
                rows = self.state.take_changes()
            else:
                self.state.mark_written()
        outputs, self._intake.metrics = tuple(self._intake.metrics), []
        dead_letters, self._dead_letters = tuple(self._dead_letters), []
        return StageResult(outputs, rows, dead_letters)

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
            node = self.state.nodes.get(get_node_key(record))
            if node is not None:
                self.state.forget(node)
            refusal = Refusal("internal", f"{type(error).__name__}: {error}")
        if refusal is not None:
            self.counts[f"refused_{refusal.category}"] += 1
            self._dead_letters += build_dead_letters(record, refusal)
