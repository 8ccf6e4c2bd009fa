"""Checks whether a worker makes progress (`/healthz`), and whether it is ready (`/readyz`).

Healthy: the worker makes progress, or has no work. Progress is a recovered row, an applied batch or a
durable batch. An unhealthy worker should be restarted. While no broker answers or accepts writes, a worker
is healthy, because a restart would not help.

Ready: the worker has recovered its partitions, a broker answers, few records wait, and there are no
problems (`StageProblems`).

A separate thread answers both requests, even if the worker hangs.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from streams.worker.partitions import Partitions
from streams.worker.store.pipeline import Pipeline

#: Longest time without progress (while there is work and brokers answer), or with a blocked event loop.
PROGRESS_MAX_S = 120.0
#: Longest time since the last answer of a broker. `Observer` sends a request every few seconds.
BROKER_SILENCE_MAX_S = 20.0


class Health:
    def __init__(
        self, *, lag_records_max: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """With more than `lag_records_max` records to apply, the worker is not ready."""
        self._lag_records_max = lag_records_max
        self._clock = clock
        self._beat_at_s = clock()
        self._answered_at_s: float | None = None
        self._answering_since_s: float | None = None
        """Since when brokers have answered without interruption."""
        self._stages: list[tuple[Partitions, Pipeline]] = []
        self._lags: Mapping[str, int] = {}
        """Records to apply, by stage."""
        self._behind_since_s: dict[str, float] = {}
        """Since when a stage has had records to apply without interruption."""
        self._counted: frozenset[tuple[str, int]] = frozenset()
        """Stages and partitions that `_lags` includes."""

    def add_stage(self, partitions: Partitions, pipeline: Pipeline) -> None:
        self._stages.append((partitions, pipeline))

    def beat(self) -> None:
        """Note that the event loop runs."""
        self._beat_at_s = self._clock()

    def set_lags(self, lags: Mapping[str, int], counted: Collection[tuple[str, int]] = ()) -> None:
        """Note that a broker has answered.

        `lags` are the records to apply by stage; `counted` are stage and number of each partition in `lags`.
        """
        if self._is_broker_silent():
            self._answering_since_s = self._clock()
        self._answered_at_s = self._clock()
        self._lags, self._counted = lags, frozenset(counted)
        self._behind_since_s = {
            stage: self._behind_since_s.get(stage, self._answered_at_s)
            for stage, records in lags.items()
            if records
        }

    def find_uncounted(self) -> Sequence[str]:
        """Return the stages with partitions that `_lags` does not include yet."""
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
        blocked_s = now_s - self._beat_at_s
        if blocked_s > PROGRESS_MAX_S:
            problems.append(
                f"the event loop has been blocked for {blocked_s:.0f} s; allowed are {PROGRESS_MAX_S:.0f}"
            )
        answering_since_s = self._answering_since_s
        if answering_since_s is None or self._is_broker_silent():
            return problems
        for partitions, pipeline in self._stages:
            work, since_s = self._find_work(partitions, pipeline)
            progressed_at_s = max(since_s, partitions.progressed_at_s)
            possible_since_s = max(
                progressed_at_s, answering_since_s, partitions.writes_refused_at_s
            )
            if work and now_s - possible_since_s > PROGRESS_MAX_S:
                problems.append(
                    f"{partitions.stage}: {work}, without progress for {now_s - progressed_at_s:.0f} s; "
                    f"allowed are {PROGRESS_MAX_S:.0f} while brokers answer"
                )
        return problems

    def _find_work(self, partitions: Partitions, pipeline: Pipeline) -> tuple[str, float]:
        """Return the work of a stage as part of a sentence, and its start; empty: no work."""
        busy_since_s = pipeline.busy_since_s
        behind_since_s = self._behind_since_s.get(partitions.stage)
        if partitions.is_recovering:
            return "tables are being recovered", partitions.assigned_at_s
        if busy_since_s is not None:
            return "a batch is pending", busy_since_s
        if partitions.recovered and behind_since_s is not None:
            lag = self._lags.get(partitions.stage, 0)
            return f"{lag} records wait to be applied", behind_since_s
        return "", 0.0

    def _is_broker_silent(self) -> bool:
        answered_at_s = self._answered_at_s
        return answered_at_s is None or self._clock() - answered_at_s > BROKER_SILENCE_MAX_S

    def find_obstacles(self) -> Sequence[str]:
        """Return why the worker is not ready; empty if it is ready."""
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
        if self._answered_at_s is None:
            problems.append("no broker has answered yet")
        elif self._is_broker_silent():
            silent_s = self._clock() - self._answered_at_s
            problems.append(
                f"no broker has answered for {silent_s:.0f} s; allowed are {BROKER_SILENCE_MAX_S:.0f}"
            )
        if (lag := sum(self._lags.values())) > self._lag_records_max:
            problems.append(
                f"{lag} records wait to be applied; allowed are {self._lag_records_max}"
            )
        return problems
