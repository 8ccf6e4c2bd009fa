"""What nodes used of a resource over a time: percentiles, spread between nodes, hot spells.

Usage is that of metrics, an average of some minutes, so a spell that is shorter than that is seen
as longer and less hot, or not at all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from connectors.policies.draft.history import RESOURCES, Amounts, MeanUsage
from schemas.policy import OverutilizationRiskArgs

#: Shares of a node beyond which it counts as hot: those of the score by risk.
HOT = {each.name: each.hot_share for each in OverutilizationRiskArgs().resources}
#: Nodes are compared that reported within the same of these.
SLOT_MS = 300_000
#: After a longer silence a spell is over.
_SILENCE_MS = 300_000


@dataclass(frozen=True, slots=True)
class Load:
    """Usage of one resource, as shares of what nodes can give."""

    readings: int
    mean: float
    p50: float
    p75: float
    p90: float
    p99: float
    spread: float
    """Standard deviation between nodes, mean over time."""
    hot_share: float
    """Share of the readings that are hot."""
    spells: int
    """How many times a node was hot for a while."""
    spell_ms: int
    """Median length of these; 0: there were none."""


def load_of(
    resource: str, readings: Iterable[MeanUsage], allocatable: Mapping[str, Amounts]
) -> Load | None:
    """The load by this resource; none: no node both reports it and can give some of it."""
    index = RESOURCES.index(resource)
    series: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for reading in readings:
        used = reading.usage[index]
        can_give = allocatable.get(reading.node, (None,) * len(RESOURCES))[index]
        if used is not None and can_give:
            series[reading.node].append((reading.at_ms, used / can_give))
    if not series:
        return None
    lengths_ms = [
        length for each in series.values() for length in _spells_ms(sorted(each), HOT[resource])
    ]
    shares = np.array([share for each in series.values() for _, share in each])
    p50, p75, p90, p99 = (float(each) for each in np.percentile(shares, (50, 75, 90, 99)))
    return Load(
        readings=len(shares), mean=float(shares.mean()), p50=p50, p75=p75, p90=p90, p99=p99,
        spread=_spread(series), hot_share=float((shares > HOT[resource]).mean()),
        spells=len(lengths_ms), spell_ms=int(np.median(lengths_ms)) if lengths_ms else 0,
    )  # fmt: skip


def _spells_ms(series: list[tuple[int, float]], hot: float) -> Iterable[int]:
    """Lengths of the times in which a node was hot: up to the first reading that is not."""
    begun_ms: int | None = None
    last_ms = 0
    for at_ms, share in series:
        if begun_ms is not None and at_ms - last_ms > _SILENCE_MS:
            yield last_ms - begun_ms
            begun_ms = None
        if share > hot and begun_ms is None:
            begun_ms = at_ms
        elif share <= hot and begun_ms is not None:
            yield at_ms - begun_ms
            begun_ms = None
        last_ms = at_ms
    if begun_ms is not None and last_ms > begun_ms:
        yield last_ms - begun_ms


def _spread(series: Mapping[str, list[tuple[int, float]]]) -> float:
    """Mean over time of the standard deviation between nodes; a node counts with its mean."""
    slots: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for node, readings in series.items():
        for at_ms, share in readings:
            slots[at_ms // SLOT_MS][node].append(share)
    deviations = [
        float(np.std([float(np.mean(shares)) for shares in nodes.values()]))
        for nodes in slots.values()
        if len(nodes) > 1
    ]
    return float(np.mean(deviations)) if deviations else 0.0
