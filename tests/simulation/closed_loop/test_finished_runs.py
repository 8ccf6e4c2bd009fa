"""Runs that have ended are kept, and are found by what decides their figures."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simulation.closed_loop.comparison import compare
from simulation.closed_loop.contenders import ContenderFactory, make_factories
from simulation.closed_loop.finished_runs import FinishedRuns, Task, UnreadableRun
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.runs import SequentialRuns
from simulation.closed_loop.traces import model_traces

_SMALL = Parameters(nodes=4, hours=0.2, filling_hours=0.2)
_TRACES = model_traces()
_TASK = Task(_SMALL, "model", 3, "random-choice")


def _open_runs(directory: Path, version: str = "1", definition: str = "rule") -> FinishedRuns:
    return FinishedRuns(directory, [_TRACES], {"random-choice": definition}, version)


def _compare(kept: FinishedRuns, make: Callable[[], ContenderFactory] | None = None) -> object:
    factories = {"random-choice": make()} if make else make_factories(["random-choice"], [])
    runs = SequentialRuns([_TRACES], factories, lambda _: None)
    return compare([_SMALL], ["model"], [3], ["random-choice"], (), runs, kept)


def _refuse_runs() -> ContenderFactory:
    def refuse() -> object:
        raise AssertionError("was run again")

    return ContenderFactory("rule", refuse)  # type: ignore[arg-type]


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    first = _compare(_open_runs(tmp_path))
    assert _compare(_open_runs(tmp_path), _refuse_runs) == first
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_a_changed_version_definition_seed_or_parameter_is_a_new_run(tmp_path: Path) -> None:
    _compare(_open_runs(tmp_path))
    kept = _open_runs(tmp_path)
    assert kept.find(_TASK) is not None
    assert kept.find(replace(_TASK, seed=4)) is None
    assert kept.find(replace(_TASK, parameters=replace(_SMALL, load=0.5))) is None
    assert _open_runs(tmp_path, version="2").find(_TASK) is None
    assert _open_runs(tmp_path, definition="other").find(_TASK) is None


def test_an_error_names_a_damaged_file(tmp_path: Path) -> None:
    _compare(_open_runs(tmp_path))
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:50])
    with pytest.raises(
        UnreadableRun, match=f"{file.name} is not a finished run .*; remove the file"
    ):
        _compare(_open_runs(tmp_path))
