"""A node metric as vectors over the resources of the policy.

Source: docs/upstream.md A3.1 and A6.9. A resource list that is empty was not measured; a list that
lacks a resource says 0 of it.
"""

from collections.abc import Iterator, Mapping

from schemas.base import AMOUNT_MAX
from schemas.metrics import NodeMetric
from schemas.refusals import Refusal
from streams.inventory.estimate import Estimator, Vector

#: Report interval of a metric that does not name its own.
REPORT_INTERVAL_DEFAULT_MS = 60_000

PROD_CLASS = "koord-prod"


class MetricVectors:
    """Figures of one node metric."""

    __slots__ = (
        "_metric",
        "_pods",
        "_vector",
        "aggregated",
        "longest",
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
        self.aggregated: dict[tuple[str, int], Vector] = {}
        """By aggregation type and duration; of equal entries the later one counts."""
        self.longest: dict[str, int] = {}
        """Longest duration measured, by aggregation type."""
        for entry in metric.aggregated:
            for aggregation, usage in entry.usage.items():
                if usage:
                    self.aggregated[aggregation, entry.duration_ms] = vector(usage)
                    self.longest[aggregation] = max(
                        self.longest.get(aggregation, 0), entry.duration_ms
                    )

    @property
    def pods(self) -> dict[tuple[str, str], tuple[Vector, bool]]:
        """Usage by namespace and name, and whether the node's agent knows the pod as prod."""
        if self._pods is None:
            found: dict[tuple[str, str], tuple[Vector, bool]] = {}
            vector = self._vector
            for pod in self._metric.pods:
                if pod.usage:
                    key = (pod.namespace, pod.name)
                    known_as_prod = pod.priority_class == PROD_CLASS or (
                        key in found and found[key][1]
                    )
                    found[key] = (vector(pod.usage), known_as_prod)
            self._pods = found
        return self._pods

    def usage(self, aggregation: str, duration_ms: int) -> Vector | None:
        """Usage by aggregation type over a duration; 0 means the longest one measured.

        None: an explicit duration was not measured. A duration of 0 falls back to the node's
        average.
        """
        if duration_ms:
            return self.aggregated.get((aggregation, duration_ms))
        longest = self.longest.get(aggregation)
        return self.node if longest is None else self.aggregated[aggregation, longest]


def without_lives(metric: NodeMetric) -> NodeMetric:
    """The metric as it is kept: what it says of lives is kept with these."""
    if all(pod.life is None for pod in metric.pods):
        return metric
    pods = tuple([pod.model_copy(update={"life": None}) for pod in metric.pods])
    return metric.model_copy(update={"pods": pods})


def beyond_any_machine(metric: NodeMetric) -> Refusal | None:
    """A refusal if an amount of a metric cannot have been measured; names the first one."""
    if all(not each or max(each.values()) <= AMOUNT_MAX for _, each in _usages(metric)):
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


def _usages(metric: NodeMetric) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Every list of amounts, with its place in the message."""
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
