"""The command `loadstream demo`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import make_directory, number
from loadstream.cli.command import command
from simulation.closed_loop.parameters import SCENARIOS

if TYPE_CHECKING:
    from simulation.demo.runner import Done

HOURS_MIN, HOURS_MAX = 1, 72
NODES_MAX = 1000


def _scenario(text: str) -> str:
    if text not in SCENARIOS:
        raise typer.BadParameter(f"found {text!r}; expected one of {', '.join(SCENARIOS)}")
    return text


Scenario = Annotated[
    str,
    typer.Option(
        parser=_scenario, metavar="NAME", help=f"What runs on the nodes: {', '.join(SCENARIOS)}."
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        help="Directory of OpenB and PlanetLab lists, of which the first day is used; none: a built-in model."
    ),
]
Nodes = Annotated[
    int, typer.Option(parser=number("nodes", 3, NODES_MAX), metavar="NODES", help="How many nodes.")
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Draws another load.")]
Hours = Annotated[
    int,
    typer.Option(
        parser=number("hours", HOURS_MIN, HOURS_MAX),
        metavar="HOURS",
        help="How many simulated hours nodes are measured, after two hours of filling.",
    ),
]
Output = Annotated[Path, typer.Option(help="Directory for the decisions and the figures.")]
Plain = Annotated[
    bool, typer.Option("--plain", help="Lines instead of the live view, as without a terminal.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the figures and the digest of all decisions as JSON.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    def demo(
        scenario: Scenario = "mixed",
        trace: Trace = None,
        nodes: Nodes = 40,
        seed: Seed = 1,
        hours: Hours = 12,
        output: Output = Path("demo-output"),
        plain: Plain = False,
        json: Json = False,
    ) -> None:
        """Simulate half a day of a cluster on a broker and a worker of its own; compare schedulers.

        Then the same pods come again under kube-scheduler's scores and under Koordinator's policy,
        for comparison. The result depends on the options alone, how long it takes on the machine.
        Exit code 0: all went as it should; 1: something did not, which is printed; 130: it was
        interrupted.
        """
        from json import dumps as json_text

        from rich.console import Console

        from simulation.closed_loop.traces import model_traces, read_traces
        from simulation.demo.runner import choose_parameters, run
        from simulation.demo.view import Display

        display = Display(Console(stderr=json), plain=plain)
        with _as_exit_codes():
            make_directory(output, "--output")
            traces = model_traces() if trace is None else read_traces(trace)[0]
            for complaint in traces.complaints:
                display.print(f"left out: {complaint}")
            parameters = choose_parameters(scenario, nodes, hours)
            done = run(parameters, seed, traces, output, display, display.print)
            document = {"decisions_sha256": done.digest, **done.comparison.document()}
            if json:
                print_json(document)
            summary = json_text(document, indent=2)
            (output / "summary.json").write_text(f"{summary}\n", encoding="utf-8")
        for line in _lines(done, output):
            display.print(line)
        problems = list(_problems(done))
        for problem in problems:
            echo(f"error: {problem}", err=True)
        raise typer.Exit(1 if problems else 0)

    command(app, "demo --seed 1 --hours 12", kafka=False)(demo)


@contextmanager
def _as_exit_codes() -> Iterator[None]:
    """What may go wrong in a run ends the command with a message, or as interrupted."""
    from connectors.kafka.client import BrokerUnavailable
    from simulation.closed_loop.scenario import ImpossibleScenario
    from simulation.closed_loop.trace_files import TraceError
    from simulation.processes import ProcessDied
    from simulation.worker_stages import WorkerSilent

    try:
        yield
    except (
        BrokerUnavailable, ImpossibleScenario, TraceError, ProcessDied, WorkerSilent, OSError,
    ) as error:  # fmt: skip
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _lines(done: "Done", output: Path) -> Iterator[str]:
    """The lines that the demo prints at its end."""
    from textwrap import wrap

    from simulation.closed_loop.report import WIDTH
    from simulation.demo import evidence
    from simulation.demo.runner import OUTPUT_FILES, read_outputs

    def paragraph(text: str) -> list[str]:
        return ["", *wrap(text, WIDTH, break_on_hyphens=False)]

    yield ""
    yield from evidence.tabulate_schedulers(done.comparison)
    yield from paragraph(evidence.summarize(done.comparison))
    yield ""
    yield from evidence.draw_picture(done.evidence)
    for reason in evidence.explain_move(done.evidence, *read_outputs(output)):
        yield from paragraph(reason)
    yield ""
    yield "What is there to doubt?"
    for doubt in _doubts(done):
        yield from wrap(doubt, WIDTH, initial_indent="- ", subsequent_indent="  ")
    yield ""
    yield f"All figures: {output / 'summary.json'}"
    yield f"Decisions: {', '.join(str(output / name) for name in OUTPUT_FILES.values())}"
    yield f"Policy and log of the worker: {output / 'policy.yaml'}, {output / 'worker' / 'log'}"


def _doubts(done: "Done") -> Iterator[str]:
    """What a sceptic asks, answered."""
    given = done.comparison.parameters
    load = "published traces" if done.comparison.files else "a model of published traces"
    yield (
        f"One cluster, one day? The load is {load}. `loadstream demo --seed 2` or `--scenario web` shows "
        "another. docs/explanation/closed-loop.md has several days and all kinds of load, also those in which "
        "loadstream is no better, and higher loads, at which it gains less."
    )
    yield (
        "Weak rivals? kube-scheduler's scores by requests, and Koordinator by its own defaults with "
        "LowNodeLoad between 45 and 75 %: simulation/demo/policies. `loadstream closed-loop` has more."
    )
    yield (
        f"Why do pods wait? In the demo loadstream and Koordinator decide once in {given.turn_s // 60} "
        "simulated minutes, kube-scheduler each minute; a real worker decides within a second."
    )
    yield (
        "Staged? All decisions came from a worker through topics, and depend on the options alone: the "
        f"same options give the same digest, {done.digest[:16]}."
    )


def _problems(done: "Done") -> Iterator[str]:
    """What should not have happened, in sentences; none after a good run."""
    ours = done.comparison.runs[0].result
    if not ours.figures["placed_pods"]:
        yield "no pod was placed"
    if failed := ours.counts.get("bind_failed", 0):
        yield f"{failed} placements could not be carried out"
    if done.refused:
        yield f"{ours.counts['dead_letters']} records were refused; the first one: {done.refused[0]}"
