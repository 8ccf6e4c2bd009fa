"""What a node uses and, with the pods placed on it, is expected to use.

Measured usage is the metric's; what is not in it yet are the sums of `pod_sums`. Pods are counted by
one estimator while the node is judged by another, from the moment at which a policy estimates them
otherwise until the node's turn comes (`recount`).

Source: docs/upstream.md A3, A4, A6.
"""

from typing import NamedTuple

from schemas.metrics import NodeMetric
from schemas.nodes import NodeState
from schemas.pods import Pod
from streams.inventory.assigned import plus
from streams.inventory.demand import PodDemand
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
    """Metric and assigned pods of one node; vectors over the resources that judge it."""

    __slots__ = (
        "_described",
        "_resources",
        "_total",
        "estimator",
        "metric",
        "pods",
        "profile",
        "vectors",
    )

    def __init__(self, estimator: Estimator, counting: Estimator | None = None) -> None:
        """Without pods.

        Args:
            estimator: judges the node.
            counting: counts its pods; none: the same.
        """
        self.estimator = estimator
        self.pods = PodSums(counting or estimator)
        self._described: NodeState | None = None
        self._resources = estimator.resources
        self._total = node_total(None, estimator.resources)
        self.profile = node_profile(None, estimator.resources, estimator.thresholds, self._total)
        self.metric: NodeMetric | None = None
        self.vectors: MetricVectors | None = None

    @property
    def delta(self) -> Vector:
        """What estimates add to the node's usage."""
        return self._judged(self.pods.delta)

    @property
    def prod_usage(self) -> Vector:
        """Measured usage of prod pods."""
        return self._judged(self.pods.prod_usage)

    @property
    def prod_delta(self) -> Vector:
        """What estimates add to that."""
        return self._judged(self.pods.prod_delta)

    @property
    def estimated(self) -> Vector:
        """Sum of all estimates, as if nothing had been measured."""
        return self._judged(self.pods.estimated)

    def _judged(self, counted: Vector) -> Vector:
        """A sum over the resources of `estimator`; nothing was added up of one by which no pod was
        counted."""
        resources, own = self.estimator.resources, self.pods.estimator.resources
        if own is resources or own == resources:
            return counted
        return self.estimator.vector(dict(zip(own, counted, strict=True)))

    def describe(self, state: NodeState | None) -> None:
        """Take over what Kubernetes says of the node."""
        resources = self.estimator.resources
        if state is None or state is not self._described or resources != self._resources:
            self._total = node_total(state, resources)
        self._described, self._resources = state, resources
        self.profile = node_profile(state, resources, self.estimator.thresholds, self._total)

    # --- pods -----------------------------------------------------------------------------------

    def assign(self, pod: Pod, demand: PodDemand, now_ms: int) -> bool:
        """Count a pod from now on, replacing what was counted for it; False if it never counts."""
        return self.pods.assign(pod, demand, now_ms)

    def update(self, pod: Pod, demand: PodDemand, now_ms: int) -> bool:
        """A pod of this node changed; False if nothing that counts did."""
        return self.pods.update(pod, demand, now_ms)

    def unassign(self, uid: str) -> bool:
        """Stop counting a pod; False if it was not counted."""
        return self.pods.unassign(uid)

    # --- metrics --------------------------------------------------------------------------------

    def set_metric(self, metric: NodeMetric) -> None:
        """Take over a new metric; it replaces the old one whole, but for a time that is missing."""
        self.metric = metric
        self.vectors = self.pods.metric = None
        self.vectors = self._over(self.estimator)
        self.pods.measure(self._over(self.pods.estimator), metric.updated_at_ms)

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

    def rebuild(self, estimator: Estimator, state: NodeState | None) -> bool:
        """Judge by another policy; pods are counted as before. False: it would count them alike."""
        before = self.estimator
        alike = self.pods.estimator is before and before.counts_like(estimator)
        self.estimator = estimator
        if alike:
            self.pods.estimator = estimator
        elif before.resources != estimator.resources:
            self.vectors = self._over(estimator)
        self.describe(state)
        return not alike

    def count_by(self, counting: Estimator) -> None:
        """Count pods anew, unless the other estimator counts them alike."""
        if counting.counts_like(self.pods.estimator):
            self.pods.estimator = counting
        else:
            self.pods.count_by(counting, self._over(counting))

    def _over(self, estimator: Estimator) -> MetricVectors | None:
        """The metric over the resources of an estimator; one for both, where these are the same."""
        for vectors in (self.vectors, self.pods.metric):
            if vectors is not None and vectors.resources == estimator.resources:
                return vectors
        return None if self.metric is None else MetricVectors(self.metric, estimator)

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
            return plus(self.vectors.node, self.delta)
        usage = self.vectors.usage(aggregation, duration_ms)
        return self.estimated if usage is None else plus(usage, self.delta)

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
        expected = plus(self.prod_usage, self.prod_delta)
        if self.vectors is not None and self.estimator.args.prod_usage_include_sys:
            expected = plus(expected, self.vectors.system)
        return expected
