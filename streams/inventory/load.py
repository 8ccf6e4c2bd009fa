"""What a node uses and, with the pods placed on it, is expected to use.

A metric says what a node used a while ago. Pods placed since are not in it, and pods that have just
started are in it with too little. Both are estimated until a metric is young enough to be believed;
the sums of those estimates are kept per node as pods and metrics come and go. Pods are counted by
one estimator while the node is judged by another, from the moment at which a policy estimates them
otherwise until the node's turn comes (`recount`).

This is Koordinator's pod-assign cache, with its rules for which event counts a pod and which is
overlooked. Source: docs/upstream.md A3, A4, A6.
"""

from schemas.metrics import NodeMetric
from schemas.nodes import NodeState
from schemas.pods import Pod
from streams.inventory.assigned import AssignedPod, Share, minus, plus, same_for_estimation, total
from streams.inventory.demand import PodDemand
from streams.inventory.estimate import Estimator, Vector
from streams.inventory.metric import MetricVectors
from streams.inventory.priority import priority_class
from streams.inventory.profile import node_profile, node_total

RESERVE_POD_ANNOTATION = "scheduling.koordinator.sh/reserve-pod"


def terminated(pod: Pod) -> bool:
    """The pod has run to its end."""
    return pod.phase in ("Succeeded", "Failed")


