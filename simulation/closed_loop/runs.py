"""Executes the runs of a comparison, sequentially or in several processes.

Runs are independent, so the result does not depend on the number of processes. Each run uses one core.
Concurrent runs end in any order.
"""

import gc
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import active_children, connection, get_context, parent_process
from pathlib import Path
from signal import SIG_BLOCK, SIG_DFL, SIG_UNBLOCK, SIGINT, pthread_sigmask, signal
from tempfile import NamedTemporaryFile
from threading import Thread

from simulation.closed_loop.contenders import ContenderFactory, make_factories
from simulation.closed_loop.finished_runs import Calibration, Run, Task
from simulation.closed_loop.scenario import Scenario, draw_scenario
from simulation.closed_loop.traces import Traces
from simulation.closed_loop.world import Contender, run

#: Thresholds of the garbage collector. Reference counting frees messages and state, which have no
#: cycles. With a first threshold of 20,000, collections took a seventh of a run of 1,500 nodes.
GC_THRESHOLDS = (400_000, 5, 20_000)

Progress = Callable[[str], None]
"""Called with each line of progress."""


Runs = Callable[[Sequence[Task]], Iterator[tuple[Task, Run]]]
"""Yields each task with its run, in the order in which runs end."""


class RunDied(RuntimeError):
    """A process was killed before its run was complete; the message says what to do."""


class SequentialRuns:
    """Executes runs sequentially, in this process."""

    def __init__(
        self,
        days: Sequence[Traces],
        factories: Mapping[str, ContenderFactory],
        progress: Progress,
    ) -> None:
        self._factories, self._progress = factories, progress
        # Drawing a scenario takes seconds, and all contenders of a day and seed have the same scenario.
        traces_of_day = {traces.day: traces for traces in days}
        self._scenario = lru_cache(1)(
            lambda parameters, day, seed: draw_scenario(parameters, seed, traces_of_day[day])
        )

    def __call__(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Run]]:
        """Yield each task with its run, in the order of the tasks."""
        for task in tasks:
            scenario = self._scenario(task.parameters, task.day, task.seed)
            contender = self._factories[task.contender].make()
            yield task, execute_run(scenario, task.day, contender, self._progress)


def execute_run(
    scenario: Scenario,
    day: str,
    contender: Contender,
    progress: Progress = lambda _: None,
) -> Run:
    """Run a contender over a whole scenario.

    Args:
        scenario: scenario of the run.
        day: day of the traces that the scenario was drawn from.
        contender: places and moves the pods.
        progress: is called after each simulated hour.
    """
    parameters, seed, name = scenario.parameters, scenario.seed, contender.name
    begun_s = time.process_time()
    total_hours = parameters.filling_hours + parameters.hours

    def report(hours: float) -> None:
        progress(
            f"{parameters.load_text}% load, day {day}, {name}, seed {seed}: {hours:.0f} of "
            f"{total_hours:g} h after {time.process_time() - begun_s:.0f} s of CPU"
        )

    result = run(scenario, contender, report)
    calibration = Calibration(scenario.factor, scenario.requested_share, len(scenario.plans))
    return Run(name, day, seed, calibration, result, time.process_time() - begun_s)


@dataclass(frozen=True, slots=True)
class ParallelRuns:
    """Executes runs concurrently, in several processes."""

    jobs: int
    """At most this many runs at a time."""
    names: Sequence[str]
    files: Sequence[Path]
    days: Sequence[Traces]
    progress: Progress
    """A module-level function, because other processes call it."""

    def __call__(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Run]]:
        """Yield each task with its run, as runs end.

        Raises RunDied if a process is killed, for example for lack of memory.
        """
        with NamedTemporaryFile() as days_file:
            # Traces are larger than a pipe. As arguments, they would make each start wait for the
            # imports of the new process.
            pickle.dump(self.days, days_file)
            days_file.flush()
            arguments = (self.names, self.files, days_file.name, self.progress)
            pool = ProcessPoolExecutor(
                min(self.jobs, len(tasks)), get_context("spawn"), _prepare_process, arguments
            )
            try:
                with _without_ctrl_c():
                    futures = {pool.submit(_execute_task, task): task for task in tasks}
                for future in as_completed(futures):
                    yield futures[future], future.result()
            except BrokenProcessPool:
                raise RunDied(
                    f"one of {self.jobs} processes was killed, perhaps because memory ran out; use "
                    "fewer --jobs, and --keep to keep finished runs"
                ) from None
            finally:
                for child in active_children():  # after an error or Ctrl-C, runs are not needed
                    child.terminate()
                pool.shutdown(cancel_futures=True)


def create_runs(
    jobs: int,
    names: Sequence[str],
    files: Sequence[Path],
    days: Sequence[Traces],
    progress: Progress,
) -> Runs:
    """Return an object that executes runs, at most `jobs` at a time."""
    if jobs == 1:
        gc.set_threshold(*GC_THRESHOLDS)
        return SequentialRuns(days, make_factories(names, files), progress)
    return ParallelRuns(jobs, names, files, days, progress)


_sequential_runs: SequentialRuns
"""Executes the runs in a process of the pool."""


def _prepare_process(
    names: Sequence[str], files: Sequence[Path], days_file: str, progress: Progress
) -> None:
    """Prepare a process of the pool for its runs."""
    global _sequential_runs  # the pool passes only the task to `_execute_task`
    signal(SIGINT, SIG_DFL)  # Ctrl-C ends the process at once, without a message
    pthread_sigmask(SIG_UNBLOCK, {SIGINT})
    Thread(target=_end_with_parent, daemon=True).start()
    gc.set_threshold(*GC_THRESHOLDS)
    days: Sequence[Traces] = pickle.loads(Path(days_file).read_bytes())  # noqa: S301 - our own file
    _sequential_runs = SequentialRuns(days, make_factories(names, files), progress)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C while processes start, because it would print tracebacks of their imports.

    `_prepare_process` unblocks Ctrl-C in each process.
    """
    pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        yield
    finally:
        pthread_sigmask(SIG_UNBLOCK, {SIGINT})


def _execute_task(task: Task) -> Run:
    ((_, run_of_task),) = _sequential_runs([task])
    return run_of_task


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
