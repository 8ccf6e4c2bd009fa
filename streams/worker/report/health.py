"""Whether a worker lives, and whether it works.

Alive: it makes progress, however slowly, or has nothing to do. Progress is a row recovered, a batch
applied, a batch durable. A worker that has work and makes none must be started again, unless the brokers are
away or take no writes: a new start would not change them. Ready: it has its partitions, a broker answers, it is not
far behind, and nothing is wrong around it (`Notices`); if not, wait, or do what the message says. Another thread than
the one that works answers both, so it answers even if the worker hangs.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from streams.worker.partitions import Partitions
from streams.worker.store.pipeline import Pipeline

#: Longest time without progress while there is work and brokers answer, and of a silent event loop. One record of a
#: large cluster may take seconds, and so does building the state of a partition.
PROGRESS_MAX_S = 120.0
#: Longest time since a broker answered. It is asked every few seconds.
BROKER_SILENCE_MAX_S = 20.0


class Health:
    """The signs of life of one worker."""

    def __init__(
        self, *, lag_records_max: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`lag_records_max`: with more records to apply than that the worker is not ready."""
        self._lag_records_max = lag_records_max
        self._clock = clock
        self._beat_s = clock()
        self._broker_s: float | None = None
        self._answering_since_s: float | None = None
        """Since when brokers have answered without a silence."""
        self._stages: list[tuple[Partitions, Pipeline]] = []
        self._lags: Mapping[str, int] = {}
        """Records that wait to be applied, by stage."""
        self._behind_since_s: dict[str, float] = {}
        """Since when records have waited at each look, by stage."""
        self._counted: frozenset[tuple[str, int]] = frozenset()
        """Stages and partitions whose waiting records these are."""

    def watch(self, partitions: Partitions, pipeline: Pipeline) -> None:
        """Look at this stage too."""
        self._stages.append((partitions, pipeline))

    def beat(self) -> None:
        """The event loop turns."""
        self._beat_s = self._clock()

    def heard(self, lags: Mapping[str, int], counted: Collection[tuple[str, int]] = ()) -> None:
        """A broker has answered; the records that wait in the worker's partitions, by stage.

        `counted`: these partitions, each with its stage.
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

    def uncounted(self) -> Sequence[str]:
        """Stages that have taken partitions over since the waiting records were counted."""
        return [
            partitions.stage
            for partitions, _ in self._stages
            if partitions.recovered
            and not self._counted.issuperset(
                (partitions.stage, each) for each in tuple(partitions.stages)
            )
        ]

    def deadly(self) -> Sequence[str]:
        """Why the worker should be started again; empty: it lives."""
        now_s = self._clock()
        problems = []
        silent_s = now_s - self._beat_s
        if silent_s > PROGRESS_MAX_S:
            problems.append(
                f"the event loop has not turned for {silent_s:.0f} s; allowed are {PROGRESS_MAX_S:.0f}"
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
                    f"{partitions.stage}: {work}, and there was no progress for "
                    f"{now_s - progressed_s:.0f} s; allowed are {PROGRESS_MAX_S:.0f} while brokers answer"
                )
        return problems

    def _find_work(self, partitions: Partitions, pipeline: Pipeline) -> tuple[str, float]:
        """What a stage has to do, as part of a sentence, and since when; empty: nothing."""
        busy_s = pipeline.busy_since_s
        behind_s = self._behind_since_s.get(partitions.stage)
        if partitions.is_recovering:
            return "tables are being recovered", partitions.assigned_at_s
        if busy_s is not None:
            return "a batch is under way", busy_s
        if partitions.recovered and behind_s is not None:
            return f"{self._lags.get(partitions.stage, 0)} records wait to be applied", behind_s
        return "", 0.0

    def _silent(self) -> bool:
        """No broker has answered for too long."""
        heard_s = self._broker_s
        return heard_s is None or self._clock() - heard_s > BROKER_SILENCE_MAX_S

    def hindering(self) -> Sequence[str]:
        """Why the worker should be waited for; empty: it is ready."""
        problems = list(self.deadly())
        problems += [
            f"{partitions.stage}: partitions are being assigned and recovered"
            for partitions, _ in self._stages
            if not partitions.recovered
        ]
        problems += [
            f"{name}: the records that wait in new partitions are being counted"
            for name in self.uncounted()
        ]
        for partitions, _ in self._stages:
            problems += partitions.notices.sentences
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
