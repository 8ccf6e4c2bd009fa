"""Whether a worker makes progress (`/healthz`), and whether it is ready (`/readyz`).

Healthy: the worker makes progress, or has nothing to do. Progress is a recovered row, an applied batch or
a durable batch. An unhealthy worker should be restarted. While no broker answers or accepts writes, a
worker is healthy, because a restart would not help.

Ready: the worker has recovered its partitions, a broker answers, few records wait, and there are no
problems (`StageProblems`).

Both are answered by a separate thread, even if the worker hangs.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from streams.worker.partitions import Partitions
from streams.worker.store.pipeline import Pipeline

#: Longest time without progress while there is work and brokers answer, or without a turn of the event loop.
PROGRESS_MAX_S = 120.0
#: Longest time since a broker answered. It is asked every few seconds.
BROKER_SILENCE_MAX_S = 20.0


class Health:
    def __init__(
        self, *, lag_records_max: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """With more than `lag_records_max` records to apply, the worker is not ready."""
        self._lag_records_max = lag_records_max
        self._clock = clock
        self._beat_s = clock()
        self._broker_s: float | None = None
        self._answering_since_s: float | None = None
        """Since when brokers have answered without interruption."""
        self._stages: list[tuple[Partitions, Pipeline]] = []
        self._lags: Mapping[str, int] = {}
        """Records to apply, by stage."""
        self._behind_since_s: dict[str, float] = {}
        """Since when there have always been records to apply, by stage."""
        self._counted: frozenset[tuple[str, int]] = frozenset()
        """Stages and partitions that `_lags` includes."""

    def add_stage(self, partitions: Partitions, pipeline: Pipeline) -> None:
        self._stages.append((partitions, pipeline))

    def beat(self) -> None:
        """Note that the event loop runs."""
        self._beat_s = self._clock()

    def set_lags(self, lags: Mapping[str, int], counted: Collection[tuple[str, int]] = ()) -> None:
        """Note that a broker has answered.

        Args:
            lags: records to apply, by stage.
            counted: stage and number of each partition that `lags` includes.
        """
        if self._silent():
            self._answering_since_s = self._clock()
        self._broker_s = self._clock()
        self._lags, self._counted = lags, frozenset(counted)
        self._behind_since_s = {
            stage: self._behind_since_s.get(stage, self._broker_s)
            for stage, records in lags.items()
            if records
        }

    def find_uncounted(self) -> Sequence[str]:
        """Return the stages with partitions whose records to apply are not counted yet."""
        return [
            partitions.stage
            for partitions, _ in self._stages
            if partitions.recovered
            and not self._counted.issuperset(
                (partitions.stage, partition) for partition in tuple(partitions.stages)
            )
        ]

    def find_failures(self) -> Sequence[str]:
        """Return why the worker should be restarted; empty if it is healthy."""
        now_s = self._clock()
        problems = []
        silent_s = now_s - self._beat_s
        if silent_s > PROGRESS_MAX_S:
            problems.append(
                f"the event loop has been blocked for {silent_s:.0f} s; allowed are {PROGRESS_MAX_S:.0f}"
            )
        answering_s = self._answering_since_s
        if answering_s is None or self._silent():
            return problems
        for partitions, pipeline in self._stages:
            work, since_s = self._find_work(partitions, pipeline)
            progressed_s = max(since_s, partitions.progressed_at_s)
            possible_s = max(progressed_s, answering_s, partitions.writes_refused_at_s)
            if work and now_s - possible_s > PROGRESS_MAX_S:
                problems.append(
                    f"{partitions.stage}: {work}, without progress for {now_s - progressed_s:.0f} s; "
                    f"allowed are {PROGRESS_MAX_S:.0f} while brokers answer"
                )
        return problems

    def _find_work(self, partitions: Partitions, pipeline: Pipeline) -> tuple[str, float]:
        """Return what a stage has to do, as part of a sentence, and since when; empty: nothing."""
        busy_s = pipeline.busy_since_s
        behind_s = self._behind_since_s.get(partitions.stage)
        if partitions.is_recovering:
            return "tables are being recovered", partitions.assigned_at_s
        if busy_s is not None:
            return "a batch is pending", busy_s
        if partitions.recovered and behind_s is not None:
            return f"{self._lags.get(partitions.stage, 0)} records wait to be applied", behind_s
        return "", 0.0

    def _silent(self) -> bool:
        heard_s = self._broker_s
        return heard_s is None or self._clock() - heard_s > BROKER_SILENCE_MAX_S

    def find_obstacles(self) -> Sequence[str]:
        """Return why the worker is not ready; empty if it is."""
        problems = list(self.find_failures())
        problems += [
            f"{partitions.stage}: partitions are being assigned and recovered"
            for partitions, _ in self._stages
            if not partitions.recovered
        ]
        problems += [
            f"{name}: the records to apply in new partitions are not counted yet"
            for name in self.find_uncounted()
        ]
        for partitions, _ in self._stages:
            problems += partitions.problems.sentences
        if self._broker_s is None:
            problems.append("no broker has answered yet")
        elif self._silent():
            problems.append(
                f"no broker has answered for {self._clock() - self._broker_s:.0f} s; allowed are "
                f"{BROKER_SILENCE_MAX_S:.0f}"
            )
        if (lag := sum(self._lags.values())) > self._lag_records_max:
            problems.append(
                f"{lag} records wait to be applied; allowed are {self._lag_records_max}"
            )
        return problems
