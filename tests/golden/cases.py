"""Finds golden files, runs their scenarios, and reports agreement and the first differences."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.golden import loadaware, lownodeload
from tests.golden.comparison import Json, agree

#: Differences of one family that are shown.
DIFFERENCES_MAX = 10


@dataclass(frozen=True, slots=True)
class Family:
    """A family of scenarios with its functions for answers and comparison."""

    name: str
    answer: Callable[[Json], Json]
    differences: Callable[[Json, Json], Iterator[str]]


@dataclass(slots=True)
class Report:
    """The results of one family."""

    family: str
    scenarios: int = 0
    agreeing: int = 0
    differing: list[str] = field(default_factory=list)
    """The first differences, a line each."""

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield f"{self.family}: {self.agreeing} of {self.scenarios} scenarios agree"
        yield from (f"  {line}" for line in self.differing)


FAMILIES = (
    Family("loadaware", loadaware.answer, loadaware.differences),
    Family("lownodeload", lownodeload.answer, lownodeload.differences),
)


def scenarios(path: Path) -> Iterator[Json]:
    """Yield the scenarios of a golden file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def run(family: Family, path: Path) -> Report:
    """Run all scenarios of a file."""
    report = Report(family.name)
    for case in scenarios(path):
        report.scenarios += 1
        answer = _answer(family, case["scenario"])
        if agree(case["expected"], answer):
            report.agreeing += 1
            continue
        name = case["scenario"]["name"]
        for line in family.differences(case["expected"], answer):
            if len(report.differing) < DIFFERENCES_MAX:
                report.differing.append(f"{name}: {line}")
    return report


def _answer(family: Family, scenario: Json) -> Json:
    """Return the answer, or an error if the schemas refuse the scenario."""
    try:
        return family.answer(scenario)
    except ValueError as error:
        return {"refused": " ".join(str(error).split())}


def run_directory(directory: Path) -> tuple[list[Report], bool]:
    """Run all golden files below a directory; return whether all scenarios agree.

    Raises:
        FileNotFoundError: there is no golden file.
    """
    reports: list[Report] = []
    passed = True
    for family in FAMILIES:
        for path in sorted(directory.rglob(f"{family.name}.jsonl.gz")):
            report = run(family, path)
            reports.append(report)
            passed &= report.agreeing == report.scenarios
    if not reports:
        names = " or ".join(f"{family.name}.jsonl.gz" for family in FAMILIES)
        raise FileNotFoundError(f"no {names} below {directory}: name a directory that holds them")
    return reports, passed
