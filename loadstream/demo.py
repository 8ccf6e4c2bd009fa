"""The command `loadstream demo`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.arguments import make_directory, number
from loadstream.command import command
from schemas.base.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

    from simulation.demo.runner import Run
    from simulation.demo.scenario import Scenario
    from simulation.demo.session import Session

HOURS_MIN, HOURS_MAX = 1, 72
NODES_MAX = 1000


Trace = Annotated[
    Path | None,
    typer.Option(help="Replay the traces of this directory instead of the seeded model."),
]
Nodes = Annotated[
    int,
    typer.Option(parser=number("nodes", 3, NODES_MAX), metavar="NODES", help="How many nodes."),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Draws another load.")]
Hours = Annotated[
    int,
    typer.Option(
        parser=number("hours", HOURS_MIN, HOURS_MAX),
        metavar="HOURS",
        help="How many simulated hours the run lasts.",
    ),
]
Output = Annotated[
    Path, typer.Option(help="Directory for the picture, the decisions and the figures.")
]
Plain = Annotated[
    bool,
    typer.Option("--plain", help="Lines instead of the live view, as without a terminal."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the figures and the digest of all decisions as JSON.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    def demo(
        trace: Trace = None,
        nodes: Nodes = 40,
        seed: Seed = 1,
        hours: Hours = 24,
        output: Output = Path("demo-output"),
        plain: Plain = False,
        json: Json = False,
    ) -> None:
        """Keep the load of a whole cluster even, on a broker and a worker of its own.

        First pods are placed by real load; then nodes that stay hot are relieved, too. The result
        depends on the options alone, how long it takes on the machine. Exit code 0: all went as it
        should; 1: something did not, which is printed; 130: it was interrupted.
        """
        from rich.console import Console

        console = Console(stderr=json)
        with _as_exit_codes():
            make_directory(output, "--output")
            scenario = _scenario(trace, nodes, seed, hours)
            for line in (*scenario.complaints, *scenario.notes):
                console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(_run(console, scenario, output, plain, trace is not None, json))

    command(app, "demo --seed 1 --hours 24", kafka=False)(demo)


@contextmanager
def _as_exit_codes() -> Iterator[None]:
    """What may go wrong in a run ends the command with a message, or as interrupted."""
    from connectors.kafka.client import BrokerUnavailable
    from simulation.cluster.tracefiles import TraceError
    from simulation.demo.runner import WorkerSilent
    from simulation.demo.worker import WorkerDied

    try:
        yield
    except (BrokerUnavailable, TraceError, WorkerDied, WorkerSilent, OSError) as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _scenario(trace: Path | None, nodes: int, seed: int, hours: int) -> "Scenario":
    from simulation.demo.scenario import simulated_scenario, trace_scenario

    if trace is not None:
        return trace_scenario(trace, nodes, seed, hours)
    return simulated_scenario(nodes, seed, hours)


def _run(
    console: "Console", scenario: "Scenario", output: Path, plain: bool, traced: bool, json: bool
) -> int:
    from simulation.demo.display import Display, LiveDisplay, PlainDisplay
    from simulation.demo.runner import run

    display: Display = (
        PlainDisplay(console) if plain or not console.is_terminal else LiveDisplay(console)
    )
    done = run(scenario, output, display)
    problems = _report(console, done, output, traced, json)
    for problem in problems:
        echo(f"error: {problem}", err=True)
    return 130 if done.interrupted else 1 if problems else 0


def _report(console: "Console", done: "Run", output: Path, traced: bool, json: bool) -> list[str]:
    """Print the summary, write the files; returns what was not as it should be."""
    from dataclasses import asdict

    from simulation.demo.picture import can_draw, draw
    from simulation.demo.rebalance_summary import usage_staying
    from simulation.demo.report import print_next, print_report, write_figures
    from simulation.demo.summary import figures_of, problems_of, thresholds, usage_by_requests

    session = done.session
    if done.interrupted and not session.observed.metrics:
        console.print("Interrupted before the worker answered; there is nothing to report.")
        return []
    compared = usage_by_requests(session)
    staying = usage_staying(session)
    koordinator = None if done.interrupted else _under_koordinator(console, session)
    figures = figures_of(session, compared, staying, done.real_s, koordinator)
    print_report(console, figures, thresholds(session))
    if not session.over:
        console.print("It was interrupted before the end of the scenario.", highlight=False)
    pictures = []
    if not can_draw():
        echo("no picture: matplotlib is missing; install loadstream[simulation]", err=True)
    elif session.samples:
        pictures = [output / "usage.png", output / "usage.svg"]
        draw(session, compared, staying, pictures)
    write_figures(figures, output / "summary.json")
    files = (
        "decisions.jsonl", "evictions.jsonl", "rounds.jsonl", "summary.json", "policy.yaml",
        "worker.log",
    )  # fmt: skip
    if json:
        print_json({"decisions_sha256": done.digest, **asdict(figures)})
    print_next(console, output, [*pictures, *(output / name for name in files)], traced=traced)
    return [] if done.interrupted else problems_of(session, figures)


def _under_koordinator(console: "Console", session: "Session") -> "Session":
    """The same run under Koordinator's policy."""
    from simulation.demo.alternative import koordinator_policy, run_under

    console.print("The same again under Koordinator's policy, for comparison ...", highlight=False)
    return run_under(koordinator_policy(session.relief.hot_above), session.scenario)