class NodeLoad:
    """Metric and assigned pods of one node, and their sums; vectors over the same resources."""

    __slots__ = (
        "_counted",
        "_delta",
        "_described",
        "_estimated",
        "_prod_delta",
        "_prod_usage",
        "_resources",
        "_total",
        "assigned",
        "counting",
        "estimator",
        "metric",
        "metric_time_ms",
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
        self.counting = counting or estimator
        self._described: NodeState | None = None
        self._resources = estimator.resources
        self._total = node_total(None, estimator.resources)
        self.profile = node_profile(None, estimator.resources, estimator.thresholds, self._total)
        self.metric: NodeMetric | None = None
        self.vectors: MetricVectors | None = None
        self.metric_time_ms: int | None = None
        """Update time that estimation goes by; a metric without one keeps the time before it."""
        self.assigned: dict[str, AssignedPod] = {}
        """By pod uid."""
        self._counted: MetricVectors | None = None
        """The metric over the resources by which pods are counted."""
        self._clear()

    def _clear(self) -> None:
        """No pod is counted; these are vectors over the resources of `counting`."""
        self.assigned = {}
        self._delta = self._prod_usage = self._prod_delta = self._estimated = self._zero()

    def _zero(self) -> Vector:
        return (0,) * len(self.counting.resources)

    @property
    def delta(self) -> Vector:
        """What estimates add to the node's usage."""
        return self._judged(self._delta)

    @property
    def prod_usage(self) -> Vector:
        """Measured usage of prod pods."""
        return self._judged(self._prod_usage)

    @property
    def prod_delta(self) -> Vector:
        """What estimates add to that."""
        return self._judged(self._prod_delta)

    @property
    def estimated(self) -> Vector:
        """Sum of all estimates, as if nothing had been measured."""
        return self._judged(self._estimated)

    def _judged(self, counted: Vector) -> Vector:
        """A sum over the resources of `estimator`; nothing was added up of one by which no pod was
        counted."""
        resources, own = self.estimator.resources, self.counting.resources
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
        if terminated(pod) or pod.annotations.get(RESERVE_POD_ANNOTATION) == "true":
            return False
        self._uncount(pod.uid)
        self._count(self._assigned(pod, demand, now_ms))
        return True

    def update(self, pod: Pod, demand: PodDemand, now_ms: int) -> bool:
        """A pod of this node changed; False if nothing that counts did."""
        if terminated(pod):
            return self.unassign(pod.uid)
        cached = self.assigned.get(pod.uid)
        if cached is not None and same_for_estimation(cached.pod, pod):
            return False
        return self.assign(pod, demand, now_ms)

    def unassign(self, uid: str) -> bool:
        """Stop counting a pod; False if it was not counted."""
        counted = self._uncount(uid)
        self._forget_time()
        return counted

    # --- metrics --------------------------------------------------------------------------------

    def set_metric(self, metric: NodeMetric) -> None:
        """Take over a new metric; it replaces the old one whole, but for a time that is missing."""
        self.metric = metric
        self._measure()
        if metric.updated_at_ms is not None:
            self.metric_time_ms = metric.updated_at_ms
        self._recount()

    def delete_metric(self) -> None:
        """The metric is gone; its time is kept while pods are counted here."""
        self.metric = None
        self._measure()
        self._forget_time()
        self._recount()

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

    def rebuild(self, estimator: Estimator, state: NodeState | None) -> bool:
        """Judge by another policy; pods are counted as before. False: it would count them alike."""
        before = self.estimator
        alike = self.counting is before and before.counts_like(estimator)
        self.estimator = estimator
        if alike:
            self.counting = estimator
        elif before.resources != estimator.resources:
            self.vectors = self._over(estimator)
        self.describe(state)
        return not alike

    def count_by(self, counting: Estimator) -> None:
        """Count pods anew, unless the other estimator counts them alike."""
        before, self.counting = self.counting, counting
        if counting.counts_like(before):
            return
        if before.resources != counting.resources:
            self._counted = self._over(counting)
        self.assigned = {
            uid: self._assigned(old.pod, old.demand, old.cached_at_ms)
            for uid, old in self.assigned.items()
        }
        self._estimated = total(self._zero(), [pod.estimate for pod in self.assigned.values()])
        self._recount()

    def _measure(self) -> None:
        """The metric over the resources that judge the node, and over those that count pods."""
        self.vectors = self._counted = None
        self.vectors = self._over(self.estimator)
        self._counted = self._over(self.counting)

    def _over(self, estimator: Estimator) -> MetricVectors | None:
        """The metric over the resources of an estimator; one for both, where these are the same."""
        for vectors in (self.vectors, self._counted):
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

    @property
    def measured(self) -> MetricVectors | None:
        """The metric over the resources by which pods are counted: its pods were read for that."""
        return self._counted

    @property
    def lacking(self) -> tuple[tuple[str, int], ...]:
        """Statistics that filter and score go by and the metric has not: aggregation and duration
        in ms.

        Expected usage is then the sum of the estimates of all pods (docs/upstream.md X9).
        """
        vectors = self.vectors
        if vectors is None or vectors.node is None:
            return ()
        asked: list[tuple[str | None, int]] = []
        if self.profile.most is not None:
            asked.append((self.profile.aggregation, self.profile.aggregated_ms))
        scored = self.estimator.args.aggregated
        if scored is not None:
            kind = scored.score_aggregation_type or None
            asked.append((kind, scored.score_aggregated_duration_ms))
        return tuple(
            dict.fromkeys(
                (kind, duration_ms)
                for kind, duration_ms in asked
                if kind is not None and vectors.usage(kind, duration_ms) is None
            )
        )

    def expected_prod(self) -> Vector:
        """Expected usage of the node's prod pods, with the system's if the policy says so."""
        expected = plus(self.prod_usage, self.prod_delta)
        if self.vectors is not None and self.estimator.args.prod_usage_include_sys:
            expected = plus(expected, self.vectors.system)
        return expected

    # --- sums -----------------------------------------------------------------------------------

    def _assigned(self, pod: Pod, demand: PodDemand, cached_at_ms: int) -> AssignedPod:
        of_class = priority_class(pod, demand)
        timestamp_ms = cached_at_ms if pod.scheduled_at_ms is None else pod.scheduled_at_ms
        estimate = self.counting.estimate(pod, demand, of_class)
        added = estimate
        if min(estimate, default=0) < 0:
            added = tuple([max(0, expected) for expected in estimate])
        return AssignedPod(
            pod=pod,
            demand=demand,
            cached_at_ms=cached_at_ms,
            prod=of_class == "prod",
            estimate=estimate,
            added=added,
            timestamp_ms=timestamp_ms,
            deadline_ms=self.counting.deadline_ms(pod, timestamp_ms),
        )

    def _count(self, assigned: AssignedPod) -> None:
        share = self._share(assigned, self._zero())
        self.assigned[assigned.pod.uid] = assigned
        self._delta = plus(self._delta, share.delta)
        if any(share.prod_usage):
            self._prod_usage = plus(self._prod_usage, share.prod_usage)
        self._prod_delta = plus(self._prod_delta, share.prod_delta)
        self._estimated = plus(self._estimated, assigned.estimate)

    def _uncount(self, uid: str) -> bool:
        assigned = self.assigned.pop(uid, None)
        if assigned is None:
            return False
        share = self._share(assigned, self._zero())
        self._delta = minus(self._delta, share.delta)
        self._prod_usage = minus(self._prod_usage, share.prod_usage)
        self._prod_delta = minus(self._prod_delta, share.prod_delta)
        self._estimated = minus(self._estimated, assigned.estimate)
        return True

    def _share(self, assigned: AssignedPod, zero: Vector) -> Share:
        """What a pod adds to the sums.

        It follows from the pod and the metric alone, so it is not kept: until all pods are counted
        anew a pod is taken out as it was put in.
        """
        pod, added = assigned.pod, assigned.added
        vectors = self._counted
        measured = None if vectors is None else vectors.pods.get((pod.namespace, pod.name))
        if vectors is None or measured is None:
            return Share(added, zero, added if assigned.prod else zero)
        usage, known_as_prod = measured
        beyond, updated_ms, deadline_ms = zero, self.metric_time_ms, assigned.deadline_ms
        # The metric may be too young a witness of this pod: then its estimate counts (A4.3).
        if (
            updated_ms is None
            or updated_ms - vectors.report_interval_ms < assigned.timestamp_ms
            or (deadline_ms is not None and deadline_ms > updated_ms)
        ):
            beyond = tuple(
                [
                    expected - used if expected > used else 0
                    for expected, used in zip(added, usage, strict=True)
                ]
            )
        if not assigned.prod:
            return Share(beyond, zero, zero)
        if known_as_prod:
            return Share(beyond, usage, beyond)
        # The node's agent counts it in another class: none of its usage is known as prod usage.
        return Share(beyond, zero, added)

    def _recount(self) -> None:
        """Count all pods anew: as `_count` for each, but the sums are added up once."""
        zero, share = self._zero(), self._share
        shares = [share(pod, zero) for pod in self.assigned.values()]
        # Most pods of most nodes have been measured for long and add nothing.
        self._delta = total(zero, [each.delta for each in shares if each.delta is not zero])
        self._prod_usage = total(
            zero, [each.prod_usage for each in shares if each.prod_usage is not zero]
        )
        self._prod_delta = total(
            zero, [each.prod_delta for each in shares if each.prod_delta is not zero]
        )

    def _forget_time(self) -> None:
        if self.metric is None and not self.assigned:
            self.metric_time_ms = None
