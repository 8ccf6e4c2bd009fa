"""Deliberate faults of one line in production code: the golden cases must notice each of them.

A fault is a replacement in the source of a module. All modules of the decision core are loaded anew around
the faulty one, and the right ones are put back afterwards.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.golden.cases import scenarios
from tests.golden.comparison import agree

pytestmark = pytest.mark.slow

_RELOADED = (
    "schemas.capacity",
    "streams.cluster",
    "streams.inventory",
    "streams.placement",
    "streams.rebalance",
    "tests.golden",
)
_OURS = ("connectors", "schemas", "streams", "tests.golden")
_GOLDEN = Path(__file__).parent


#: Scenarios in which faults show that hardly any other shows: tried before all others.
_FIRST = {
    f"{family}-{number}"
    for family, numbers in {
        "loadaware": "039 060 102 y041 y077 y083",
        "lownodeload": "025 031 062 071 073 116 146 238 x010 x052 x073 y041 y057 y062 y089 y115 y139 y179",
    }.items()
    for number in numbers.split()
}


#: So many are tried, to save time: of a fault that shows later, one in which it does is named above.
_TRIED = 60


@cache
def cases(family: str) -> list[Any]:
    """The scenarios of a family that are tried, the most revealing ones first."""
    found = scenarios(_GOLDEN / f"{family}.jsonl.gz")
    return sorted(found, key=lambda case: case["scenario"]["name"] not in _FIRST)[:_TRIED]


@dataclass(frozen=True)
class Fault:
    """One line that is wrong."""

    what: str
    module: str
    right: str
    wrong: str
    family: str = "loadaware"


_FAULTS = (
    Fault(
        "the filter refuses at the threshold",
        "streams.inventory.rounding",
        "        if usage_percent(middle, total) > threshold:",
        "        if usage_percent(middle, total) >= threshold:",
    ),
    Fault(
        "the filter's column refuses what just fits",
        "streams.placement.plugins.load_aware",
        "passes: BoolArray = headroom[0] >= prepared.estimate[0]",
        "passes: BoolArray = headroom[0] > prepared.estimate[0]",
    ),
    Fault(
        "the filter forgets the pod that is placed",
        "streams.placement.plugins.load_aware",
        "            if amount > headroom[index]:",
        "            if 0 > headroom[index]:",
    ),
    Fault(
        "a negative estimate lowers what is expected",
        "streams.inventory.estimate",
        "if min(estimate, default=0) >= 0:",
        "if True:",
    ),
    Fault(
        "a field that is given twice holds the last value only",
        "streams.inventory.go_json",
        "integers = dict(before or {})",
        "integers = {}",
    ),
    Fault(
        "NaN is a number",
        "streams.inventory.go_json",
        "parse_constant=_refuse",
        "parse_constant=float",
    ),
    Fault(
        "halves are rounded down",
        "streams.inventory.rounding",
        "if -0.5 < beyond < 0.5:",
        "if -0.5 <= beyond <= 0.5:",
    ),
    Fault(
        "the percentage is computed in another order",
        "streams.inventory.rounding",
        "return round_half_away(float(used) / float(total) * 100)",
        "return round_half_away(float(used) * 100 / float(total))",
    ),
    Fault(
        "a metric expires one instant too late",
        "streams.inventory.load",
        "return expires_at_ms is None or now_ms >= expires_at_ms",
        "return expires_at_ms is None or now_ms > expires_at_ms",
    ),
    Fault(
        "a pod is estimated a report interval too short",
        "streams.inventory.pod_sums",
        "return updated_ms - vectors.report_interval_ms",
        "return updated_ms",
    ),
    Fault(
        "an estimate replaces usage instead of exceeding it",
        "streams.inventory.pod_sums",
        "expected - amount",
        "expected",
    ),
    Fault(
        "the estimate is not capped by the limit",
        "streams.inventory.estimate",
        "if 0 < limit < expected:",
        "if False:",
    ),
    Fault(
        "the estimate goes by the request alone",
        "streams.inventory.estimate",
        "if limit > base:",
        "if False:",
    ),
    Fault(
        "the last duration is taken for the longest",
        "streams.inventory.metric",
        "self._longest.get(aggregation, 0), entry.duration_ms",
        "0, entry.duration_ms",
    ),
    Fault(
        "an unmeasured duration falls back to the average",
        "streams.inventory.load",
        "return self.estimated if usage is None else plus(usage, self.delta)",
        "return plus(self.vectors.node if usage is None else usage, self.delta)",
    ),
    Fault(
        "prod pods are checked against the thresholds for all",
        "streams.placement.plugins.load_aware",
        "        if most_prod is None:\n            return other, other",
        "        if True:\n            return other, other",
    ),
    Fault(
        "the raw allocatable replaces all of it",
        "schemas.capacity",
        "{**allocatable, **(raw_allocatable(annotations) or {})}",
        "raw_allocatable(annotations) or allocatable",
    ),
    Fault(
        "the dominant resource has no weight",
        "streams.placement.plugins.load_aware",
        "return min((mean + least * self._dominant) // self._weight_sum, 100)",
        "return min(mean // self._weight_sum, 100)",
    ),
    Fault(
        "the slack that keeps whole percentages whole is missing",
        "streams.placement.plugins.load_aware",
        "_SLACK = 1 / 256",
        "_SLACK = 0.0",
    ),
    Fault(
        "priority bands end one too early",
        "streams.inventory.priority",
        "if low <= pod.priority <= high:",
        "if low <= pod.priority < high - 998:",
    ),
    Fault(
        "a node's own thresholds are merged with the policy's",
        "streams.inventory.thresholds",
        "plain=given.plain or defaults.plain,",
        "plain={**defaults.plain, **given.plain},",
    ),
)  # fmt: skip


_ROUNDS = (
    Fault(
        "a node is hot at its threshold",
        "streams.rebalance.thresholds.limits",
        "    high = (nodes.usage > limits.high).any(axis=0)",
        "    high = (nodes.usage >= limits.high).any(axis=0)",
    ),
    Fault(
        "a node is low only below its threshold",
        "streams.rebalance.thresholds.limits",
        "    low = (nodes.usage <= limits.low).all(axis=0) & nodes.schedulable",
        "    low = (nodes.usage < limits.low).all(axis=0) & nodes.schedulable",
    ),
    Fault(
        "cordoned nodes are targets",
        "streams.rebalance.thresholds.limits",
        "(nodes.usage <= limits.low).all(axis=0) & nodes.schedulable",
        "(nodes.usage <= limits.low).all(axis=0)",
    ),
    Fault(
        "limits are computed in another order",
        "streams.rebalance.thresholds.limits",
        "percent * 0.01 * capacity.astype(np.float64)",
        "percent * capacity.astype(np.float64) / 100",
    ),
    Fault(
        "a metric expires one instant too late",
        "streams.rebalance.inputs",
        "now_ms - columns.updated_ms < args",
        "now_ms - columns.updated_ms <= args",
    ),
    Fault(
        "a deviation of zero is a threshold",
        "streams.rebalance.thresholds.limits",
        "if deviation and not as_given and low.get(name, 0) == 0:",
        "if deviation and not as_given and low.get(name, 0) < 0:",
    ),
    Fault(
        "prod pods are a class of their own in no mean",
        "streams.rebalance.thresholds.limits",
        "        thresholds.prod_high,\n        nodes,\n        nodes.prod_usage,",
        "        thresholds.prod_high,\n        nodes,\n        nodes.usage,",
    ),
    Fault(
        "N marks are enough",
        "streams.rebalance.thresholds.counters",
        "elif not self._consecutive and hot > needed:",
        "elif not self._consecutive and hot >= needed:",
    ),
    Fault(
        "the anomalous state ends at its timeout",
        "streams.rebalance.thresholds.counters",
        "since_ms + counter.condition.timeout_ms < now_ms",
        "since_ms + counter.condition.timeout_ms <= now_ms",
    ),
    Fault(
        "a detector is forgotten at its timeout",
        "streams.rebalance.thresholds.counters",
        "now_ms - counter.counted_ms <= limit_ms",
        "now_ms - counter.counted_ms < limit_ms",
    ),
    Fault(
        "normal marks keep a detector alive",
        "streams.rebalance.thresholds.counters",
        "            counter.calm, counter.hot = counter.calm + 1, 0\n            normalities",
        "            counter.counted_ms = now_ms\n            counter.calm, counter.hot = counter.calm + 1, 0\n            normalities",
    ),
    Fault(
        "pools never leave out what was worked on",
        "streams.rebalance.thresholds.rounds",
        "return members & ~done",
        "return members",
    ),
    Fault(
        "targets are counted after the detectors are reset",
        "streams.rebalance.thresholds.pool_round",
        "        if count > least:",
        "        if count >= least:",
    ),
    Fault(
        "nodes that are both low have no prod detector to themselves",
        "streams.rebalance.thresholds.pool_round",
        '"prod" if self.codes[position] == PROD_LOW else "node"',
        '"prod" if self.codes[position] in (PROD_LOW, BOTH_LOW) else "node"',
    ),
    Fault(
        "a node that drops below its threshold keeps its state",
        "streams.rebalance.thresholds.evictions",
        "        counters.reset(self.hot.name, self.pool.pool, self.hot.phase, now_ms)\n",
        "",
    ),
    Fault(
        "nobody marks nodes as normal after acting",
        "streams.rebalance.thresholds.rounds",
        "            pool_round.note_acted()\n",
        "",
    ),
    Fault(
        "the prod room of nodes that are both low is theirs alone",
        "streams.rebalance.thresholds.evictions",
        "own + min(share) for own, share",
        "own for own, share",
    ),
    Fault(
        "room may be used up to nothing",
        "streams.rebalance.thresholds.evictions",
        "min(room) <= 0:",
        "min(room) < 0:",
    ),
    Fault(
        "nodeFit takes no room",
        "streams.rebalance.thresholds.evictions",
        "        targets.take(target, amounts, group, phase, prod=prod)\n        return None",
        "        return None",
    ),
    Fault(
        "nodeFit looks at requests above zero only",
        "streams.rebalance.fit",
        "if self._as_koordinator:\n            return Group(mask, tuple(held.demand.requests.items()), self)",
        "if self._as_koordinator:\n            return Group(mask, tuple(e for e in held.demand.requests.items() if e[1]), self)",
    ),
    Fault(
        "nodeFit overlooks taints",
        "streams.rebalance.fit",
        "self._columns.taints.mask(held.pod.tolerations),",
        "None,",
    ),
    Fault(
        "usage is that of pods which are still there",
        "streams.rebalance.node_arrays",
        "            used = _sum((pod.usage for pod in metric.pods), resources)",
        "            used = live",
    ),
    Fault(
        "the raw allocatable is merged",
        "streams.rebalance.node_arrays",
        "{**allocatable, **raw} if universe.differences.merged_capacity else raw",
        "{**allocatable, **raw}",
    ),
    Fault(
        "the largest pod goes first",
        "streams.rebalance.thresholds.order",
        "    each = np.where(share < 1, share, 1 + beyond)",
        "    each = share",
    ),
    Fault(
        "the oldest pod goes first",
        "streams.rebalance.thresholds.order",
        "columns = [keys[:, 3], -scores",
        "columns = [-keys[:, 3], -scores",
    ),
    Fault(
        "pods that are not measured go first",
        "streams.rebalance.thresholds.order",
        "scores[~np.array(metered, dtype=np.bool_)] = -1.0",
        "scores[~np.array(metered, dtype=np.bool_)] = 9.0",
    ),
    Fault(
        "nodes are ordered by exact usage",
        "streams.rebalance.thresholds.order",
        "_THOUSAND = 1_000",
        "_THOUSAND = 1_000_000",
    ),
    Fault(
        "guaranteed pods are like burstable ones",
        "streams.rebalance.costs",
        '"Burstable": 2, "Guaranteed": 3}',
        '"Burstable": 2, "Guaranteed": 2}',
    ),
    Fault(
        "the remaining room of the node phase is not looked at in the prod phase",
        "streams.rebalance.thresholds.evictions",
        "own + min(share) for own",
        "own + min(share[:2]) for own",
    ),
    Fault(
        "maps are not shared",
        "streams.rebalance.thresholds.pools",
        "if given is not None and id(given) not in copies:",
        "if given is not None:",
    ),
    Fault(
        "a pool without nodes fills in its maps",
        "streams.rebalance.thresholds.rounds",
        "if members.any() and not given.paused:",
        "if not given.paused:",
    ),
    Fault(
        "calm nodes are reset only if there are enough of them",
        "streams.rebalance.thresholds.pool_round",
        "        if count:\n            self._reset_calm()",
        "        if count > least:\n            self._reset_calm()",
    ),
    Fault(
        "detectors are forgotten also with a timeout of 0",
        "streams.rebalance.thresholds.counters",
        "if limit_ms <= 0 or now_ms",
        "if now_ms",
    ),
    Fault(
        "a raw allocatable without resources is passed over",
        "streams.rebalance.node_arrays",
        "    if raw is not None:",
        "    if raw:",
    ),
    Fault(
        "the mean is worked out in another order",
        "streams.rebalance.thresholds.limits",
        "    share = np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)\n",
        "    share = np.divide(used * 100.0, capacity, out=np.zeros_like(used), where=capacity > 0) / 100.0\n",
    ),
    Fault(
        "a pod whose metric names other resources only is not measured",
        "streams.rebalance.node_arrays",
        "self._measured = used, [name in reported for name in names]",
        "self._measured = used, [bool({*resources} & {*reported.get(name, ())}) for name in names]",
    ),
    Fault(
        "Koordinator's quality of service is overlooked",
        "streams.rebalance.costs",
        'pod.labels.get(QOS_CLASS_LABEL, "")',
        '""',
    ),
)


_SAME = "now_ms >= expires_at_ms"
_NONE = Fault("none", "streams.inventory.load", _SAME, _SAME)


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
    """The golden module of the fault's family, over production code that has the fault."""
    for name in _RELOADED:
        importlib.import_module(name)
    right = _ours()
    finder = _Finder(fault)
    for name in right:
        if name.startswith(_RELOADED):
            del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module(f"tests.golden.{fault.family}")
    finally:
        sys.meta_path.remove(finder)
        _put_back(right)


