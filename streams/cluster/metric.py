"""A node metric as vectors over the resources of the policy.

Source: koordinator.md A3.1 and A6.9. A resource list that is empty was not measured; a list that
lacks a resource says 0 of it.
"""

from schemas.metrics import NodeMetric
from streams.cluster.estimate import Estimator, Vector

#: Report interval of a metric that does not name its own.
REPORT_INTERVAL_DEFAULT_MS = 60_000

PROD_CLASS = "koord-prod"


class MetricVectors:
    """Figures of one node metric."""

    __slots__ = ("aggregated", "longest", "node", "pods", "report_interval_ms", "system")

    def __init__(self, metric: NodeMetric, estimator: Estimator) -> None:
        vector = estimator.vector
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
        self.pods: dict[tuple[str, str], tuple[Vector, bool]] = {}
        """Usage by namespace and name, and whether the node's agent knows the pod as prod."""
        for pod in metric.pods:
            if pod.usage:
                key = (pod.namespace, pod.name)
                known_as_prod = pod.priority_class == PROD_CLASS or (
                    key in self.pods and self.pods[key][1]
                )
                self.pods[key] = (vector(pod.usage), known_as_prod)

    def usage(self, aggregation: str, duration_ms: int) -> Vector | None:
        """Usage by aggregation type over a duration; 0 means the longest one measured.

        None: an explicit duration was not measured. A duration of 0 falls back to the node's average.
        """
        if duration_ms:
            return self.aggregated.get((aggregation, duration_ms))
        longest = self.longest.get(aggregation)
        return self.node if longest is None else self.aggregated[aggregation, longest]
