"""A node metric as vectors over the resources of the policy.

An empty resource list means that nothing was measured. Koordinator reads a missing resource of a list as 0,
and a pod without a class as not prod. By loadstream's rules, the resource is unknown, and the pod's record
determines its class (X25). The next shorter window, or else the mean, replaces a window that was not measured
(X9).
Source: docs/reference/upstream.md A3.1, A6.9.
"""

from collections.abc import Iterator, Mapping
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
        self._pods: dict[tuple[str, str], tuple[Vector, bool]] | None = None
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
        self._aggregated: dict[tuple[str, int], Mapping[str, int]] | None = None
        """By aggregation type and duration; of equal entries, the last one counts. None before the first
        use: most policies use means only."""
        self._longest: dict[str, int] = {}
        """Longest measured duration by aggregation type."""
        self._readings: dict[tuple[str, int], Reading | None] = {}

    @property
    def pods(self) -> dict[tuple[str, str], tuple[Vector, bool]]:
        """Usage by namespace and name, and whether it counts as prod usage if the pod is prod."""
        if self._pods is None:
            pods: dict[tuple[str, str], tuple[Vector, bool]] = {}
            prod_classes = (PROD_CLASS,) if self._follows_koordinator else (PROD_CLASS, "")
            for pod in self._metric.pods:
                usage = pod.usage
                if usage:
                    key = (pod.namespace, pod.name)
                    known_as_prod = pod.priority_class in prod_classes or (
                        key in pods and pods[key][1]
                    )
                    pods[key] = (self._to_vector(usage), known_as_prod)
            self._pods = pods
        return self._pods

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
        statistics = self._read_statistics()
        if not duration_ms:
            longest = self._longest.get(aggregation)
            if longest is None:
                return None if self.node is None else Reading(self.node)
            duration_ms = longest
        usage = statistics.get((aggregation, duration_ms))
        return None if usage is None else Reading(self._to_vector(usage))

    def _read_windows(self, aggregation: str, duration_ms: int) -> Reading:
        """Read each resource from the window, else from the next shorter window, else from the mean."""
        windows = {
            length_ms: usage
            for (kind, length_ms), usage in self._read_statistics().items()
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

    def _read_statistics(self) -> dict[tuple[str, int], Mapping[str, int]]:
        if self._aggregated is None:
            self._aggregated = {}
            for entry in self._metric.aggregated:
                for aggregation, usage in entry.usage.items():
                    if usage:
                        self._aggregated[aggregation, entry.duration_ms] = usage
                        self._longest[aggregation] = max(
                            self._longest.get(aggregation, 0), entry.duration_ms
                        )
        return self._aggregated


def drop_lifetimes(metric: NodeMetric) -> NodeMetric:
    """Return the metric without lifetimes, which are part of the node's statistics."""
    return metric if metric.lifetimes is None else metric.model_copy(update={"lifetimes": None})


def check_amounts(metric: NodeMetric) -> Refusal | None:
    """Return a refusal that names the first impossible amount of a metric."""
    if (
        max(chain.from_iterable([amounts.values() for amounts in _list_amounts(metric)]), default=0)
        <= AMOUNT_MAX
    ):
        return None
    for where, usage in _name_amounts(metric):
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
    parts = _list_amounts(metric)
    limits = {name: capacity[name] for name in set().union(*parts) if capacity.get(name)}
    if not limits:
        return None
    if (
        find_impossible(
            {name: max([part.get(name, 0) for part in parts]) for name in limits}, limits
        )
        is None
    ):
        return None
    for where, usage in _name_amounts(metric):
        impossible = find_impossible(usage, limits)
        if impossible is not None:
            return Refusal("limit", f"{where}, {impossible}: check the source of the metric")
    return None


def _list_amounts(metric: NodeMetric) -> list[Mapping[str, int]]:
    """Return the amounts of `_name_amounts` without their places, which is faster."""
    amounts: list[Mapping[str, int]] = [pod.usage for pod in metric.pods]
    amounts += [host.usage for host in metric.host_applications]
    for entry in metric.aggregated:
        amounts += entry.usage.values()
    amounts.append(metric.system_usage)
    if metric.usage is not None:
        amounts.append(metric.usage)
    return amounts


def _name_amounts(metric: NodeMetric) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield all amounts with their place in the message."""
    if metric.usage is not None:
        yield "usage", metric.usage
    yield "system_usage", metric.system_usage
    for entry in metric.aggregated:
        for aggregation, usage in entry.usage.items():
            yield f"aggregated {aggregation}", usage
    for pod in metric.pods:
        yield "usage of a pod", pod.usage
    for host in metric.host_applications:
        yield "usage of a host application", host.usage