def _ours() -> dict[str, ModuleType]:
    """The project's modules that are loaded, by name."""
    return {name: each for name, each in sys.modules.items() if name.startswith(_OURS)}


def _put_back(right: dict[str, ModuleType]) -> None:
    """Nothing but these modules is loaded: one that was first loaded meanwhile may hold on to a faulty one."""
    for name in _ours():
        del sys.modules[name]
    sys.modules.update(right)
    # The packages above were not loaded anew, and found new ones in their place.
    for name in _RELOADED:
        package, _, own = name.rpartition(".")
        setattr(sys.modules[package], own, right[name])


def differing(golden: Any, family: str = "loadaware") -> str | None:
    """The first of the tried scenarios that differs; None if all of them agree."""
    for case in cases(family):
        if not agree(case["expected"], golden.answer(case["scenario"])):
            name: str = case["scenario"]["name"]
            return name
    return None


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.what)
def test_a_fault_of_one_line_makes_golden_fail(fault: Fault) -> None:
    with faulty(fault) as golden:
        assert differing(golden) is not None


@pytest.mark.parametrize("fault", _ROUNDS, ids=lambda fault: fault.what)
def test_a_fault_of_one_line_in_rebalancing_makes_golden_fail(fault: Fault) -> None:
    with faulty(replace(fault, family="lownodeload")) as golden:
        assert differing(golden, "lownodeload") is not None


@pytest.mark.parametrize("family", ["loadaware", "lownodeload"])
def test_without_a_fault_all_agree(family: str) -> None:
    """What is loaded anew answers as what is loaded once, which other tests ask for all scenarios."""
    with faulty(replace(_NONE, family=family)) as golden:
        assert differing(golden, family) is None


def test_after_a_fault_the_right_modules_are_back() -> None:
    right = importlib.import_module("streams.inventory.load")
    with faulty(_NONE):
        assert importlib.import_module("streams.inventory.load") is not right
    assert importlib.import_module("streams.inventory.load") is right
    assert pkgutil.resolve_name("streams.inventory.load") is right
