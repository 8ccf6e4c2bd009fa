"""What a node uses and, with the pods placed on it, is expected to use.

Measured usage is the metric's; what is not in it yet are the sums of `pod_sums`.

Source: docs/upstream.md A3, A4, A6.
"""

from typing import NamedTuple

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from streams.inventory.assigned import plus
from streams.inventory.estimate import Estimator, Vector
from streams.inventory.metric import MetricVectors
from streams.inventory.pod_sums import PodSums
from streams.inventory.profile import node_profile, node_total

#: Pods that a statistic may be asked for, as bits: those of DaemonSets pass the filter unasked, and
#: prod pods may be judged by their own usage, of which no statistic but the mean is known.
JUDGED, JUDGED_PROD, DAEMONS, DAEMONS_PROD = 1, 2, 4, 8


class Lacking(NamedTuple):
    """A statistic of a node that its metric has not."""

    aggregation: str
    duration_ms: int
    whom: int
    """For which pods it is asked, as bits."""


def whose_statistics(*, prod: bool, daemon: bool) -> int:
    """The bit of a kind of pods."""
    if daemon:
        return DAEMONS_PROD if prod else DAEMONS
    return JUDGED_PROD if prod else JUDGED


class NodeLoad:
    """Metric and assigned pods of one node; vectors over the resources of its estimator."""

    __slots__ = (
        "_described",
        "_total",
        "estimator",
        "metric",
        "pods",
        "profile",
        "vectors",
    )

    def __init__(self, estimator: Estimator) -> None:
        """Without pods."""
        self.estimator = estimator
        self.pods = PodSums(estimator)
        self.vectors: MetricVectors | None = None
        self.metric: NodeMetric | None = None
        self._described: NodeState | None = None
        self._total = node_total(None, estimator.resources)
        self.profile = node_profile(None, estimator.resources, estimator.thresholds, self._total)

    def describe(self, state: NodeState | None) -> None:
        """Take over what Kubernetes says of the node."""
        if state is None or state is not self._described:
            self._total = node_total(state, self.estimator.resources)
        self._described = state
        self.set_thresholds()

    def set_thresholds(self) -> None:
        """Take over the estimator's thresholds, except where the node has its own."""
        estimator = self.estimator
        self.profile = node_profile(
            self._described, estimator.resources, estimator.thresholds, self._total
        )

    # --- metrics --------------------------------------------------------------------------------

    def set_metric(self, metric: NodeMetric) -> None:
        """Take over a new metric; it replaces the old one whole, but for a time that is missing."""
        self.metric = metric
        self.vectors = MetricVectors(metric, self.estimator)
        self.pods.measure(self.vectors, metric.updated_at_ms)

    def delete_metric(self) -> None:
        """The metric is gone; its time is kept while pods are counted here."""
        self.metric = self.vectors = None
        self.pods.measure(None, None)

    @property
    def expires_at_ms(self) -> int | None:
        """When the metric becomes too old; none: there is none, or it does not say how old it is."""
        if self.metric is None or self.metric.updated_at_ms is None:
            return None
        limit_ms = self.estimator.args.node_metric_expiration_seconds * 1000
        return self.metric.updated_at_ms + limit_ms

    def expired(self, now_ms: int) -> bool:
        """The metric is too old to be believed, or does not say how old it is."""
        expires_at_ms = self.expires_at_ms
        return expires_at_ms is None or now_ms >= expires_at_ms

    def outdated(self, now_ms: int) -> bool:
        """There is a metric that says how old it is, and it is too old."""
        return self.expires_at_ms is not None and self.expired(now_ms)

    def set_estimator(self, estimator: Estimator) -> bool:
        """Judge by another policy. Returns False if it estimates all pods as the one before."""
        before, self.estimator = self.estimator, estimator
        if before.counts_like(estimator):
            self.pods.estimator = estimator
            self.set_thresholds()
            return False
        if before.resources != estimator.resources:
            self._total = node_total(self._described, estimator.resources)
            if self.metric is not None:
                self.vectors = MetricVectors(self.metric, estimator)
        self.set_thresholds()
        self.pods.count_by(estimator, self.vectors)
        return True

    # --- figures --------------------------------------------------------------------------------

    def expected(self, aggregation: str | None, duration_ms: int) -> Vector:
        """Expected usage of the node, without the pod that is being placed.

        Args:
            aggregation: avg, p50 ...; None: the node's average.
            duration_ms: 0: the longest measured. A duration that was not measured means that
                nothing is known of the usage: then it is the sum of the estimates of all pods.
        """
        if self.vectors is None or self.vectors.node is None:
            raise ValueError("expected usage of a node without usage: check `vectors` first")
        if aggregation is None:
            return plus(self.vectors.node, self.pods.delta)
        usage = self.vectors.usage(aggregation, duration_ms)
        return self.pods.estimated if usage is None else plus(usage, self.pods.delta)

    def lacking(self, *, filtered: bool, scored: bool) -> tuple[Lacking, ...]:
        """Statistics that the filter and the score by load go by and the metric has not.

        Expected usage is then the sum of the estimates of all pods (docs/upstream.md X9).

        Args:
            filtered: the filter is enabled.
            scored: the score is.
        """
        vectors = self.vectors
        if vectors is None or vectors.node is None:
            return ()
        args, profile = self.estimator.args, self.profile
        asked: list[tuple[str | None, int, int]] = []
        if filtered and profile.most is not None:
            of_prod_too = profile.most_prod is None or args.check_both
            whom = JUDGED | (JUDGED_PROD if of_prod_too else 0)
            asked.append((profile.aggregation, profile.aggregated_ms, whom))
        if scored and args.aggregated is not None:
            whom = JUDGED | DAEMONS
            if not args.score_according_prod_usage:
                whom |= JUDGED_PROD | DAEMONS_PROD
            by, over_ms = (
                args.aggregated.score_aggregation_type,
                args.aggregated.score_aggregated_duration_ms,
            )
            asked.append((by or None, over_ms, whom))
        found: dict[tuple[str, int], int] = {}
        for kind, duration_ms, whom in asked:
            if kind is not None and vectors.usage(kind, duration_ms) is None:
                found[kind, duration_ms] = found.get((kind, duration_ms), 0) | whom
        return tuple([Lacking(*statistic, whom) for statistic, whom in found.items()])

    def expected_prod(self) -> Vector:
        """Expected usage of the node's prod pods, with the system's if the policy says so."""
        expected = plus(self.pods.prod_usage, self.pods.prod_delta)
        if self.vectors is not None and self.estimator.args.prod_usage_include_sys:
            expected = plus(expected, self.vectors.system)
        return expected
