"""The fuzzer finds faults that are put there on purpose, and makes short what shows them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from streams.cluster.state import ClusterState
from streams.stage.records import InputRecord
from tests.fuzz.__main__ import main
from tests.fuzz.campaign import Outcome, explore
from tests.fuzz.failure import Failure
from tests.fuzz.history import STAGES, Cut, History, StageName, Step, load, save
from tests.fuzz.shorten import minimal, shortened

RECORDS = 500
#: Histories by which each fault is found.
SEEDS = range(1, 9)


def found(stage: StageName = "cluster", seeds: Iterable[int] = SEEDS) -> Outcome:
    """The first history that fails."""
    for seed in seeds:
        outcome = explore(stage, seed, RECORDS)
        if outcome.failure is not None:
            return outcome
    raise AssertionError(f"no history of the {stage} stage fails")


def kind(outcome: Outcome) -> str:
    """How it fails."""
    assert outcome.failure is not None
    return outcome.failure.kind


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_short_histories_of_all_inputs_find_nothing(stage: StageName) -> None:
    for seed in (1, 2):
        outcome = explore(stage, seed, 300)
        assert outcome.failure is None
        assert outcome.coverage.records == 300
        assert outcome.coverage.restarts


@pytest.mark.parametrize("stage", STAGES)
def test_a_seed_makes_the_same_history_every_time(stage: StageName) -> None:
    first, second = explore(stage, 3, 200), explore(stage, 3, 200)
    assert first.history == second.history
    assert first.coverage.reached == second.coverage.reached


def test_a_history_that_is_kept_is_read_as_it_was(tmp_path: Path) -> None:
    record = InputRecord("policies", 1, 7, None, b"\xff\x00", -1)
    other = InputRecord("clock", 1, 0, "ü".encode(), None, 5)
    history = History("cluster", 4, (Step(record, Cut.RESTART), Step(other)))
    save(tmp_path / "h.jsonl", history, "why")
    assert load(tmp_path / "h.jsonl") == history


# --- faults --------------------------------------------------------------------------------------


def test_nothing_can_be_left_out_of_what_is_minimal() -> None:
    steps = [Step(InputRecord("clock", 0, offset, None, None, 0)) for offset in range(40)]

    def fails(some: Any) -> bool:
        offsets = {step.record.offset for step in some}
        return {3, 17, 18} <= offsets

    left = minimal(steps, fails, lambda: False)
    assert [step.record.offset for step in left] == [3, 17, 18]


@pytest.mark.slow
def test_a_failing_history_is_shortened_kept_and_fails_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def raises(self: ClusterState, metric: Any) -> Any:
        if metric.usage == {}:
            raise ZeroDivisionError("no usage")
        return []

    monkeypatch.setattr(ClusterState, "_metric", raises)
    outcome = found()
    short = shortened(outcome.history, kind(outcome), 60)
    assert len(short.steps) == 1
    seed = str(short.seed)
    arguments = ["--seeds", seed, "--stage", "cluster", "--records", str(RECORDS), "--jobs", "1"]
    assert main([*arguments, "--failures", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert f"--seeds {seed}-{seed} --stage cluster" in said
    kept = tmp_path / f"cluster-{seed}.jsonl"
    assert "shortened to 1 records: " in said
    assert str(kept) in said
    assert main(["--file", str(kept)]) == 1
    monkeypatch.undo()
    assert main(["--file", str(kept)]) == 0


def test_a_failure_names_what_and_where() -> None:
    assert str(Failure("what", "where")) == "what: where"
