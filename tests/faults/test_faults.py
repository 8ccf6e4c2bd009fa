"""Traces hold; and each invariant can fail: what is broken on purpose is found, named and made short."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.ports.command_rules import CommandRules
from schemas.evictions import EvictionCommand
from simulation.cluster.sink import SimulatedSink
from streams.cluster.stage import ClusterStage
from streams.inventory.inventory import Inventory
from streams.migration.concurrency_limits import Limits
from streams.migration.token_bucket import rate_per_second
from streams.placement.pending import PendingRequests
from streams.placement.placement import Placement
from streams.placement.plugins.fit import NodeResourcesFit
from tests.faults.__main__ import main
from tests.faults.life import Life, Report, live
from tests.faults.observers import Watch
from tests.faults.shrink import shrunk
from tests.faults.trace import KINDS, STOPS, Fault, Trace, draw, load, save
from tests.faults.workers import AggregateWorker, ClusterWorker
from tests.fuzz.seeds import seeds

#: The most CPU for making a trace short, in seconds: none is the goal.
SHRINK_S = 60


def trace(policy: str = "moves", *faults: Fault, **fields: Any) -> Trace:
    """A small trace with these faults."""
    given = {"seed": 2, "nodes": 4, "length_s": 1200, "load": 0.6, "fill": 0.9, **fields}
    return Trace(policy=policy, faults=faults, **given)


def kind(of: Trace) -> str:
    """How a trace fails."""
    failure = live(of).failure
    return "" if failure is None else failure.kind


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_whatever_fails_all_holds_that_must(seed: int) -> None:
    report = live(draw(seed))
    assert report.failure is None
    assert report.counts["records"] > 500
    assert report.counts["placed"] > 20


@pytest.mark.slow
def test_traces_go_deep() -> None:
    """A run in which nothing waits and nothing moves would prove little."""
    busy = (
        Fault(0, "cluster worker stops", 500, 60, which=1, name="journaled"),
        Fault(1, "cluster worker stops", 600, 60, which=0, name="journaled"),
        Fault(2, "sink fails", 300, 300, 0.5),
    )
    report = live(trace("moves", *busy, nodes=6, length_s=2400))
    assert report.failure is None
    assert report.counts["waiting"] > 20
    assert report.counts["command"] > 3
    assert report.counts["bind failed"] > 3
    assert report.counts["restarts"] == 2


def test_the_same_trace_is_the_same_run() -> None:
    lives = [Life(trace("moves", *draw(5).faults, length_s=600, quiet=False)) for _ in range(2)]
    for life in lives:
        life.run()
    first, second = ([worker.journal for worker in life.deciders] for life in lives)
    assert first == second
    assert any(first)


def test_a_trace_is_kept_and_read_as_it_was(tmp_path: Path) -> None:
    drawn = draw(11)
    save(tmp_path / "t.json", drawn, "why")
    assert load(tmp_path / "t.json") == drawn
    assert draw(11) == drawn != draw(12)


def test_every_kind_of_fault_is_drawn_and_every_point_at_which_a_worker_stops() -> None:
    faults = [fault for seed in range(200) for fault in draw(seed).faults]
    assert {fault.kind for fault in faults} == set(KINDS)
    assert {fault.name for fault in faults if fault.kind.endswith("stops")} == set(STOPS)


# --- what is broken on purpose -----------------------------------------------------------------


def found(
    of: Trace, expected: str, faults_max: int | None = None, *, to_the_end: bool = False
) -> Report:
    """The trace fails in this way, and still does when it was made short.

    So many faults are left of it at most; if no number is given, fewer than there were. Nothing more is
    tried then, but for the one that goes on until nothing is left to try.
    """
    most = len(of.faults) - 1 if faults_max is None else faults_max
    report = live(of)
    assert report.failure is not None
    assert report.failure.kind == expected

    def enough(trace: Trace) -> bool:
        return not to_the_end and len(trace.faults) <= most

    short = shrunk(report, SHRINK_S, enough)
    assert short.failure is not None
    assert short.failure.kind == expected
    assert len(short.trace.faults) <= most
    return short


NOISE = (
    Fault(90, "samples are lost", 100, 200, 0.5),
    Fault(91, "samples lie", 200, 300, 1.0, which=1),
    Fault(92, "node is cordoned", 300, 200, which=2),
)


@pytest.mark.slow
def test_a_sink_that_acts_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither remembers ids nor looks whether the pod goes already."""
    right = SimulatedSink.evict

    async def twice(self: SimulatedSink, command: EvictionCommand) -> Any:
        answer = await right(self, command)
        return answer if answer.result != "refused" else type(answer)("done")

    monkeypatch.setattr(SimulatedSink, "evict", twice)
    monkeypatch.setattr(CommandRules, "remember", lambda self, id_: None)
    again = [Fault(at, "sink starts again", at) for at in range(600, 1200, 60)]
    drawn = trace("moves", *NOISE, *again)
    short = found(drawn, "a command has two effects", 3, to_the_end=True)
    assert "sink starts again" in {fault.kind for fault in short.trace.faults}
    assert short.trace.length_s < drawn.length_s


