"""Everything that the values of a policy are chosen by, from a cluster's history."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from connectors.policies.draft.history import RESOURCES, History, median_gap_ms
from connectors.policies.draft.load import Load, load_of

#: A pod that uses more than five times its request counts as five, as in the fleet figures: a pod
#: with a tiny request must not dominate the mean.
RATIO_MAX = 5.0
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """A cluster in figures."""

    since_ms: int
    until_ms: int
    """Times of the first and the last reading."""
    whole: bool
    """No limit ended the search for readings."""
    nodes: int
    """Nodes that there are."""
    silent_nodes: int
    """Those of them without a metric."""
    report_ms: int | None
    """Time between two metrics of a node; none: no node has two."""
    sample_ms: int | None
    """The same of samples; none: metrics come ready made."""
    windows_ms: tuple[int, ...]
    """Windows of the percentiles that are collected."""
    loads: Mapping[str, Load]
    """By resource; one without data is missing."""
    pods: int
    requesting: Mapping[str, float]
    """Share of the pods that request a resource."""
    used_of_requests: Mapping[str, float]
    """What measured pods use of their requests: the mean of their ratios, of each `RATIO_MAX` at
    most."""
    measured_pods: int
    """Those of them that request CPU, and whose usage of it is known."""
    owners: int
    replicated_owners: int
    """Owners of more than one pod."""
    budgets: int
    started_per_hour: float
    schedulers: tuple[tuple[str, int], ...]
    """Schedulers of the pods and how many each has, most first."""
    evictions: Mapping[str, int]

    @property
    def span_ms(self) -> int:
        """Length of the time that was looked at."""
        return self.until_ms - self.since_ms

    @property
    def pods_per_node(self) -> float:
        """Pods on a node, in the mean."""
        return self.pods / self.nodes if self.nodes else 0.0


def summarize(history: History) -> ClusterSummary:
    """The summary of a history that has a reading."""
    times = [each.at_ms for each in history.readings]
    # Without node states the nodes are those that report, and their shares are not known.
    nodes = set(history.allocatable) or {each.node for each in history.readings}
    loads = {
        name: load
        for name in RESOURCES
        if (load := load_of(name, history.readings, history.allocatable)) is not None
    }
    owners = Counter(each.owner for each in history.pods)
    schedulers = Counter(each.scheduler for each in history.pods)
    span_ms = max(times) - min(times)
    return ClusterSummary(
        since_ms=min(times),
        until_ms=max(times),
        whole=history.whole,
        nodes=len(nodes),
        silent_nodes=len(nodes - {each.node for each in history.readings}),
        report_ms=median_gap_ms((each.node, each.at_ms) for each in history.readings),
        sample_ms=history.sample_ms,
        windows_ms=tuple(sorted(history.windows_ms)),
        loads=loads,
        pods=len(history.pods),
        requesting=_requesting(history),
        used_of_requests=_used_of_requests(history),
        measured_pods=len(_ratios(history, "cpu")),
        owners=len(owners),
        replicated_owners=sum(count > 1 for count in owners.values()),
        budgets=history.budgets,
        started_per_hour=history.started * _HOUR_MS / span_ms if span_ms else 0.0,
        schedulers=tuple(sorted(schedulers.items(), key=lambda each: (-each[1], each[0]))),
        evictions=dict(sorted(history.evictions.items())),
    )


def _requesting(history: History) -> dict[str, float]:
    count = len(history.pods)
    return {
        name: sum(bool(each.requests[index]) for each in history.pods) / count
        for index, name in enumerate(RESOURCES)
        if count
    }


def _used_of_requests(history: History) -> dict[str, float]:
    found = {name: _ratios(history, name) for name in RESOURCES}
    return {name: sum(ratios) / len(ratios) for name, ratios in found.items() if ratios}


def _ratios(history: History, resource: str) -> list[float]:
    """What each measured pod that requests a resource uses of its request."""
    index = RESOURCES.index(resource)
    ratios = []
    for usage, requests in history.used:
        used, requested = usage[index], requests[index]
        if used is not None and requested:
            ratios.append(min(used / requested, RATIO_MAX))
    return ratios
