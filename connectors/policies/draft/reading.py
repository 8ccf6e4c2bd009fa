"""Reads the history of a cluster from the end of its partitions.

Metrics are read as far back as requested, and of every topic a limited number of records. Nodes and
pods that were reported only before these records are missing; full lists report them again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from schemas.base.capacity import merge_raw_allocatable
from schemas.base.quantities import parse_amounts
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from schemas.messages.workloads import DisruptionBudget
from schemas.policy import OverutilizationRiskArgs

#: Most records of one topic that are read: 5,000 nodes for 40 minutes, 100 nodes for a day.
RECORDS_MAX = 200_000
#: Scheduler of a pod that names none.
_DEFAULT_SCHEDULER = "default-scheduler"
#: Default share of each resource above which a node is hot; the history has loads of these resources.
HOT = {each.name: each.hot_share for each in OverutilizationRiskArgs().resources}


class Reading(NamedTuple):
    """Mean usage of a node, as a metric reported it."""

    node: str
    at_ms: int
    usage: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Load:
    """Usage of one resource, as a share of each node, over all nodes and the whole time."""

    p75: float
    p90: float
    hot_share: float
    """Share of the readings above `HOT`."""


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """Figures of a cluster over a time."""

    since_ms: int
    until_ms: int
    """Times of the first and the last metric."""
    complete: bool
    """No limit of records cut the time short."""
    nodes: int
    silent_nodes: int
    """Nodes without a metric."""
    report_ms: int | None
    """Median time between two metrics of a node; None: no node has two."""
    loads: Mapping[str, Load]
    """By resource; a resource without data is missing."""
    pods: int
    schedulers: tuple[tuple[str, int], ...]
    """Schedulers with their number of pods, most pods first."""
    budgets: int
    """Disruption budgets."""

    @property
    def span_ms(self) -> int:
        return self.until_ms - self.since_ms


def read_history(connection: Connection, cluster: str, back_ms: int) -> ClusterHistory | None:
    """Return the history of a cluster, or None if no metric names it. Raises BrokerUnavailable."""
    readings, complete = _read_metrics(connection, cluster, back_ms)
    if not readings:
        return None
    capacities = _read_capacities(connection, cluster)
    schedulers, budgets = _read_pods(connection, cluster)
    measured = {reading.node for reading in readings}
    # Without node states, the nodes are those that report.
    nodes = set(capacities) or measured
    return ClusterHistory(
        since_ms=min(reading.at_ms for reading in readings),
        until_ms=max(reading.at_ms for reading in readings),
        complete=complete,
        nodes=len(nodes),
        silent_nodes=len(nodes - measured),
        report_ms=_find_median_gap_ms(readings),
        loads=compute_loads(readings, capacities),
        pods=schedulers.total(),
        schedulers=tuple(sorted(schedulers.items(), key=lambda item: (-item[1], item[0]))),
        budgets=budgets,
    )


def compute_loads(
    readings: Iterable[Reading], capacities: Mapping[str, Mapping[str, int]]
) -> dict[str, Load]:
    """Return the loads of the resources that nodes report and have."""
    shares: dict[str, list[float]] = {}
    for reading in readings:
        for name, used in reading.usage.items():
            capacity = capacities.get(reading.node, {}).get(name)
            if name in HOT and capacity:
                shares.setdefault(name, []).append(used / capacity)
    loads = {}
    for name in (name for name in HOT if name in shares):
        p75, p90 = (float(share) for share in np.percentile(shares[name], (75, 90)))
        hot_share = sum(share > HOT[name] for share in shares[name]) / len(shares[name])
        loads[name] = Load(p75, p90, hot_share)
    return loads


def _find_median_gap_ms(readings: Iterable[Reading]) -> int | None:
    times: dict[str, set[int]] = {}
    for reading in readings:
        times.setdefault(reading.node, set()).add(reading.at_ms)
    gaps = [
        later - earlier
        for node_times in times.values()
        for earlier, later in pairwise(sorted(node_times))
    ]
    return median_low(gaps) if gaps else None


def _newest(connection: Connection, topic: str, cluster: str) -> Iterator[Any]:
    return PastMessages(connection, topic, cluster, RECORDS_MAX).newest(SearchProgress())


def _read_metrics(connection: Connection, cluster: str, back_ms: int) -> tuple[list[Reading], bool]:
    """Return the readings of the time, and whether no limit cut the time short."""
    looked = SearchProgress()
    readings: list[Reading] = []
    since_ms: int | None = None
    for metric in PastMessages(connection, "node-metrics", cluster, RECORDS_MAX).newest(looked):
        if metric.updated_at_ms is None or metric.usage is None or metric.removed:
            continue
        if since_ms is None:
            since_ms = metric.updated_at_ms - back_ms
        if metric.updated_at_ms < since_ms:
            return readings, True
        readings.append(Reading(metric.node, metric.updated_at_ms, metric.usage))
    return readings, looked.whole


def _read_capacities(connection: Connection, cluster: str) -> dict[str, Mapping[str, int]]:
    """Return the amounts of each node that thresholds are percentages of."""
    states: dict[str, NodeState] = {}
    for state in _newest(connection, "node-state", cluster):
        if isinstance(state, NodeState):
            states.setdefault(state.node, state)
    return {
        name: merge_raw_allocatable(parse_amounts(state.allocatable), state.annotations)
        for name, state in states.items()
        if state.event != "removed"
    }


def _read_pods(connection: Connection, cluster: str) -> tuple[Counter[str], int]:
    """Return the number of pods by scheduler, and the number of disruption budgets."""
    schedulers: dict[str, str | None] = {}
    budgets: dict[tuple[str, str], bool] = {}
    for message in _newest(connection, "pod-lifecycle", cluster):
        if isinstance(message, DisruptionBudget):
            budgets.setdefault((message.namespace, message.name), not message.removed)
        elif isinstance(message, PodLifecycle):
            pod = message.pod
            has_ended = message.event in ("finished", "deleted") or pod.has_finished
            name = None if has_ended else pod.scheduler or _DEFAULT_SCHEDULER
            schedulers.setdefault(pod.uid, name)
    return Counter(name for name in schedulers.values() if name), sum(budgets.values())
