"""Deliberate faults of one line in production code: the golden cases must notice each of them.

A fault is a replacement in the source of a module. All modules of the decision core are loaded anew around
the faulty one, and the right ones are put back afterwards.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from streams.golden.cases import scenarios

_RELOADED = ("streams.cluster", "streams.golden")
_CASES = list(scenarios(Path(__file__).parents[2] / "golden" / "loadaware.jsonl.gz"))


@dataclass(frozen=True)
class Fault:
    """One line that is wrong."""

    what: str
    module: str
    right: str
    wrong: str


_FAULTS = (
    Fault(
        "the filter refuses at the threshold",
        "streams.cluster.arithmetic",
        "        if usage_percent(middle, total) > threshold:",
        "        if usage_percent(middle, total) >= threshold:",
    ),
    Fault(
        "the filter's column refuses what just fits",
        "streams.cluster.plugins.load_aware",
        "passes: BoolArray = headroom[0] >= prepared.estimate[0]",
        "passes: BoolArray = headroom[0] > prepared.estimate[0]",
    ),
    Fault(
        "the filter forgets the pod that is placed",
        "streams.cluster.plugins.load_aware",
        "            if amount > headroom[index]:",
        "            if 0 > headroom[index]:",
    ),
    Fault(
        "halves are rounded down",
        "streams.cluster.arithmetic",
        "if abs(value) - whole >= 0.5:",
        "if abs(value) - whole > 0.5:",
    ),
    Fault(
        "the percentage is computed in another order",
        "streams.cluster.arithmetic",
        "return round_half_away(float(used) / float(total) * 100)",
        "return round_half_away(float(used) * 100 / float(total))",
    ),
    Fault(
        "a metric expires one instant too late",
        "streams.cluster.load",
        "return expires_at_ms is None or now_ms >= expires_at_ms",
        "return expires_at_ms is None or now_ms > expires_at_ms",
    ),
    Fault(
        "a pod is estimated a report interval too short",
        "streams.cluster.load",
        "if updated_ms - vectors.report_interval_ms < assigned.timestamp_ms:",
        "if updated_ms < assigned.timestamp_ms:",
    ),
    Fault(
        "an estimate replaces usage instead of exceeding it",
        "streams.cluster.load",
        "max(0, expected - used) for expected, used in",
        "expected for expected, used in",
    ),
    Fault(
        "the estimate is not capped by the limit",
        "streams.cluster.estimate",
        "min(expected, limit if limit > 0 else INT64_MAX)",
        "min(expected, INT64_MAX)",
    ),
    Fault(
        "the estimate goes by the request alone",
        "streams.cluster.estimate",
        'base = max(limit, demand.requests.get(resource, 0))',
        'base = demand.requests.get(resource, 0)',
    ),
    Fault(
        "the last duration is taken for the longest",
        "streams.cluster.metric",
        "self.longest.get(aggregation, 0), entry.duration_ms",
        "0, entry.duration_ms",
    ),
    Fault(
        "an unmeasured duration falls back to the average",
        "streams.cluster.load",
        "return self.estimated if usage is None else plus(usage, self.delta)",
        "return plus(self.vectors.node if usage is None else usage, self.delta)",
    ),
    Fault(
        "prod pods are checked against the thresholds for all",
        "streams.cluster.plugins.load_aware",
        "        if most_prod is None:\n            return other, other",
        "        if True:\n            return other, other",
    ),
    Fault(
        "the raw allocatable replaces all of it",
        "streams.cluster.profile",
        "raw.get(name, allocatable.get(name, 0))",
        "raw.get(name, 0) if raw else allocatable.get(name, 0)",
    ),
    Fault(
        "the dominant resource has no weight",
        "streams.cluster.plugins.load_aware",
        "return min((mean + (least or 0) * self._dominant) // self._weight_sum, 100)",
        "return min(mean // self._weight_sum, 100)",
    ),
    Fault(
        "the slack that keeps whole percentages whole is missing",
        "streams.cluster.plugins.load_aware",
        "_SLACK = 1 / 256",
        "_SLACK = 0.0",
    ),
    Fault(
        "priority bands end one too early",
        "streams.cluster.priority",
        "if low <= pod.priority <= high:",
        "if low <= pod.priority < high - 998:",
    ),
    Fault(
        "a node's own thresholds are merged with the policy's",
        "streams.cluster.thresholds",
        "plain=plain or defaults.plain,",
        "plain={**defaults.plain, **plain},",
    ),
)  # fmt: skip


class _Faulty(SourceFileLoader):
    """Loads a module with its fault."""

    def __init__(self, fault: Fault, path: str) -> None:
        super().__init__(fault.module, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text()
        assert source.count(self._fault.right) == 1, f"{self._fault.right!r} is not one place"
        faulty = source.replace(self._fault.right, self._fault.wrong)
        return compile(faulty, self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds the faulty module in place of the right one."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._fault.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        return spec_from_file_location(
            fullname, spec.origin, loader=_Faulty(self._fault, spec.origin)
        )


@contextmanager
def faulty(fault: Fault) -> Iterator[Any]:
    """The golden module of load-aware scenarios, over production code that has a fault."""
    right = {name: each for name, each in sys.modules.items() if name.startswith(_RELOADED)}
    finder = _Finder(fault)
    for name in right:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module("streams.golden.loadaware")
    finally:
        sys.meta_path.remove(finder)
        for name in [each for each in sys.modules if each.startswith(_RELOADED)]:
            del sys.modules[name]
        sys.modules.update(right)


def differing(golden: Any) -> str | None:
    """The first scenario that differs; None if all agree."""
    for case in _CASES:
        if not golden.agree(case["expected"], golden.answer(case["scenario"])):
            name: str = case["scenario"]["name"]
            return name
    return None


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.what)
def test_a_fault_of_one_line_makes_golden_fail(fault: Fault) -> None:
    with faulty(fault) as golden:
        assert differing(golden) is not None


def test_without_a_fault_all_agree() -> None:
    line = "now_ms >= expires_at_ms"
    with faulty(Fault("none", "streams.cluster.load", line, line)) as golden:
        assert differing(golden) is None
