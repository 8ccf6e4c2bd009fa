"""Parallel runs equal sequential runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from simulation.closed_loop.contenders import make_factories
from simulation.closed_loop.finished_runs import Run, Task
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.runs import ParallelRuns, RunDied, Runs, SequentialRuns
from simulation.closed_loop.traces import model_traces
from tests.conftest import eventually

_NAMES = ("least-allocated", "loadstream")
_SMALL = Parameters(nodes=4, hours=0.2, filling_hours=0.2)
_TASKS = [Task(_SMALL, "model", seed, name) for seed in (3, 4) for name in _NAMES]
_TRACES = model_traces()


def _ignore(line: str) -> None:
    """Ignore a line of progress."""


def _side_by_side(jobs: int) -> ParallelRuns:
    return ParallelRuns(jobs, _NAMES, (), [_TRACES], _ignore)


def _figures(runs: Runs) -> dict[Task, Run]:
    return {task: replace(result, cpu_s=0.0) for task, result in runs(_TASKS)}


@pytest.mark.slow
def test_each_run_is_the_same_in_a_separate_process() -> None:
    in_turn = SequentialRuns([_TRACES], make_factories(_NAMES, ()), _ignore)
    assert _figures(_side_by_side(2)) == _figures(in_turn)


@pytest.mark.slow
def test_a_killed_process_ends_the_runs_with_an_error() -> None:
    long = [replace(task, parameters=replace(_SMALL, hours=200.0)) for task in _TASKS]

    def first() -> Iterator[tuple[Task, Run]]:
        yield from _side_by_side(2)([_TASKS[0], *long])

    results = first()
    next(results)
    for child in active_children():
        os.kill(child.pid or 0, signal.SIGKILL)
    with pytest.raises(RunDied, match="one of 2 processes was killed"):
        next(results)


@pytest.mark.parametrize("send", [os.killpg, os.kill], ids=["to all processes", "to the parent"])
def test_sigint_while_processes_begin_ends_all_without_a_traceback(
    send: Callable[[int, int], None],
) -> None:
    options = ["--nodes", "50", "--jobs", "2", "--contenders", "least-allocated,random-choice"]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "loadstream", "closed-loop", *options],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    begun = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        # The third is multiprocessing's resource tracker.
        assert eventually(lambda: len(begun.read_text().split()) == 3)
        time.sleep(0.3)
        send(process.pid, signal.SIGINT)
        _, output = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, "Traceback" in output) == (130, False), output
