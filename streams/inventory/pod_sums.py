"""The pods that a node counts, and the sums of what they add to its usage.

A metric says what a node used a while ago. Pods placed since are not in it, and pods that have just
started are in it with too little. Both are estimated until a metric is young enough to be believed;
the sums of those estimates are kept per node as pods and metrics come and go.

This is Koordinator's pod-assign cache, with its rules for which event counts a pod and which is
overlooked. Source: docs/upstream.md A3, A4, A6.
"""

from collections.abc import Mapping

from schemas.messages.pods import Pod
from streams.inventory.assigned import (
    AssignedPod,
    Share,
    minus,
    plus,
    same_for_estimation,
    total,
)
from streams.inventory.demand import PodDemand
from streams.inventory.estimate import Estimator, Vector
from streams.inventory.metric import MetricVectors
from streams.inventory.priority import priority_class

#: A pod's usage, and whether the node's agent knows it as prod.
_Measured = tuple[Vector, bool]
_NO_PODS: Mapping[tuple[str, str], _Measured] = {}

RESERVE_POD_ANNOTATION = "scheduling.koordinator.sh/reserve-pod"


def _beyond(added: Vector, usage: Vector) -> Vector:
    """By how much an estimate is above usage, per resource."""
    return tuple([max(0, expected - used) for expected, used in zip(added, usage, strict=True)])


def terminated(pod: Pod) -> bool:
    """The pod has run to its end."""
    return pod.phase in ("Succeeded", "Failed")


