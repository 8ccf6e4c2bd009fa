"""What was seen of a cluster over a time, as plain values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low
from typing import NamedTuple

#: Resources that are looked at. Thresholds for others need a look of their own.
RESOURCES = ("cpu", "memory")

#: An amount of each of `RESOURCES`, cpu in millicores and memory in bytes; none: not known.
Amounts = tuple[int | None, ...]


class MeanUsage(NamedTuple):
    """Mean usage of a node, as a metric reported it."""

    node: str
    at_ms: int
    """Time of its newest sample."""
    usage: Amounts


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod that runs or waits."""

    owner: str
    """uid of its controller, else its namespace and name."""
    scheduler: str
    requests: Amounts


@dataclass(slots=True)
class History:
    """A cluster over a time. What is missing is empty."""

    readings: list[MeanUsage] = field(default_factory=list)
    """In any order."""
    whole: bool = True
    """No limit ended the search for them: there are no more of this time."""
    windows_ms: frozenset[int] = frozenset()
    """Windows of the percentiles that metrics carry."""
    sample_ms: int | None = None
    """Time between two samples of a node; none: there are no samples, so metrics come ready made."""
    allocatable: Mapping[str, Amounts] = field(default_factory=dict)
    """Of each node that there is, before overcommitment: what usage is a share of."""
    pods: list[PodSeen] = field(default_factory=list)
    used: list[tuple[Amounts, Amounts]] = field(default_factory=list)
    """Usage and requests of the pods that were measured last."""
    started: int = 0
    """Pods that started in this time, those that have ended since included."""
    budgets: int = 0
    """Disruption budgets."""
    evictions: Mapping[str, int] = field(default_factory=dict)
    """Evictions by their result, as sinks reported it."""


def median_gap_ms(times: Iterable[tuple[str, int]]) -> int | None:
    """Median time from one of a node's times to its next; none: no node has two that differ.

    `times`: nodes with times in milliseconds, in any order.
    """
    found: dict[str, set[int]] = {}
    for node, at_ms in times:
        found.setdefault(node, set()).add(at_ms)
    gaps = [later - earlier for each in found.values() for earlier, later in pairwise(sorted(each))]
    return median_low(gaps) if gaps else None
