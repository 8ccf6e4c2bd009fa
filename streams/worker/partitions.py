"""The partitions of a stage that this worker owns, and current problems.

`takeover` changes the partitions; intake, clock, watchers, metrics and health read them.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from streams.stage.records import Stage
from streams.worker.packed_messages import EmptyOffsets

logger = logging.getLogger(__name__)


class StageProblems:
    """Current problems around a stage, such as its clock or its consumer group.

    Each watcher reports all its problems at each check. The start and the end of a problem are logged, and
    health reports the problem meanwhile.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._problems: dict[str, dict[str, str]] = {}

    def report(self, watcher: str, problems: Mapping[str, str]) -> None:
        """Replace the problems of a watcher: sentences by subject."""
        before = self._problems.get(watcher, {})
        for subject, sentence in problems.items():
            if subject not in before:
                logger.error("%s: %s", self._stage, sentence)
        for subject in before:
            if subject not in problems:
                logger.warning("%s: %s: the problem is solved", self._stage, subject)
        self._problems[watcher] = dict(problems)

    @property
    def sentences(self) -> list[str]:
        """All problems, by watcher and subject."""
        return [
            f"{self._stage}: {problems[subject]}"
            for _, problems in sorted(self._problems.items())
            for subject in sorted(problems)
        ]


class Partitions:
    """The partitions of one stage that this worker owns."""

    def __init__(self, app: Any, stage: str, topics: Collection[str]) -> None:
        self._app = app
        self.stage = stage
        """aggregate or cluster."""
        self.topics = frozenset(topics)

        self.stages: dict[int, Stage] = {}
        """The stage of each partition."""
        self.recovered = False
        """Whether all owned partitions have a stage; also true if the worker owns none."""
        self.generation = 0
        """Number of rebalances."""
        self.assigned_at_s = 0.0
        """When Faust last assigned partitions, by the monotonic clock."""
        self.worked_at_s = 0.0
        """When a batch was last applied or became durable, by the monotonic clock."""
        self.writes_refused_at_s = 0.0
        """When brokers last refused writes, because too few replicas were in sync."""
        self.problems = StageProblems(stage)
        self._skipped: dict[tuple[str, int], tuple[int, int]] = {}
        """Last applied offset, and end of the skipped offsets after it, by topic and partition."""

    def is_current(self, generation: int) -> bool:
        """Tell whether no rebalance has begun since a generation."""
        return self.generation == generation

    def position(self, topic: str, partition: int) -> int:
        """Return the last applied offset of a topic, or -1."""
        return self.stages[partition].positions.get(topic, -1)

    def next_offset(self, topic: str, partition: int) -> int:
        """Return the offset after the last applied record and after skipped offsets."""
        position = self.position(topic, partition)
        valid_at, end = self._skipped.get((topic, partition), (position, 0))
        return max(position + 1, end if valid_at == position else 0)

    def skip_empty(self, empty: EmptyOffsets) -> None:
        """Skip ranges without a record that start at the next offset."""
        for (topic, partition, first), end in empty.items():
            if partition in self.stages and self.next_offset(topic, partition) == first:
                self._skipped[topic, partition] = self.position(topic, partition), end

    def select_inputs(self, assigned: Iterable[Any]) -> set[int]:
        """Return the partitions of the stage's inputs among topic partitions."""
        return {tp.partition for tp in assigned if tp.topic in self.topics}

    @property
    def is_recovering(self) -> bool:
        return not self.recovered and bool(self._app.in_recovery)

    @property
    def progressed_at_s(self) -> float:
        """When the worker last read rows or applied a batch, by the monotonic clock."""
        read_at_s: float = self._app.row_read_at_s
        return max(self.assigned_at_s, read_at_s, self.worked_at_s)
