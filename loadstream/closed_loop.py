"""The command `loadstream closed-loop`: whole days of a cluster, decided by each contender.

Exit codes: 0 the runs have come to their end; 1 the process of a run was ended from outside; 2 the
command line or a trace is wrong.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import number
from loadstream.cli.command import command
from simulation.closed_loop.parameters import BOUNDS, SCENARIOS, Parameters

if TYPE_CHECKING:
    from simulation.closed_loop.comparison import Comparison
    from simulation.closed_loop.traces import Traces

#: Most seeds of one call.
SEEDS_MAX = 1_000
#: Who is compared unless it is said.
DEFAULT_CONTENDERS = "loadstream,least-allocated,koordinator-lownodeload-75"
#: Parameters that `--set` leaves to their options.
_OPTIONS = {
    "scenario": "--scenario",
    "nodes": "--nodes",
    "hours": "--hours",
    "load": "--load",
    "sample_s": "--interval",
}


_Scenario = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"What runs on the nodes: {', '.join(SCENARIOS)}; several with commas, or all.",
    ),
]
_Nodes = Annotated[
    int,
    typer.Option(parser=number("nodes", *BOUNDS["nodes"]), metavar="NODES", help="How many nodes."),
]
_Hours = Annotated[
    float,
    typer.Option(
        parser=number("hours", *BOUNDS["hours"], whole=False),
        metavar="HOURS",
        help="How long nodes are measured, after two hours of filling.",
    ),
]
_Load = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="Mean demand for CPU, in percent of the nodes; several with commas, such as 40,55; "
        "default: the scenario's.",
    ),
]
_Seeds = Annotated[
    str, typer.Option(help="How many seeds of each day of the traces, or which: 5, or 3-7.")
]
_Trace = Annotated[
    Path | None,
    typer.Option(help="Directory of OpenB and PlanetLab lists; none: a built-in model of a day."),
]
_Days = Annotated[
    str,
    typer.Option(
        help="Days of the traces, with commas, such as 20110303,20110306; all: all of them."
    ),
]
_Interval = Annotated[
    int,
    typer.Option(
        parser=number("seconds", 10, 600), metavar="SECONDS", help="Time between samples of a node."
    ),
]
_Policies = Annotated[
    list[Path] | None, typer.Option(help="A policy of your own; may be repeated.")
]
_Contenders = Annotated[
    str, typer.Option(help="Built-in contenders, with commas; all: all of them.")
]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any further parameter, as NAME=VALUE; may be repeated."),
]
_Jobs = Annotated[
    int | None,
    typer.Option(
        parser=number("jobs", 1, 1_000),
        metavar="JOBS",
        help="How many runs go side by side, each on a core; default: one per core.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]
_Report = Annotated[
    Path | None,
    typer.Option(help="Write a page of Markdown there, with suffix .md, and its chart beside it."),
]
_Keep = Annotated[
    Path | None,
    typer.Option(
        help="Directory of finished runs: runs in it are not run again, others are added."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    def closed_loop(
        scenario: _Scenario = "mixed",
        nodes: _Nodes = 100,
        hours: _Hours = 24.0,
        load: _Load = None,
        seeds: _Seeds = "1",
        trace: _Trace = None,
        days: _Days = "all",
        interval: _Interval = 60,
        policy: _Policies = None,
        contenders: _Contenders = DEFAULT_CONTENDERS,
        setting: _Settings = None,
        jobs: _Jobs = None,
        json: _Json = False,
        report: _Report = None,
        keep: _Keep = None,
    ) -> None:
        """Compare policies and other schedulers' rules: days of a cluster from seeds, no broker.

        All meet the same pods, which ask at the same times and want the same CPU. Prints how hot
        nodes were, how long pods waited, what was evicted and what the runs cost: medians and ranges
        over days and seeds.
        """
        if report is not None:
            _check_report(report)
        given = []
        for name in _scenarios(scenario):
            usual_loads, differing = SCENARIOS[name]
            for percent in _loads(load) if load is not None else usual_loads:
                usual = Parameters(
                    scenario=name,
                    nodes=nodes,
                    hours=hours,
                    load=percent / 100,
                    sample_s=interval,
                    **differing,
                )
                given.append(_with_settings(usual, setting or []))
        for each in given:
            wrong = each.find_problem()
            if wrong is not None:
                raise typer.BadParameter(_by_options(wrong))
        compared = _compare(given, _seeds(seeds), trace, days, contenders, policy or [], keep, jobs)
        if report is not None:
            _write_report(report, compared)
        if json:
            print_json({"comparisons": [each.document() for each in compared]})
            return
        _print_tables(compared)

    command(app, "closed-loop --load 40,55 --seeds 3", kafka=False)(closed_loop)


def _compare(
    parameters: list[Parameters],
    seeds: list[int],
    trace: Path | None,
    days: str,
    names: str,
    files: list[Path],
    keep: Path | None,
    jobs: int | None,
) -> "list[Comparison]":
    from importlib.metadata import version

    from simulation.closed_loop.comparison import compare
    from simulation.closed_loop.contenders import contenders, known_contenders
    from simulation.closed_loop.finished_runs import FinishedRuns
    from simulation.closed_loop.runs import create_runs
    from simulation.closed_loop.traces import model_traces, read_traces

    chosen = known_contenders() if names == "all" else [each for each in names.split(",") if each]
    with _as_messages():
        make = contenders(chosen, files)
        known = (
            [model_traces()]
            if trace is None
            else read_traces(trace, system=any(each.system_share for each in parameters))
        )
        traces = _choose_days(known, days)
        for complaint in dict.fromkeys(each for day in traces for each in day.complaints):
            _say(f"left out: {complaint}")
        for each in make.values():
            if each.remark:
                _say(each.remark)
        definitions = {name: each.definition for name, each in make.items()}
        kept = FinishedRuns(keep, traces, definitions, version("loadstream")) if keep else None
        runs_in_all = len(parameters) * len(traces) * len(seeds) * len(make)
        several = create_runs(min(jobs or os.cpu_count() or 1, runs_in_all), chosen, files, traces, _say)
        names_of_days = [each.day for each in traces]
        used = tuple(dict.fromkeys(file for each in traces for file in each.files))
        return compare(parameters, names_of_days, seeds, list(make), used, several, kept)


def _choose_days(known: "list[Traces]", names: str) -> "list[Traces]":
    of = {each.day: each for each in known}
    chosen = list(of) if names == "all" else names.split(",")
    if not set(chosen) <= of.keys() or len(set(chosen)) < len(chosen):
        raise typer.BadParameter(
            f"found {names!r}; expected one or more of {', '.join(of)}, with commas, or all",
            param_hint="--days",
        )
    return [of[day] for day in chosen]


@contextmanager
def _as_messages() -> Iterator[None]:
    """End with a sentence: 2 if something that was given is wrong, 1 if a run has died."""
    from simulation.closed_loop.contenders import UnknownContender, WrongPolicy
    from simulation.closed_loop.finished_runs import UnreadableRun
    from simulation.closed_loop.runs import RunDied
    from simulation.closed_loop.scenario import ImpossibleScenario
    from simulation.closed_loop.trace_files import TraceError

    try:
        yield
    except RunDied as error:
        _say(f"loadstream closed-loop: {error}")
        raise typer.Exit(1) from None
    except (
        UnknownContender, UnreadableRun, TraceError, WrongPolicy, ImpossibleScenario, OSError,
    ) as error:  # fmt: skip
        _say(f"loadstream closed-loop: {error}")
        raise typer.Exit(2) from None


def _say(line: str) -> None:
    echo(line, err=True)


def _check_report(path: Path) -> None:
    """A report that cannot be written must not be found out after the runs."""
    chart = path.with_suffix(".svg")
    if path.suffix != ".md" or not (_writable(path) and _writable(chart)):
        raise typer.BadParameter(
            f"found {str(path)!r}; expected a file with suffix .md that can be written, in a directory that "
            f"exists, and beside it {chart.name} as well",
            param_hint="--report",
        )


def _writable(file: Path) -> bool:
    if file.exists():
        return file.is_file() and os.access(file, os.W_OK)
    return file.parent.is_dir() and os.access(file.parent, os.W_OK)


def _write_report(path: Path, compared: "list[Comparison]") -> None:
    from simulation.closed_loop.report import draw_bars, format_markdown

    chart = path.with_suffix(".svg")
    chart.write_text(draw_bars(compared), encoding="utf-8")
    path.write_text(format_markdown(compared, chart.name, sys.argv[1:]), encoding="utf-8")


def _print_tables(compared: "list[Comparison]") -> None:
    from simulation.closed_loop.report import LEGEND, format_lines

    for each in compared:
        for line in format_lines(each):
            echo(line)
        echo("")
    echo(LEGEND)


def _by_options(wrong: str) -> str:
    """What is wrong with parameters, those with an option of their own by its name."""
    name, colon, why = wrong.partition(":")
    return f"{_OPTIONS.get(name, name)}{colon}{why}"


def _scenarios(text: str) -> list[str]:
    names = list(SCENARIOS) if text == "all" else text.split(",")
    if not set(names) <= SCENARIOS.keys() or len(set(names)) < len(names):
        raise typer.BadParameter(
            f"found {text!r}; expected one or more of {', '.join(SCENARIOS)}, with commas, or all",
            param_hint="--scenario",
        )
    return names


def _loads(text: str) -> list[float]:
    """Loads in percent."""
    loads = _numbers(text)
    if not loads or not all(1 <= each <= 90 for each in loads) or len(set(loads)) < len(loads):
        raise typer.BadParameter(
            f"found {text!r}; expected percent from 1 to 90, such as 40, or several, such as 40,55",
            param_hint="--load",
        )
    return loads


def _seeds(text: str) -> list[int]:
    """Seeds from 0 on, or from the first to the last named."""
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    if found:
        first, last = (0, int(text) - 1) if found[2] is None else (int(found[1]), int(found[2]))
        if 0 <= last - first < SEEDS_MAX:
            return list(range(first, last + 1))
    raise typer.BadParameter(
        f"found {text!r}; expected how many, such as 5, or which, such as 3-7; at most {SEEDS_MAX}",
        param_hint="--seeds",
    )


def _with_settings(parameters: Parameters, settings: list[str]) -> Parameters:
    """Parameters with those that are given by name."""
    from dataclasses import replace
    from typing import get_origin, get_type_hints

    types = get_type_hints(type(parameters))
    changed: dict[str, Any] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name in _OPTIONS:
            raise typer.BadParameter(
                f"found {name!r}, which has an option of its own; expected {_OPTIONS[name]}",
                param_hint="--set",
            )
        if name not in types:
            settable = ", ".join(each for each in types if each not in _OPTIONS)
            raise typer.BadParameter(
                f"found {name!r}; expected one of {settable}", param_hint="--set"
            )
        kind = types[name]
        pair, whole = get_origin(kind) is tuple, kind is int
        numbers = _numbers(text)
        if len(numbers) != 1 + pair or (whole and not numbers[0].is_integer()):
            expected = (
                "two numbers with a comma" if pair else "a whole number" if whole else "a number"
            )
            raise typer.BadParameter(
                f"{name}: found {text!r}; expected {expected}", param_hint="--set"
            )
        changed[name] = tuple(numbers) if pair else int(numbers[0]) if whole else numbers[0]
    return replace(parameters, **changed)


def _numbers(text: str) -> list[float]:
    """Numbers with commas between them; none: one of them is none."""
    try:
        numbers = [float(each) for each in text.split(",")]
    except ValueError:
        return []
    return numbers if all(map(isfinite, numbers)) else []