@pytest.mark.slow
def test_room_that_is_taken_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeResourcesFit, "prepare", lambda self, kind: (("pods", 0),))
    found(trace("requests", *NOISE), "room is booked twice", 0)


@pytest.mark.slow
def test_a_node_that_is_over_reserved_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sinks stand still, so nobody else notices."""
    monkeypatch.setattr(NodeResourcesFit, "prepare", lambda self, kind: (("pods", 0),))
    lags = Fault(0, "sink lags", 0, 1200)
    assert kind(trace("requests", lags, quiet=False)) == "a node is over-reserved"


@pytest.mark.slow
def test_a_pod_that_is_placed_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reservation is not looked at when the request comes again."""
    monkeypatch.setattr(Inventory, "held", lambda self, uid: None)
    twice = Fault(0, "records come twice", 0, 600, 0.5)
    found(trace("moves", twice, *NOISE, length_s=700), "a pod is placed twice", 1)


@pytest.mark.slow
def test_a_pod_that_waits_for_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is never tried again."""
    monkeypatch.setattr(Placement, "tick", lambda self, cause, effort: [])
    assert kind(trace("defaults", fill=0.95, length_s=700)) == "a pod waits that a node would take"


@pytest.mark.slow
def test_events_that_are_missed_for_good_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that was blind does not list again."""
    right = Watch.list_all

    def lists_once(self: Watch, now_ms: int) -> None:
        if not self._lists:
            right(self, now_ms)

    monkeypatch.setattr(Watch, "list_all", lists_once)
    blind = Fault(0, "watch is blind", 500, 40)
    assert kind(trace("defaults", blind, length_s=700)) == "what is known is not what there is"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("limited", "maxMigratingPerNode is exceeded"),
        ("slow", "evictQPS and evictBurst are exceeded"),
    ],
)
def test_a_limit_that_is_ignored_is_found(
    monkeypatch: pytest.MonkeyPatch, policy: str, expected: str
) -> None:
    if policy == "limited":
        monkeypatch.setattr(Limits, "gate", lambda self, *args, **named: None)
    name = "streams.migration.rate_limits.rate_per_second"
    monkeypatch.setattr(name, lambda tokens, burst: rate_per_second(1000.0, 1000))
    lags = Fault(0, "sink lags", 400, 400)
    drawn = trace(policy, *NOISE, lags, nodes=6, load=0.7, fill=0.7)
    found(drawn, expected)


@pytest.mark.slow
def test_a_request_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PendingRequests.add

    def forgets(self: PendingRequests, waiting: Any, now_ms: int) -> None:
        if waiting.sequence % 7:
            right(self, waiting, now_ms)

    monkeypatch.setattr(PendingRequests, "add", forgets)
    found(trace("tight", *NOISE, fill=0.95), "a request is forgotten")