class PodSums:
    """Pods assigned to one node, by an estimator; sums are vectors over its resources."""

    __slots__ = (
        "assigned",
        "delta",
        "estimated",
        "estimator",
        "metric",
        "metric_time_ms",
        "prod_delta",
        "prod_usage",
    )

    def __init__(self, estimator: Estimator) -> None:
        """Without pods."""
        self.estimator = estimator
        self.metric: MetricVectors | None = None
        """Over the estimator's resources."""
        self.metric_time_ms: int | None = None
        """Update time that estimation goes by; a metric without one keeps the time before it."""
        self.assigned: dict[str, AssignedPod] = {}
        """By pod uid."""
        self.delta: Vector
        """What estimates add to the node's usage."""
        self.prod_usage: Vector
        """Measured usage of prod pods."""
        self.prod_delta: Vector
        """What estimates add to that."""
        self.estimated: Vector
        """Sum of all estimates, as if nothing had been measured."""
        self.delta = self.prod_usage = self.prod_delta = self.estimated = self._zero()

    def _zero(self) -> Vector:
        return (0,) * len(self.estimator.resources)

    # --- what comes and goes --------------------------------------------------------------------

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

    def measure(self, metric: MetricVectors | None, updated_at_ms: int | None) -> None:
        """Go by another metric, or by none; its time is kept while pods are counted here."""
        self.metric = metric
        if updated_at_ms is not None:
            self.metric_time_ms = updated_at_ms
        self._forget_time()
        self._recount()

    def count_by(self, estimator: Estimator, metric: MetricVectors | None) -> None:
        """Count pods anew by another estimator.

        Args:
            estimator: the other one.
            metric: the one in force, over its resources.
        """
        self.estimator, self.metric = estimator, metric
        self.assigned = {
            uid: self._assigned(old.pod, old.demand, old.cached_at_ms)
            for uid, old in self.assigned.items()
        }
        self.estimated = total(
            self._zero(), [pod.estimate.expected for pod in self.assigned.values()]
        )
        self._recount()

    # --- sums -----------------------------------------------------------------------------------

    def _assigned(self, pod: Pod, demand: PodDemand, cached_at_ms: int) -> AssignedPod:
        timestamp_ms = cached_at_ms if pod.scheduled_at_ms is None else pod.scheduled_at_ms
        of_class = priority_class(pod, demand)
        return AssignedPod(
            pod=pod,
            demand=demand,
            cached_at_ms=cached_at_ms,
            prod=of_class == "prod",
            estimate=self.estimator.estimate(pod, demand, of_class),
            timestamp_ms=timestamp_ms,
            deadline_ms=self.estimator.deadline_ms(pod, timestamp_ms),
        )

    def _count(self, assigned: AssignedPod) -> None:
        measured = self._measured(assigned)
        share = self._share(assigned, measured, self._zero())
        self.assigned[assigned.pod.uid] = assigned
        self.delta = plus(self.delta, share.delta)
        if any(share.prod_usage):
            self.prod_usage = plus(self.prod_usage, share.prod_usage)
        self.prod_delta = plus(self.prod_delta, share.prod_delta)
        self.estimated = plus(self.estimated, assigned.estimate.expected)

    def _uncount(self, uid: str) -> bool:
        assigned = self.assigned.pop(uid, None)
        if assigned is None:
            return False
        share = self._share(assigned, self._measured(assigned), self._zero())
        self.delta = minus(self.delta, share.delta)
        self.prod_usage = minus(self.prod_usage, share.prod_usage)
        self.prod_delta = minus(self.prod_delta, share.prod_delta)
        self.estimated = minus(self.estimated, assigned.estimate.expected)
        return True

    def _measured(self, assigned: AssignedPod) -> _Measured | None:
        """What the metric says of a pod; none: nothing."""
        pod, vectors = assigned.pod, self.metric
        return None if vectors is None else vectors.pods.get((pod.namespace, pod.name))

    def _share(self, assigned: AssignedPod, measured: _Measured | None, zero: Vector) -> Share:
        """What a pod adds to the sums; `measured`: what the metric says of it.

        It follows from the pod and the metric alone, so it is not kept: until all pods are counted
        anew a pod is taken out as it was put in.
        """
        added = assigned.estimate.added
        if measured is None:
            return Share(added, zero, added if assigned.prod else zero)
        usage, known_as_prod = measured
        beyond = zero
        if not self._witnessed(assigned, self._witness_ms):
            beyond = _beyond(added, usage)
        if not assigned.prod:
            return Share(beyond, zero, zero)
        if known_as_prod:
            return Share(beyond, usage, beyond)
        # The node's agent counts it in another class: none of its usage is known as prod usage.
        return Share(beyond, zero, added)

    @property
    def _witness_ms(self) -> int | None:
        """Pods that are there since then or longer are in the metric as they are; none: no pod is."""
        vectors, updated_ms = self.metric, self.metric_time_ms
        if vectors is None or updated_ms is None:
            return None
        return updated_ms - vectors.report_interval_ms

    def _witnessed(self, assigned: AssignedPod, witness_ms: int | None) -> bool:
        """The metric shows a pod that it measures as it is, so that its estimate does not count.

        Too young a metric does not (docs/upstream.md A4.3).
        """
        if witness_ms is None or witness_ms < assigned.timestamp_ms:
            return False
        deadline_ms = assigned.deadline_ms
        return deadline_ms is None or deadline_ms <= (self.metric_time_ms or 0)

    def _recount(self) -> None:
        """Count all pods anew: as `_count` for each, but the sums are added up once."""
        zero, witness_ms = self._zero(), self._witness_ms
        measured = self.metric.pods if self.metric is not None and self.assigned else _NO_PODS
        shares: list[Share] = []
        prod_usage: list[Vector] = []
        for assigned in self.assigned.values():
            pod = assigned.pod
            known = measured.get((pod.namespace, pod.name))
            # Most pods of most nodes have been measured for long and add nothing: see `_share`.
            if (
                known is None
                or witness_ms is None
                or witness_ms < assigned.timestamp_ms
                or assigned.deadline_ms is not None
                or (assigned.prod and not known[1])
            ):
                shares.append(self._share(assigned, known, zero))
            elif assigned.prod:
                prod_usage.append(known[0])
        self.delta = total(zero, [each.delta for each in shares if each.delta is not zero])
        prod_usage += [each.prod_usage for each in shares if each.prod_usage is not zero]
        self.prod_usage = total(zero, prod_usage)
        self.prod_delta = total(
            zero, [each.prod_delta for each in shares if each.prod_delta is not zero]
        )

    def _forget_time(self) -> None:
        if self.metric is None and not self.assigned:
            self.metric_time_ms = None
