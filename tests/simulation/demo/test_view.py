"""The live view, the lines and the report: everything fits, and says what it should."""

import io
from typing import Literal

import pytest
from rich.console import Console

from schemas.messages.decisions import NodeScore, ReasonCount
from simulation.demo.display import PlainDisplay, line_of
from simulation.demo.rebalance_summary import usage_staying
from simulation.demo.report import print_report
from simulation.demo.scenario import simulated_scenario
from simulation.demo.session import Session
from simulation.demo.status import Status
from simulation.demo.summary import figures_of, thresholds, usage_by_requests
from simulation.demo.view import render, usage_bar
from simulation.demo.wording import clock_text, decision_text
from tests.simulation.demo.inmemory import InMemoryWorker
from tests.simulation.demo.test_observed import decision


def _status(phase: Literal["starting", "running"] = "running") -> Status:
    return Status(phase, 10.0, "in a second terminal: ...")


def _drawn(
    session: Session, width: int, height: int, phase: Literal["starting", "running"] = "running"
) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    console.print(render(session, _status(phase), width, height))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().rstrip("\n").split("\n")


@pytest.fixture(scope="module", params=[3, 41, 150])
def begun(request: pytest.FixtureRequest) -> Session:
    """A run of `nodes` nodes after 40 minutes."""
    worker = InMemoryWorker(simulated_scenario(request.param, 1, 4))
    return worker.run(worker.session.scenario.begin_ms + 2_400_000)


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (100, 30), (130, 44), (200, 60), (240, 30)])
def test_the_view_fits_into_the_terminal(size: tuple[int, int], begun: Session) -> None:
    lines = _drawn(begun, *size)
    assert len(lines) <= size[1]
    assert max(len(line) for line in lines) <= size[0]


def test_the_view_tells_nodes_decisions_and_counts(finished: Session) -> None:
    text = "\n".join(_drawn(finished, 130, 44))
    for machine in finished.scenario.machines:
        assert machine.name in text
    assert f"{finished.requests} requests" in text
    assert f"{len(finished.placed_at_ms)} placed" in text
    assert "day 1, 04:00" in text
    assert f"{len(finished.relief.hot)} hot" in text
    newest = finished.observed.latest[-1]
    assert newest.pod.name in text


def test_before_the_first_answer_the_view_says_that_the_worker_is_starting() -> None:
    scenario = simulated_scenario(3, 1, 4)
    session = Session(scenario, lambda topic, message: None, 0)
    text = "\n".join(_drawn(session, 100, 30, "starting"))
    assert "the worker is starting" in text
    assert line_of(session, _status("starting")) == "the worker is starting ..."


def test_a_bar_has_its_length_whatever_it_shows() -> None:
    for share in (None, 0.0, 0.004, 0.5, 1.0):
        for p95 in (None, 0.0, 0.5, 1.0):
            bar = usage_bar(share, p95, "green").plain
            assert len(bar) == 16
            assert bar.count("┃") == (p95 is not None)
    assert usage_bar(0.5, 0.75, "green").plain == "████████····┃···"


def test_a_line_tells_where_the_run_stands(finished: Session) -> None:
    line = line_of(finished, _status())
    assert line.startswith("day 1, 04:00: ")
    assert f"{finished.requests} requests, {len(finished.placed_at_ms)} placed" in line
    assert line.endswith(f"{finished.samples / 10:.0f} samples/s")


def test_lines_come_seldom_and_without_colours(finished: Session) -> None:
    out = io.StringIO()
    display = PlainDisplay(Console(file=out, width=80))
    with display:
        for _ in range(50):
            display.show(finished, _status())
    assert out.getvalue().count("\n") == 1
    assert "\x1b" not in out.getvalue()


def test_the_report_tells_every_figure(finished: Session) -> None:
    grids = usage_by_requests(finished), usage_staying(finished)
    figures = figures_of(finished, *grids, 10.0, koordinator=finished)
    out = io.StringIO()
    print_report(Console(file=out, width=120), figures, thresholds(finished))
    text = out.getvalue()
    for word in ("simulated time", "placed", "waiting at the end", "refused for good",
                 "dead letters", "cpu: time above 65%", "by requests alone"):  # fmt: skip
        assert word in text
    assert f"{figures.cpu.deviation * 100:.1f} %" in text
    assert "Koordinator, LowNodeLoad 45/70" in text
    assert f"{figures.ways[1].hot_minutes:.0f}" in text
    # A threshold of 95 % is also the limit of shortage: it is named once.
    assert text.count("memory: time above 95%") == 1


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            decision(
                winner=NodeScore(node="n1", total=87),
                runners_up=(NodeScore(node="n2", total=80),),
                nodes=40,
                refused_by={"NodeResourcesFit": 3, "LoadAwareScheduling": 2},
            ),
            "a → n1, score 87 before n2; 5 of 40 nodes refused",
        ),
        (decision(), "a → n1"),
        (
            decision(
                "waiting", reasons=(ReasonCount(reason="node(s) nodeMetric expired", nodes=2),)
            ),
            "a waits: 2 nodeMetric expired",
        ),
        (decision("waiting", message="paused"), "a waits: paused"),
        (decision("refused", message="needs x"), "a is refused: needs x"),
        (decision("expired", node="n3"), "a: the reservation on n3 ran out"),
        (decision("withdrawn", message="gone"), "a is withdrawn: gone"),
    ],
)
def test_decisions_are_put_in_words(made: object, text: str) -> None:
    assert decision_text(made) == text  # type: ignore[arg-type]


def test_pods_that_wait_for_the_same_reasons_are_told_on_one_line() -> None:
    scenario = simulated_scenario(3, 1, 4)
    session = Session(scenario, lambda topic, message: None, 0)
    reasons = (ReasonCount(reason="Insufficient cpu", nodes=3),)
    for uid in "abc":
        session.observed.decision(decision("waiting", uid=uid, reasons=reasons))
    session.observed.decision(decision("refused", uid="d", message="needs x"))
    text = "\n".join(_drawn(session, 100, 30))
    assert "c and 2 more wait: 3 Insufficient cpu" in text
    assert "b waits" not in text
    assert "d is refused: needs x" in text


def test_days_are_counted_from_one() -> None:
    begin_ms = 1_772_409_600_000
    assert clock_text(begin_ms, begin_ms) == "day 1, 00:00"
    assert clock_text(begin_ms + 86_400_000 + 3_660_000, begin_ms) == "day 2, 01:01"
