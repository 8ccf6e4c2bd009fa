"""The runs of a comparison: one after the other, or side by side in several processes.

Runs are independent, so the result does not depend on the number of processes. Each run takes one
core. The order in which runs end is not defined.
"""

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import active_children, connection, get_context, parent_process
from pathlib import Path
from signal import SIG_BLOCK, SIG_DFL, SIG_UNBLOCK, SIGINT, pthread_sigmask, signal
from threading import Thread
from typing import Protocol

from simulation.closed_loop.contenders import ContenderFactory, contenders
from simulation.closed_loop.finished_runs import Calibration, Run, Task
from simulation.closed_loop.scenario import Scenario, draw_scenario
from simulation.closed_loop.traces import Traces
from simulation.closed_loop.world import Contender, run

#: Thresholds of the garbage collector. Messages and state are trees, so reference counting frees
#: them. With a twentieth of the first threshold, collections took a seventh of a run of 1,500
#: nodes.
GC_THRESHOLDS = (400_000, 5, 20_000)

Progress = Callable[[str], None]
"""Is called with lines of progress."""


class Runs(Protocol):
    """Makes runs."""

    def __call__(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Run]]:
        """Yield each task with its run, in the order in which runs end."""
        ...


class RunDied(RuntimeError):
    """The process of a run has ended before the run; the message says what to do."""


class InTurn:
    """Makes runs one after the other, in this process."""

    def __init__(
        self,
        days: Sequence[Traces],
        make: Mapping[str, ContenderFactory],
        progress: Progress,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        """`cpu_s` returns the CPU time of this process so far."""
        self._make, self._progress, self._cpu_s = make, progress, cpu_s
        # All contenders have the same scenario, and drawing it takes seconds.
        of = {traces.day: traces for traces in days}
        self._scenario = lru_cache(1)(
            lambda parameters, day, seed: draw_scenario(parameters, seed, of[day])
        )

    def __call__(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Run]]:
        """Yield each task with its run, in their order."""
        for task in tasks:
            scenario = self._scenario(task.parameters, task.day, task.seed)
            contender = self._make[task.contender]()
            yield task, make_run(scenario, task.day, contender, self._progress, self._cpu_s)


def make_run(
    scenario: Scenario,
    day: str,
    contender: Contender,
    progress: Progress,
    cpu_s: Callable[[], float] = time.process_time,
) -> Run:
    """Run a contender over a whole scenario.

    Args:
        scenario: of the run.
        day: of the traces that the scenario was drawn from.
        contender: decides.
        progress: is called after each simulated hour.
        cpu_s: returns the CPU time of this process so far.
    """
    given, seed, name, begun_s = scenario.parameters, scenario.seed, contender.name, cpu_s()
    whole = given.filling_hours + given.hours

    def report(hours: float) -> None:
        progress(
            f"{given.load_text}% load, day {day}, {name}, seed {seed}: {hours:.0f} of {whole:g} h after "
            f"{cpu_s() - begun_s:.0f} s of CPU"
        )

    result = run(scenario, contender, report)
    calibration = Calibration(scenario.factor, scenario.requested_share, len(scenario.plans))
    return Run(name, day, seed, calibration, result, cpu_s() - begun_s)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Makes runs in several processes, each with contenders of its own."""

    jobs: int
    """At most this many runs at a time."""
    names: Sequence[str]
    files: Sequence[Path]
    days: Sequence[Traces]
    progress: Progress
    """A function of a module, since other processes call it."""

    def __call__(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Run]]:
        """Yield each task with its run, as runs end.

        Raises RunDied if a process is killed, for example for lack of memory.
        """
        given = (self.names, self.files, self.days, self.progress)
        with ProcessPoolExecutor(
            min(self.jobs, len(tasks)), get_context("spawn"), _begin, given
        ) as pool:
            try:
                with _without_ctrl_c():
                    futures = {pool.submit(_made, task): task for task in tasks}
                for future in as_completed(futures):
                    yield futures[future], future.result()
            except BrokenProcessPool:
                raise RunDied(
                    f"one of {self.jobs} processes was ended from outside, perhaps for want "
                    "of memory; give fewer with --jobs, and with --keep what has ended stays"
                ) from None
            except BaseException:
                for child in active_children():  # a run takes minutes, and is not wanted any more
                    child.terminate()
                raise


def runs(
    jobs: int,
    names: Sequence[str],
    files: Sequence[Path],
    days: Sequence[Traces],
    progress: Progress,
) -> Runs:
    """Return an object that makes runs, at most `jobs` at a time."""
    if jobs == 1:
        gc.set_threshold(*GC_THRESHOLDS)
        return InTurn(days, contenders(names, files), progress)
    return SideBySide(jobs, names, files, days, progress)


_in_turn: InTurn
"""Makes the runs of this process, if it is one of several."""


def _begin(
    names: Sequence[str], files: Sequence[Path], days: Sequence[Traces], progress: Progress
) -> None:
    global _in_turn  # a pool calls functions of modules, and these keep what they need here
    signal(SIGINT, SIG_DFL)  # Ctrl-C ends it at once, without a word
    pthread_sigmask(SIG_UNBLOCK, {SIGINT})
    Thread(target=_end_with_parent, daemon=True).start()
    gc.set_threshold(*GC_THRESHOLDS)
    _in_turn = InTurn(days, contenders(names, files), progress)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C while processes start; `_begin` unblocks it in each of them.

    During their imports, Ctrl-C would end them with tracebacks.
    """
    pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        yield
    finally:
        pthread_sigmask(SIG_UNBLOCK, {SIGINT})


def _made(task: Task) -> Run:
    ((_, made),) = _in_turn([task])
    return made


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
