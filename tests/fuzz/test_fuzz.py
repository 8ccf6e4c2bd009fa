"""The fuzzer finds faults that are put there on purpose, and makes short what shows them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from schemas.messages.evictions import EvictionCommand
from schemas.storage.tables import kind_of_key
from streams.aggregate.partition import PartitionState
from streams.aggregate.pods import PodWindow
from streams.cluster.stage import ClusterStage
from streams.cluster.state import ClusterState
from streams.inventory.inventory import Inventory
from streams.placement.plugins.fit import NodeResourcesFit
from streams.stage.dead_letters import buried
from streams.stage.records import InputRecord
from tests.fuzz.__main__ import main
from tests.fuzz.campaign import Outcome, explore, repeat
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


def test_a_worker_that_loses_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ClusterStage.restored

    def loses(partition: int, partitions: int, rows: Any) -> ClusterStage:
        kept = {key: rows[key] for key in sorted(rows) if kind_of_key(key) != "pending_requests"}
        return right(partition, partitions, kept)

    monkeypatch.setattr(ClusterStage, "restored", loses)
    assert kind(found()).startswith("a worker ")


def test_room_that_is_booked_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeResourcesFit, "prepare", lambda self, kind: (("pods", 0),))
    # From seed 4 on: in the one before, the restart of a worker shows the fault first.
    outcome = found(seeds=range(4, 9))
    assert kind(outcome) in ("room is booked twice", "a node has more pods than it takes")


def test_a_pod_that_is_placed_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reservation is forgotten at once, so that the next request for the pod is decided anew."""
    right = Inventory.held
    monkeypatch.setattr(Inventory, "held", lambda self, uid: None)
    outcome = found()
    monkeypatch.setattr(Inventory, "held", right)
    assert repeat(outcome.history).failure is None
    assert "twice" in kind(outcome) or "takes no room" in kind(outcome)


def test_an_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(self: ClusterState, message: Any, position: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(ClusterState, "_outcome", raises)
    assert "ZeroDivisionError" in kind(found())


def test_an_exception_beside_the_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(self: ClusterStage, rows: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(ClusterStage, "_with_own_row", raises)
    assert "raised ZeroDivisionError" in kind(found())


def test_a_repeated_record_that_counts_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ClusterStage.apply

    def forgets(self: ClusterStage, records: Any) -> Any:
        self.positions.update(dict.fromkeys(self.positions, -1))
        return right(self, records)

    monkeypatch.setattr(ClusterStage, "apply", forgets)
    assert found().failure is not None


def test_a_dead_letter_that_lacks_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(record: Any, refusal: Any) -> Any:
        short = None if record.value is None else record.value[:-1]
        whole = (record.topic, record.partition, record.offset, record.key, short, 0)
        return buried(InputRecord(*whole), refusal)

    for module in ("streams.cluster.stage", "streams.aggregate.stage"):
        monkeypatch.setattr(f"{module}.buried", cut)
    assert [kind(found(stage)) for stage in STAGES] == ["a dead letter holds another record"] * 2


@pytest.mark.slow
def test_a_command_that_observing_does_not_allow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wet(**fields: Any) -> EvictionCommand:
        return EvictionCommand(**{**fields, "dry_run": False})

    monkeypatch.setattr("streams.migration.execution.EvictionCommand", wet)
    outcome = found(seeds=range(1, 41))
    assert kind(outcome) == "a command is not dry while the cluster observes"


def test_a_batch_that_decides_otherwise_than_its_records_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = ClusterStage.apply

    def drops(self: ClusterStage, records: Any) -> Any:
        result = right(self, records)
        if len(records) > 1 and result.outputs:
            return type(result)(result.outputs[1:], result.rows, result.dead_letters)
        return result

    monkeypatch.setattr(ClusterStage, "apply", drops)
    assert kind(found()).startswith("a worker gives")


def test_a_window_that_is_lost_at_a_restart_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PodWindow, "load", lambda self, members, next_number, samples: None)
    assert kind(found("aggregate"))


def test_a_row_that_is_not_removed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that was forgotten is still counted at the next start."""
    right = PartitionState.changes

    def keeps(self: PartitionState) -> Any:
        return tuple(row for row in right(self) if row.value is not None)

    monkeypatch.setattr(PartitionState, "changes", keeps)
    assert kind(found("aggregate")).startswith("a worker that starts")


# --- shortening ------------------------------------------------------------------------------------


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
