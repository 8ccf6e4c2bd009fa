"""A node metric as vectors over the resources of the policy.

An empty resource list means that nothing was measured. Koordinator reads a missing resource of a list as 0,
and a pod without a class as not prod. By loadstream's rules, the resource is unknown, and the pod's record
determines its class (X25). The next shorter window, or else the mean, replaces a window that was not measured
(X9).
Source: docs/reference/upstream.md A3, A6.
"""

from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from schemas.base.capacity import find_impossible
from schemas.base.message import AMOUNT_MAX
from schemas.base.refusals import Refusal
from schemas.messages.metrics import NodeMetric
from schemas.policy.durations import format_duration_ms
from streams.usage.estimate import Estimator
from streams.usage.vectors import Vector

#: Report interval of a metric without one.
REPORT_INTERVAL_DEFAULT_MS = 60_000

PROD_CLASS = "koord-prod"


class Reading(NamedTuple):
    """Usage of a node by one statistic."""

    usage: Vector
    unknown: tuple[int, ...] = ()
    """Positions of resources that the metric lacks; their usage is 0."""
    replacements: tuple[tuple[int, str], ...] = ()
    """Positions of resources without the requested statistic, and the name of the statistic used instead."""


def name_statistic(aggregation: str, duration_ms: int) -> str:
    """Return a name such as "p95 over 5m"; a duration of 0 means the longest window."""
    return f"{aggregation} over {format_duration_ms(duration_ms) if duration_ms else 'any window'}"


class MetricVectors:
    """Figures of one node metric."""

    def __init__(self, metric: NodeMetric, estimator: Estimator) -> None:
        self._metric = metric
        self._to_vector = to_vector = estimator.to_vector
        self.resources = estimator.resources
        self.node: Vector | None = None if metric.usage is None else to_vector(metric.usage)
        self._follows_koordinator = estimator.follows_koordinator
        self.unknown: tuple[int, ...] = ()
        """Positions of resources that the node's mean usage lacks."""
        if metric.usage is not None and not self._follows_koordinator:
            usage = metric.usage
            self.unknown = tuple(
                [position for position, name in enumerate(self.resources) if name not in usage]
            )
        self.system: Vector = to_vector(metric.system_usage)
        self.report_interval_ms = (
            REPORT_INTERVAL_DEFAULT_MS
            if metric.report_interval_ms is None
            else metric.report_interval_ms
        )
        self._readings: dict[tuple[str, int], Reading | None] = {}

    @cached_property
    def pods(self) -> dict[tuple[str, str], tuple[Vector, bool]]:
        """Usage by namespace and name, and whether it counts as prod usage if the pod is prod."""
        pods: dict[tuple[str, str], tuple[Vector, bool]] = {}
        prod_classes = (PROD_CLASS,) if self._follows_koordinator else (PROD_CLASS, "")
        for pod in self._metric.pods:
            usage = pod.usage
            if usage:
                key = (pod.namespace, pod.name)
                known_as_prod = pod.priority_class in prod_classes or (key in pods and pods[key][1])
                pods[key] = (self._to_vector(usage), known_as_prod)
        return pods

    @cached_property
    def _statistics(self) -> dict[tuple[str, int], Mapping[str, int]]:
        """Usage by aggregation type and duration; of equal entries, the last one counts."""
        return {
            (aggregation, entry.duration_ms): usage
            for entry in self._metric.aggregated
            for aggregation, usage in entry.usage.items()
            if usage
        }

    def read(self, aggregation: str | None, duration_ms: int) -> Reading | None:
        """Return usage by a statistic over a duration; None if it is unknown.

        Args:
            aggregation: avg, p50 and so on; None for the node's mean.
            duration_ms: 0 for the longest measured duration.
        """
        if self.node is None:
            return None
        if aggregation is None:
            return Reading(self.node, self.unknown)
        key = aggregation, duration_ms
        if key not in self._readings:
            read = self._read_as_koordinator if self._follows_koordinator else self._read_windows
            self._readings[key] = read(aggregation, duration_ms)
        return self._readings[key]

    def _read_as_koordinator(self, aggregation: str, duration_ms: int) -> Reading | None:
        lengths = [length_ms for kind, length_ms in self._statistics if kind == aggregation]
        if not duration_ms and not lengths:
            return None if self.node is None else Reading(self.node)
        usage = self._statistics.get((aggregation, duration_ms or max(lengths)))
        return None if usage is None else Reading(self._to_vector(usage))

    def _read_windows(self, aggregation: str, duration_ms: int) -> Reading:
        """Read each resource from the window, else from the next shorter window, else from the mean."""
        windows = {
            length_ms: usage
            for (kind, length_ms), usage in self._statistics.items()
            if kind == aggregation and (not duration_ms or length_ms <= duration_ms)
        }
        lengths = sorted(windows, reverse=True)
        names = [name_statistic(aggregation, length_ms) for length_ms in lengths]
        sources = [windows[length_ms] for length_ms in lengths]
        names.append("mean")
        sources.append(self._metric.usage or {})
        is_measured = bool(lengths) and (not duration_ms or lengths[0] == duration_ms)
        usage, unknown, replacements = [], [], []
        for position, resource in enumerate(self.resources):
            index = next((i for i, source in enumerate(sources) if resource in source), None)
            if index is None:
                usage.append(0)
                unknown.append(position)
                continue
            usage.append(sources[index][resource])
            if index or not is_measured:
                replacements.append((position, names[index]))
        return Reading(tuple(usage), tuple(unknown), tuple(replacements))


def drop_lifetimes(metric: NodeMetric) -> NodeMetric:
    """Return the metric without lifetimes, which are part of the node's statistics."""
    return metric if metric.lifetimes is None else metric.model_copy(update={"lifetimes": None})


def check_amounts(metric: NodeMetric) -> Refusal | None:
    """Return a refusal that names the first impossible amount of a metric."""
    parts = _list_parts(metric)
    if max(chain.from_iterable([usage.values() for _, usage in parts]), default=0) <= AMOUNT_MAX:
        return None  # checked first, because it is several times faster
    for where, usage in parts:
        for resource, used in usage.items():
            if used > AMOUNT_MAX:
                return Refusal(
                    "limit",
                    f"{where}, {resource}: {used} was measured; allowed are at most {AMOUNT_MAX} (2^50), "
                    "more than any machine has: check the source of the metric",
                )
    return None


def check_capacity(metric: NodeMetric, capacity: Mapping[str, int]) -> Refusal | None:
    """Return a refusal that names an amount that exceeds the node's capacity."""
    parts = _list_parts(metric)
    names = set().union(*[usage for _, usage in parts])
    limits = {name: capacity[name] for name in names if capacity.get(name)}
    largest = {name: max([usage.get(name, 0) for _, usage in parts]) for name in limits}
    if find_impossible(largest, limits) is None:
        return None
    for where, usage in parts:
        impossible = find_impossible(usage, limits)
        if impossible is not None:
            return Refusal("limit", f"{where}, {impossible}: check the source of the metric")
    return None


def _list_parts(metric: NodeMetric) -> list[tuple[str, Mapping[str, int]]]:
    """Return all amounts with their place in the message."""
    parts: list[tuple[str, Mapping[str, int]]] = [
        ("usage", metric.usage or {}),
        ("system_usage", metric.system_usage),
    ]
    for entry in metric.aggregated:
        parts += [
            (f"aggregated {aggregation}", usage) for aggregation, usage in entry.usage.items()
        ]
    parts += [("usage of a pod", pod.usage) for pod in metric.pods]
    parts += [("usage of a host application", host.usage) for host in metric.host_applications]
    return parts
