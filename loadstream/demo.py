"""The command `loadstream demo`: half a simulated day on a real worker, compared with other schedulers.

Exit codes: 0 the run has no problem; 1 there are problems, which are printed; 2 the command line is
wrong; 130 Ctrl-C or SIGTERM.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json, make_directory
from loadstream.cli.command import as_messages, command
from simulation.named_scenarios import SCENARIOS

if TYPE_CHECKING:
    from simulation.demo.runner import DemoResult


def _check_scenario(text: str) -> str:
    if text not in SCENARIOS:
        raise typer.BadParameter(f"found {text!r}; expected one of {', '.join(SCENARIOS)}")
    return text


Scenario = Annotated[
    str,
    typer.Option(
        parser=_check_scenario, metavar="NAME", help=f"Kind of load: {', '.join(SCENARIOS)}."
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        help="Directory with OpenB and PlanetLab traces; their first day is used. Default: a built-in model."
    ),
]
Nodes = Annotated[
    int,
    typer.Option(min=3, max=1000, help="Number of nodes."),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the load.")]
Hours = Annotated[
    int,
    typer.Option(
        min=1,
        max=72,
        help="Measured simulated hours, after two hours in which the cluster fills.",
    ),
]
Output = Annotated[Path, typer.Option(help="Directory for the decisions and the figures.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print lines instead of the live view.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "demo --seed 1 --hours 12", kafka=False)(demo)


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
    """Simulate half a day of a cluster on a local broker and worker, and compare schedulers.

    The same pods are then placed by kube-scheduler's scores and by Koordinator's policy. The result
    depends only on the options. Exit code 1: the run has problems, which are printed.
    """
    from json import dumps as json_text

    from rich.console import Console

    from simulation.closed_loop.scenario import ImpossibleScenario
    from simulation.closed_loop.trace_files import TraceError
    from simulation.closed_loop.traces import model_traces, read_traces
    from simulation.demo.runner import choose_parameters, run
    from simulation.demo.view import Display
    from simulation.processes import ProcessDied
    from simulation.worker_stages import WorkerSilent

    display = Display(Console(stderr=json), plain=plain)
    expected = (ImpossibleScenario, TraceError, ProcessDied, WorkerSilent, OSError)
    with as_messages(*expected):
        make_directory(output, "--output")
        traces = model_traces() if trace is None else read_traces(trace)[0]
        parameters = choose_parameters(scenario, nodes, hours)
        result = run(parameters, seed, traces, output, display)
        document = {"decisions_sha256": result.digest, **result.comparison.document()}
        if json:
            print_json(document)
        summary = json_text(document, indent=2)
        (output / "summary.json").write_text(f"{summary}\n", encoding="utf-8")
    for line in _summarize(result, output):
        display.print(line)
    problems = list(_find_problems(result))
    for problem in problems:
        echo(f"error: {problem}", err=True)
    raise typer.Exit(1 if problems else 0)


def _summarize(result: "DemoResult", output: Path) -> Iterator[str]:
    from textwrap import wrap

    from simulation.closed_loop.report import WIDTH
    from simulation.demo import evidence
    from simulation.demo.runner import OUTPUT_FILES, read_outputs

    def paragraph(text: str) -> list[str]:
        return ["", *wrap(text, WIDTH, break_on_hyphens=False)]

    yield ""
    yield from evidence.tabulate_schedulers(result.comparison)
    yield from paragraph(evidence.summarize(result.comparison))
    yield ""
    yield from evidence.draw_picture(result.evidence)
    for reason in evidence.explain_move(result.evidence, *read_outputs(output)):
        yield from paragraph(reason)
    yield ""
    yield "Limits of this comparison:"
    for limit in _list_limits(result):
        yield from wrap(limit, WIDTH, initial_indent="- ", subsequent_indent="  ")
    yield ""
    yield f"All figures: {output / 'summary.json'}"
    yield f"Decisions: {', '.join(str(output / name) for name in OUTPUT_FILES.values())}"
    yield f"Policy and log of the worker: {output / 'policy.yaml'}, {output / 'worker' / 'log'}"


def _list_limits(result: "DemoResult") -> Iterator[str]:
    parameters = result.comparison.parameters
    load = "published traces" if result.comparison.files else "a model of published traces"
    yield (
        f"It is one cluster on one day, with the load of {load}. docs/explanation/closed-loop.md compares several "
        "days and all kinds of load, including loads at which loadstream gains little or nothing."
    )
    yield (
        "Pods wait longer than in a real cluster: loadstream and Koordinator decide every "
        f"{parameters.turn_s // 60} simulated minutes here; a real worker decides within a second."
    )
    yield (
        "The decisions depend only on the options: the same options give the same digest, "
        f"{result.digest[:16]}."
    )


def _find_problems(result: "DemoResult") -> Iterator[str]:
    """Yield a sentence for each problem of the run."""
    ours = result.comparison.runs[0].result
    if not ours.figures["placed_pods"]:
        yield "no pod was placed"
    if failed := ours.counts.get("bind_failed", 0):
        yield f"{failed} placements could not be carried out"
    if result.refused:
        yield f"{ours.counts['dead_letters']} records were refused; the first one: {result.refused[0]}"
