"""The command `loadstream closed-loop`: compares policies and schedulers on whole simulated days.

Exit codes: 0 all runs are complete; 1 the process of a run was killed; 2 the command line or a trace is
wrong; 130 Ctrl-C.
"""

import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json, describe_error, make_directory
from loadstream.cli.command import as_messages, command
from simulation.named_scenarios import SCENARIOS

if TYPE_CHECKING:
    from simulation.closed_loop.comparison import Comparison
    from simulation.closed_loop.parameters import Parameters
    from simulation.closed_loop.traces import Traces

#: Most seeds of one command.
SEEDS_MAX = 1_000
DEFAULT_CONTENDERS = "loadstream,least-allocated,koordinator-lownodeload-75"
#: Parameters that have an option of their own, so `--set` refuses them.
_OPTIONS = ("scenario", "nodes", "hours", "load")


_Scenario = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"Kind of load: {', '.join(SCENARIOS)}. Several separated by commas, or all.",
    ),
]
_Nodes = Annotated[int, typer.Option(help="Number of nodes.")]
_Hours = Annotated[
    float, typer.Option(help="Measured hours, after two hours in which the cluster fills.")
]
_Load = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="Mean CPU demand in percent of the nodes' CPU. Several separated by commas, such as 40,55. "
        "Default: those of the scenario.",
    ),
]
_Seeds = Annotated[
    str,
    typer.Option(help="Number of seeds per day of the traces, such as 5, or a range, such as 3-7."),
]
_Trace = Annotated[
    Path | None,
    typer.Option(
        help="Directory with OpenB and PlanetLab traces. Default: a built-in model of one day."
    ),
]
_Days = Annotated[
    str,
    typer.Option(
        help="Days of the traces, separated by commas, such as 20110303,20110306, or all."
    ),
]
_Policies = Annotated[
    list[Path] | None, typer.Option(help="File of a policy to compare; can be repeated.")
]
_Contenders = Annotated[str, typer.Option(help="Built-in contenders, separated by commas, or all.")]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Value of a further parameter, as NAME=VALUE; can be repeated."),
]
_Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000,
        help="Number of concurrent runs; each takes one core. Default: the number of cores.",
    ),
]
_Report = Annotated[
    Path | None,
    typer.Option(
        help="Write a report to this Markdown file (suffix .md), and its chart to the same directory."
    ),
]
_Keep = Annotated[
    Path | None,
    typer.Option(
        help="Directory of finished runs. Runs that it contains are not repeated; new runs are added."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "closed-loop --load 40,55 --seeds 3", kafka=False)(closed_loop)


def closed_loop(
    scenario: _Scenario = "mixed",
    nodes: _Nodes = 100,
    hours: _Hours = 24.0,
    load: _Load = None,
    seeds: _Seeds = "1",
    trace: _Trace = None,
    days: _Days = "all",
    policy: _Policies = None,
    contenders: _Contenders = DEFAULT_CONTENDERS,
    setting: _Settings = None,
    jobs: _Jobs = None,
    json: Json = False,
    report: _Report = None,
    keep: _Keep = None,
) -> None:
    """Compare policies and the rules of other schedulers on simulated days of a cluster.

    No broker is needed. All contenders get the same pods with the same arrival times and CPU demand.
    Prints how hot nodes were, how long pods waited, how many were evicted and the CPU time of the
    runs: medians and ranges over days and seeds.
    """
    from importlib.metadata import version

    from simulation.closed_loop.comparison import compare
    from simulation.closed_loop.contenders import (
        InvalidContender,
        list_contenders,
        make_factories,
    )
    from simulation.closed_loop.finished_runs import FinishedRuns, UnreadableRun
    from simulation.closed_loop.runs import RunDied, create_runs
    from simulation.closed_loop.scenario import ImpossibleScenario
    from simulation.closed_loop.trace_files import TraceError
    from simulation.closed_loop.traces import model_traces, read_traces

    if report is not None:
        _check_report(report)
    if keep is not None:
        make_directory(keep, "--keep")
    parameters = _list_parameters(scenario, nodes, hours, load, setting or [])
    seed_numbers = _parse_seeds(seeds)
    names = list_contenders() if contenders == "all" else list(filter(None, contenders.split(",")))
    system = any(run_parameters.system_share for run_parameters in parameters)
    wrong_inputs = (
        InvalidContender, UnreadableRun, TraceError, ImpossibleScenario, OSError,
    )  # fmt: skip
    with as_messages(RunDied), as_messages(*wrong_inputs, code=2):
        factories = make_factories(names, policy or [])
        all_traces = [model_traces()] if trace is None else read_traces(trace, system=system)
        traces = _choose_days(all_traces, days)
        for factory in factories.values():
            if factory.warning:
                _print_message(factory.warning)
        definitions = {name: factory.definition for name, factory in factories.items()}
        finished = FinishedRuns(keep, traces, definitions, version("loadstream")) if keep else None
        run_count = len(parameters) * len(traces) * len(seed_numbers) * len(factories)
        processes = min(jobs or os.cpu_count() or 1, run_count)
        runs = create_runs(processes, names, policy or [], traces, _print_message)
        day_names = [day.day for day in traces]
        files = tuple(dict.fromkeys(file for day in traces for file in day.files))
        comparisons = compare(
            parameters, day_names, seed_numbers, list(factories), files, runs, finished
        )
    if report is not None:
        _write_report(report, comparisons)
    if json:
        print_json({"comparisons": [comparison.document() for comparison in comparisons]})
    else:
        _print_tables(comparisons)


def _list_parameters(
    scenarios: str, nodes: int, hours: float, loads: str | None, settings: list[str]
) -> "list[Parameters]":
    """Return the parameters of each scenario and load."""
    from pydantic import TypeAdapter, ValidationError

    from simulation.closed_loop.parameters import Parameters

    changed = _parse_settings(settings)
    adapter, all_parameters = TypeAdapter(Parameters), []
    for name in _parse_names(scenarios, SCENARIOS, "--scenario"):
        default_loads, values = SCENARIOS[name]
        for percent in _parse_loads(loads) if loads is not None else default_loads:
            fixed = {"scenario": name, "nodes": nodes, "hours": hours, "load": percent / 100}
            try:
                all_parameters.append(adapter.validate_python({**values, **fixed, **changed}))
            except ValidationError as error:
                raise typer.BadParameter(describe_error(error, adapter)) from None
    return all_parameters


def _choose_days(traces: "list[Traces]", text: str) -> "list[Traces]":
    traces_of_day = {trace_day.day: trace_day for trace_day in traces}
    return [traces_of_day[day] for day in _parse_names(text, traces_of_day, "--days")]


def _parse_names(text: str, allowed: Collection[str], option: str) -> list[str]:
    names = list(allowed) if text == "all" else text.split(",")
    if not set(names) <= set(allowed) or len(set(names)) < len(names):
        raise typer.BadParameter(
            f"found {text!r}; expected one or more of {', '.join(allowed)}, separated by commas, or all",
            param_hint=option,
        )
    return names


def _print_message(line: str) -> None:
    echo(line, err=True)


def _check_report(path: Path) -> None:
    """Refuse a report that could not be written after the runs."""
    chart = path.with_suffix(".svg")
    if path.suffix != ".md" or not (_is_writable(path) and _is_writable(chart)):
        raise typer.BadParameter(
            f"found {str(path)!r}; expected a file with suffix .md in an existing directory, which can "
            f"be written, like {chart.name} in the same directory",
            param_hint="--report",
        )


def _is_writable(file: Path) -> bool:
    if file.exists():
        return file.is_file() and os.access(file, os.W_OK)
    return file.parent.is_dir() and os.access(file.parent, os.W_OK)


def _write_report(path: Path, comparisons: "list[Comparison]") -> None:
    from simulation.closed_loop.report import draw_chart, format_markdown

    chart = path.with_suffix(".svg")
    chart.write_text(draw_chart(comparisons), encoding="utf-8")
    path.write_text(format_markdown(comparisons, chart.name, sys.argv[1:]), encoding="utf-8")


def _print_tables(comparisons: "list[Comparison]") -> None:
    from textwrap import fill

    from simulation.closed_loop.report import LEGEND, WIDTH, format_lines

    for comparison in comparisons:
        for line in format_lines(comparison):
            echo(line)
        echo("")
    echo(fill(LEGEND, WIDTH, break_on_hyphens=False))


def _parse_loads(text: str) -> list[float]:
    """Return loads in percent."""
    try:
        loads = [float(number) for number in text.split(",")]
    except ValueError:
        loads = []
    if not loads or not all(1 <= load <= 90 for load in loads) or len(set(loads)) < len(loads):
        raise typer.BadParameter(
            f"found {text!r}; expected percent from 1 to 90, such as 40, or several, such as 40,55",
            param_hint="--load",
        )
    return loads


def _parse_seeds(text: str) -> list[int]:
    """Return the seeds of a range such as "3-7", or of a number such as "5": 0 to 4."""
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    if match:
        first, last = (0, int(text) - 1) if match[2] is None else (int(match[1]), int(match[2]))
        if 0 <= last - first < SEEDS_MAX:
            return list(range(first, last + 1))
    raise typer.BadParameter(
        f"found {text!r}; expected a number of seeds, such as 5, or a range, such as 3-7; at most "
        f"{SEEDS_MAX} seeds",
        param_hint="--seeds",
    )


def _parse_settings(settings: list[str]) -> dict[str, Any]:
    """Return the values of `--set` by parameter, as text or as a list of texts."""
    from dataclasses import fields

    from simulation.closed_loop.parameters import Parameters

    settable = [field.name for field in fields(Parameters) if field.name not in _OPTIONS]
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in settable:
            raise typer.BadParameter(
                f"found {name!r}; expected one of {', '.join(settable)}", param_hint="--set"
            )
        values[name] = text.split(",") if "," in text else text
    return values