@pytest.mark.slow
def test_a_command_without_an_outcome_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that carries commands out and reports none of them, until long after."""
    monkeypatch.setattr("tests.faults.invariants.Invariants._check_room", lambda self: None)
    right = EvictionCommand.__init__

    def endless(self: EvictionCommand, **fields: Any) -> None:
        right(self, **{**fields, "expires_at_ms": fields["decided_at_ms"] + 86_400_000})

    monkeypatch.setattr(EvictionCommand, "__init__", endless)
    monkeypatch.setattr("tests.faults.sinks.Sinks._report", lambda self, outcome, now_ms: None)
    assert kind(trace("moves", nodes=6)) in (
        "a command has neither an outcome nor expired",
        "a migration does not end",
    )


@pytest.mark.slow
def test_outputs_that_come_before_the_journal_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches whose outputs are published before they are in the journal, and the worker stops."""
    right = ClusterWorker.write

    def outputs_first(self: ClusterWorker, batch: Any, result: Any, now_ms: int) -> None:
        if self._stop is not None and result.outputs:
            self.publish(result.outputs, now_ms)
            self.stops("written")
        right(self, batch, result, now_ms)

    monkeypatch.setattr(ClusterWorker, "write", outputs_first)
    stops = [
        Fault(at + which, "cluster worker stops", at, 10, which=which, name="written")
        for at in range(200, 600, 50)
        for which in (0, 1)
    ]
    drawn = trace("moves", *stops, length_s=700)
    assert kind(drawn) == "two decisions or commands have one id"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ("journal", "the journal cannot be"),
        ("state", "state is not the fold of the journal"),
        ("samples", "metrics are not those of the fold"),
    ],
)
def test_what_a_worker_loses_is_found(
    monkeypatch: pytest.MonkeyPatch, lost: str, expected: str
) -> None:
    _LOSSES[lost](monkeypatch)
    stops = [
        Fault(at + which, f"{name} worker stops", at, 0, which=which, name="published")
        for at in range(300, 1100, 100)
        for which in (0, 1)
        for name in ("cluster", "aggregate")
    ]
    assert expected in kind(trace("moves", *stops))


def _lose_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth record that a worker's life would have is not there."""
    right = ClusterWorker.write

    def loses(self: ClusterWorker, batch: Any, result: Any, now_ms: int) -> None:
        right(self, batch, result, now_ms)
        if len(self.journal) == 40:
            self.journal.pop()

    monkeypatch.setattr(ClusterWorker, "write", loses)


def _lose_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that starts again does not know how many requests there were."""
    right = ClusterStage.restored

    def loses(*given: Any) -> ClusterStage:
        stage = right(*given)
        for state in stage.clusters.values():
            state.placement.pending.sequence = 0
        return stage

    monkeypatch.setattr("tests.faults.workers.ClusterStage.restored", loses)


def _lose_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of the aggregate stage writes no row once it has a few."""
    right = AggregateWorker.write

    def loses(self: AggregateWorker, batch: Any, result: Any, now_ms: int) -> None:
        kept = result.rows if len(self.history) < 20 else ()
        right(self, batch, type(result)(result.outputs, kept, result.dead_letters), now_ms)

    monkeypatch.setattr(AggregateWorker, "write", loses)


_LOSSES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "journal": _lose_journal,
    "state": _lose_state,
    "samples": _lose_samples,
}


# --- the command -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_failing_seed_is_printed_as_a_command_and_kept_short(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(NodeResourcesFit, "prepare", lambda self, kind: (("pods", 0),))
    (seed,) = [seed for seed in range(1, 40) if draw(seed).fill > 0.93][:1]
    arguments = ["--seeds", str(seed), "--shrink", "5", "--failures", str(tmp_path)]
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert f"again: make fuzz SEEDS={seed}\n" in printed
    assert "shrunk to second" in printed
    kept = tmp_path / f"faults-{seed}.json"
    assert main(["--file", str(kept)]) == 1
    monkeypatch.undo()
    assert main(["--file", str(kept)]) == 0


def test_seeds_are_one_or_from_to() -> None:
    assert seeds("7") == range(7, 8)
    assert seeds("3-5") == range(3, 6)
