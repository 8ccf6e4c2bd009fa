"""Whether a worker lives, and whether it works.

Alive: its event loop turns, no batch hangs, and recovery reads rows; if not, it must be started
again. Ready: it has its partitions, a broker answers, it is not far behind, and nothing is wrong
around it (`Notices`); if not, wait, or do what the message says. A batch that waits for brokers which are away does not hang: a new start would not
bring them back. Another thread than the one that works answers both, so it answers even if the
worker hangs.
"""

import time
from collections.abc import Callable, Collection, Sequence

from streams.worker.partitions import Partitions
from streams.worker.store.pipeline import Pipeline

#: Longest silence of the event loop. Building the state of large partitions takes seconds of it.
LOOP_SILENCE_MAX_S = 30.0
#: Longest time of one batch while brokers answer.
BATCH_MAX_S = 120.0
#: Longest time without a row while tables are recovered and brokers answer.
RECOVERY_SILENCE_MAX_S = 120.0
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
        self._lag_records: int | None = None
        self._counted: frozenset[tuple[str, int]] = frozenset()
        """Stages and partitions whose waiting records these are."""

    def watch(self, partitions: Partitions, pipeline: Pipeline) -> None:
        """Look at this stage too."""
        self._stages.append((partitions, pipeline))

    def beat(self) -> None:
        """The event loop turns."""
        self._beat_s = self._clock()

    def heard(self, lag_records: int, counted: Collection[tuple[str, int]] = ()) -> None:
        """A broker has answered; the records that wait in all partitions of the worker together.

        `counted`: these partitions, each with its stage.
        """
        if self._silent():
            self._answering_since_s = self._clock()
        self._broker_s = self._clock()
        self._lag_records, self._counted = lag_records, frozenset(counted)

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
        if silent_s > LOOP_SILENCE_MAX_S:
            problems.append(
                f"the event loop has not turned for {silent_s:.0f} s; allowed are "
                f"{LOOP_SILENCE_MAX_S:.0f}"
            )
        answering_s = self._answering_since_s
        if answering_s is None or self._silent():
            return problems
        for partitions, pipeline in self._stages:
            busy_s = pipeline.busy_since_s
            if busy_s is not None and now_s - max(busy_s, answering_s) > BATCH_MAX_S:
                problems.append(
                    f"{partitions.stage}: a batch has been under way for {now_s - busy_s:.0f} s; allowed "
                    f"are {BATCH_MAX_S:.0f} while brokers answer"
                )
            waiting_s = partitions.waiting_since_s
            if (
                waiting_s is not None
                and now_s - max(waiting_s, answering_s) > RECOVERY_SILENCE_MAX_S
            ):
                problems.append(
                    f"{partitions.stage}: tables are being recovered, and no row has come for "
                    f"{now_s - waiting_s:.0f} s; allowed are {RECOVERY_SILENCE_MAX_S:.0f} while brokers "
                    "answer"
                )
        return problems

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
        if (lag := self._lag_records) is not None and lag > self._lag_records_max:
            problems.append(
                f"{lag} records wait to be applied; allowed are {self._lag_records_max}"
            )
        return problems
