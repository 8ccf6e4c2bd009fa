"""A node metric as vectors over the resources of the policy.

Source: docs/upstream.md A3.1 and A6.9. A resource list that is empty was not measured; a list that
lacks a resource says 0 of it.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from schemas.base.message import AMOUNT_MAX
from schemas.base.refusals import Refusal
from schemas.messages.metrics import NodeMetric
from streams.usage.estimate import Estimator
from streams.usage.vectors import Vector

#: Report interval of a metric that does not name its own.
REPORT_INTERVAL_DEFAULT_MS = 60_000

PROD_CLASS = "koord-prod"


class MetricVectors:
    """Figures of one node metric."""

    __slots__ = (
        "_aggregated",
        "_longest",
        "_metric",
        "_pods",
        "_vector",
        "node",
        "report_interval_ms",
        "resources",
        "system",
    )

    def __init__(self, metric: NodeMetric, estimator: Estimator) -> None:
        self._metric = metric
        self._pods: dict[tuple[str, str], tuple[Vector, bool]] | None = None
        self._vector = vector = estimator.vector
        self.resources = estimator.resources
        self.node: Vector | None = None if metric.usage is None else vector(metric.usage)
        self.system: Vector = vector(metric.system_usage)
        self.report_interval_ms = (
            REPORT_INTERVAL_DEFAULT_MS
            if metric.report_interval_ms is None
            else metric.report_interval_ms
        )
        self._aggregated: dict[tuple[str, int], Mapping[str, int]] | None = None
        """By aggregation type and duration; the last of equal entries counts. None: not read yet,
        as under a policy that uses averages."""
        self._longest: dict[str, int] = {}
        """Longest duration measured, by aggregation type."""

    @property
    def pods(self) -> dict[tuple[str, str], tuple[Vector, bool]]:
        """Usage by namespace and name, and whether the node's agent knows the pod as prod."""
        if self._pods is None:
            found: dict[tuple[str, str], tuple[Vector, bool]] = {}
            vector = self._vector
            for pod in self._metric.pods:
                usage = pod.usage
                if usage:
                    key = (pod.namespace, pod.name)
                    known_as_prod = pod.priority_class == PROD_CLASS or (
                        key in found and found[key][1]
                    )
                    found[key] = (vector(usage), known_as_prod)
            self._pods = found
        return self._pods

    def usage(self, aggregation: str, duration_ms: int) -> Vector | None:
        """Return usage by aggregation type over a duration; 0 means the longest one measured.

        None: an explicit duration was not measured. A duration of 0 falls back to the node's
        average.
        """
        measured = self._statistics()
        if not duration_ms:
            longest = self._longest.get(aggregation)
            if longest is None:
                return self.node
            duration_ms = longest
        usage = measured.get((aggregation, duration_ms))
        return None if usage is None else self._vector(usage)

    def _statistics(self) -> dict[tuple[str, int], Mapping[str, int]]:
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
    """Return the metric as a node keeps it: lifetimes are part of its statistics."""
    return metric if metric.lifetimes is None else metric.model_copy(update={"lifetimes": None})


def check_amounts(metric: NodeMetric) -> Refusal | None:
    """Return a refusal that names the first amount of a metric that cannot have been measured."""
    if (
        max(chain.from_iterable([each.values() for each in _amounts(metric)]), default=0)
        <= AMOUNT_MAX
    ):
        return None
    for where, usage in _usages(metric):
        for resource, used in usage.items():
            if used > AMOUNT_MAX:
                return Refusal(
                    "limit",
                    f"{where}, {resource}: {used} was measured; allowed are at most {AMOUNT_MAX} (2^50), "
                    "more than any machine has: look at what measures it",
                )
    return None


def _amounts(metric: NodeMetric) -> list[Mapping[str, int]]:
    """Return the amounts of `_usages` without their places: faster, for the common case."""
    found: list[Mapping[str, int]] = [pod.usage for pod in metric.pods]
    found += [host.usage for host in metric.host_applications]
    for entry in metric.aggregated:
        found += entry.usage.values()
    found.append(metric.system_usage)
    if metric.usage is not None:
        found.append(metric.usage)
    return found


def _usages(metric: NodeMetric) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield every list of amounts, with its place in the message."""
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
