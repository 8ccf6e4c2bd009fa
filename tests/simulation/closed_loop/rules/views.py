"""Views of a few nodes for tests of rules."""

from collections.abc import Sequence

import numpy as np

from simulation.closed_loop.rules.view import Array, NodesView

GI = 2.0**30
#: Amounts of cpu and memory.
Pair = tuple[float, float]
UNMEASURED: Pair = (float("nan"), float("nan"))


def amounts(pairs: Sequence[Pair]) -> Array:
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)


def view(
    *allocatable: Pair,
    requested: Sequence[Pair] | None = None,
    measured: Sequence[Pair] | None = None,
    deviation: Sequence[Pair] | None = None,
    unreported: Sequence[Pair] | None = None,
    pods: Sequence[float] | None = None,
) -> NodesView:
    """Return nodes with this allocatable; without further arguments they are empty and not measured."""
    nothing = [(0.0, 0.0)] * len(allocatable)
    unknown = [UNMEASURED] * len(allocatable)
    return NodesView(
        allocatable=amounts(allocatable),
        requested=amounts(requested or nothing),
        pods=np.array(pods or [0.0] * len(allocatable), dtype=np.float64),
        measured=amounts(measured or unknown),
        deviation=amounts(deviation or unknown),
        unreported=amounts(unreported or nothing),
    )


def request(cpu: float, memory: float = GI) -> Array:
    return np.array([cpu, memory], dtype=np.float64)
