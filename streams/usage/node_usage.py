"""Expected usage of one node: its metric, and estimates of pods that the metric does not fully show yet.

A metric shows past usage. It does not contain pods that were placed later, and it shows too little usage of
pods that have just started. Estimates of these pods count until a later metric shows their full usage. The
sums of estimates are updated with each pod and metric.

The assigned pods are those of Koordinator's pod-assign cache, and the same events change them.
Source: docs/reference/upstream.md A3, A4, A6.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from schemas.messages.metrics import NodeMetric
from schemas.messages.pods import Pod
from streams.pods.kind import Kind
from streams.usage.estimate import Estimate, Estimator
from streams.usage.metric import MetricVectors
from streams.usage.thresholds import build_profile
from streams.usage.vectors import UNKNOWN, Vector, add, subtract, sum_vectors

#: Usage of a pod, and whether it counts as prod usage.
_Measured = tuple[Vector, bool]
_NO_PODS: Mapping[tuple[str, str], _Measured] = {}

RESERVE_POD_ANNOTATION = "scheduling.koordinator.sh/reserve-pod"


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """State of a pod when it was last counted; later changes of its labels are ignored."""

    pod: Pod
    kind: Kind
    counted_at_ms: int
    estimate: Estimate
    timestamp_ms: int
    """Time when the pod was scheduled, else when it was counted."""
    deadline_ms: int | None
    """The estimate counts until a metric is at least as new, even if older metrics show the pod."""


class Share(NamedTuple):
    """Amounts that one pod adds to the sums of the node."""

    delta: Vector
    prod_usage: Vector
    prod_delta: Vector


def is_same_for_estimation(cached: Pod, pod: Pod) -> bool:
    """Tell whether a pod needs no new estimate; changes of labels and annotations alone do not matter."""
    return (
        # Metrics identify pods by namespace and name.
        (cached.namespace, cached.name) == (pod.namespace, pod.name)
        and cached.node == pod.node
        and cached.scheduled_at_ms == pod.scheduled_at_ms
        and cached.initialized_at_ms == pod.initialized_at_ms
        and cached.priority == pod.priority
        and cached.qos_class == pod.qos_class
        and cached.containers == pod.containers
        and cached.init_containers == pod.init_containers
        and cached.overhead == pod.overhead
    )


class ExpectedNodeUsage:
    """Metric and assigned pods of one node; vectors over the resources of its estimator."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.metric: NodeMetric | None = None
        self.vectors: MetricVectors | None = None
        """The metric as vectors."""
        self.metric_time_ms: int | None = None
        """Update time for estimation; a metric without update time keeps the earlier one."""
        self.expires_at_ms: int | None = None
        """Time when the metric expires; None without a metric, or if the metric has no update time."""
        self.profile = build_profile({}, {}, estimator.resources, estimator.thresholds)
        self.assigned: dict[str, AssignedPod] = {}
        """By uid of the pod."""
        self.delta: Vector
        """Sum that estimates add to the node's usage."""
        self.prod_usage: Vector
        """Measured usage of prod pods."""
        self.prod_delta: Vector
        """Sum that estimates add to `prod_usage`."""
        self.estimated: Vector
        """Sum of the estimates of all pods."""
        self.delta = self.prod_usage = self.prod_delta = self.estimated = self._zero()

    def _zero(self) -> Vector:
        return (0,) * len(self.estimator.resources)

    # --- policy and metric ----------------------------------------------------------------------

    def set_profile(self, capacity: Mapping[str, int], annotations: Mapping[str, str]) -> None:
        estimator = self.estimator
        self.profile = build_profile(
            capacity, annotations, estimator.resources, estimator.thresholds
        )

    def set_estimator(self, estimator: Estimator) -> bool:
        """Apply another estimator; return whether estimates may change. The caller sets the profile."""
        before, self.estimator = self.estimator, estimator
        self._update_expiry()
        if before.has_same_estimates(estimator):
            return False
        if self.metric is not None and (
            before.resources != estimator.resources
            or before.follows_koordinator != estimator.follows_koordinator
        ):
            self.vectors = MetricVectors(self.metric, estimator)
        self.restore([(old.pod, old.kind, old.counted_at_ms) for old in self.assigned.values()])
        return True

    def set_metric(self, metric: NodeMetric | None) -> None:
        """Replace the metric; None if it was removed."""
        self.metric = metric
        self.vectors = None if metric is None else MetricVectors(metric, self.estimator)
        if metric is not None and metric.updated_at_ms is not None:
            self.metric_time_ms = metric.updated_at_ms
        self._update_expiry()
        self._forget_time()
        self._recompute_sums()

    def _update_expiry(self) -> None:
        self.expires_at_ms = None
        if self.metric is not None and self.metric.updated_at_ms is not None:
            limit_ms = self.estimator.args.node_metric_expiration_seconds * 1000
            self.expires_at_ms = self.metric.updated_at_ms + limit_ms

    def is_expired(self, now_ms: int) -> bool:
        """Tell whether the metric has expired, is missing, or has no update time."""
        return self.expires_at_ms is None or now_ms >= self.expires_at_ms

    def has_expired_metric(self, now_ms: int) -> bool:
        """Tell whether there is a metric with an update time that has expired."""
        return self.expires_at_ms is not None and self.is_expired(now_ms)

    # --- pods -----------------------------------------------------------------------------------

    def assign(self, pod: Pod, kind: Kind, now_ms: int) -> None:
        """Count a pod, unless it has finished or only reserves room; replaces an earlier state of the pod."""
        if _can_count(pod):
            self._uncount(pod.uid)
            self._count(self._make_assigned(pod, kind, now_ms))

    def restore(self, pods: Iterable[tuple[Pod, Kind, int]]) -> None:
        """Count exactly these pods, given as pod, kind, and time when the pod was counted."""
        self.assigned = {
            pod.uid: self._make_assigned(pod, kind, counted_at_ms)
            for pod, kind, counted_at_ms in pods
            if _can_count(pod)
        }
        self.estimated = sum_vectors(
            self._zero(), [pod.estimate.expected for pod in self.assigned.values()]
        )
        self._recompute_sums()

    def update(self, pod: Pod, kind: Kind, now_ms: int) -> None:
        """Apply a change of a pod of this node."""
        if pod.has_finished:
            self.unassign(pod.uid)
            return
        cached = self.assigned.get(pod.uid)
        if cached is None or not is_same_for_estimation(cached.pod, pod):
            self.assign(pod, kind, now_ms)

    def unassign(self, uid: str) -> None:
        """Stop counting a pod."""
        self._uncount(uid)
        self._forget_time()

    # --- expected usage -------------------------------------------------------------------------

    def compute_expected(self, aggregation: str | None, duration_ms: int) -> Vector:
        """Return the expected usage of the node without the pod that is being placed.

        Resources of unknown usage are `UNKNOWN`. By Koordinator's rules, the sum of all estimates replaces
        a statistic that was not measured.

        Args:
            aggregation: avg, p50 and so on; None for the node's mean.
            duration_ms: 0 for the longest measured duration.
        """
        if self.vectors is None or self.vectors.node is None:
            raise ValueError("expected usage of a node without usage: check `vectors` first")
        if aggregation is None:
            return _mark_unknown(add(self.vectors.node, self.delta), self.vectors.unknown)
        reading = self.vectors.read(aggregation, duration_ms)
        if reading is None:
            return self.estimated
        return _mark_unknown(add(reading.usage, self.delta), reading.unknown)

    def compute_expected_prod(self) -> Vector:
        """Return the expected usage of prod pods, plus that of the system if the policy includes it.

        Resources of unknown usage are `UNKNOWN`.
        """
        expected = add(self.prod_usage, self.prod_delta)
        if self.vectors is None:
            return expected
        if self.estimator.args.prod_usage_include_sys:
            expected = add(expected, self.vectors.system)
        return _mark_unknown(expected, self.vectors.unknown)

    # --- sums -----------------------------------------------------------------------------------

    def _make_assigned(self, pod: Pod, kind: Kind, counted_at_ms: int) -> AssignedPod:
        timestamp_ms = counted_at_ms if pod.scheduled_at_ms is None else pod.scheduled_at_ms
        return AssignedPod(
            pod=pod,
            kind=kind,
            counted_at_ms=counted_at_ms,
            estimate=self.estimator.estimate(kind),
            timestamp_ms=timestamp_ms,
            deadline_ms=self.estimator.compute_deadline_ms(pod, timestamp_ms),
        )

    def _count(self, assigned: AssignedPod) -> None:
        share = self._compute_share(assigned, self._find_measured(assigned), self._zero())
        self.assigned[assigned.pod.uid] = assigned
        self.delta = add(self.delta, share.delta)
        if any(share.prod_usage):
            self.prod_usage = add(self.prod_usage, share.prod_usage)
        self.prod_delta = add(self.prod_delta, share.prod_delta)
        self.estimated = add(self.estimated, assigned.estimate.expected)

    def _uncount(self, uid: str) -> None:
        assigned = self.assigned.pop(uid, None)
        if assigned is None:
            return
        share = self._compute_share(assigned, self._find_measured(assigned), self._zero())
        self.delta = subtract(self.delta, share.delta)
        self.prod_usage = subtract(self.prod_usage, share.prod_usage)
        self.prod_delta = subtract(self.prod_delta, share.prod_delta)
        self.estimated = subtract(self.estimated, assigned.estimate.expected)

    def _find_measured(self, assigned: AssignedPod) -> _Measured | None:
        pod, vectors = assigned.pod, self.vectors
        return None if vectors is None else vectors.pods.get((pod.namespace, pod.name))

    def _compute_share(
        self, assigned: AssignedPod, measured: _Measured | None, zero: Vector
    ) -> Share:
        """Return what a pod adds to the sums; `measured` is its usage in the metric.

        The share depends only on the pod and the metric, so the subtracted share equals the added one.
        """
        added = assigned.estimate.added
        if measured is None:
            delta = zero if self._is_in_total(assigned) else added
            return Share(delta, zero, added if assigned.kind.prod else zero)
        usage, known_as_prod = measured
        excess = zero
        if not self._is_shown(assigned, self._shown_since_ms):
            excess = tuple([max(0, a - b) for a, b in zip(added, usage, strict=True)])
        if not assigned.kind.prod:
            return Share(excess, zero, zero)
        if known_as_prod:
            return Share(excess, usage, excess)
        # The pod has another class in the metric, so none of its usage is known to be prod usage.
        return Share(excess, zero, added)

    def _is_in_total(self, assigned: AssignedPod) -> bool:
        """Tell whether a metric that measures no pods has a pod's usage in that of the node (X26)."""
        if self.estimator.follows_koordinator or self.metric is None or self.metric.pods:
            return False
        started_ms, since_ms = assigned.pod.initialized_at_ms, self._shown_since_ms
        is_old = started_ms is not None and started_ms <= (since_ms or 0)
        return is_old and self._is_shown(assigned, since_ms)

    @property
    def _shown_since_ms(self) -> int | None:
        """Time before which a pod must be scheduled to be fully in the metric; None without a metric."""
        if self.vectors is None or self.metric_time_ms is None:
            return None
        return self.metric_time_ms - self.vectors.report_interval_ms

    def _is_shown(self, assigned: AssignedPod, shown_since_ms: int | None) -> bool:
        """Tell whether the metric shows the pod's full usage, so that its estimate does not count (A4)."""
        if shown_since_ms is None or shown_since_ms < assigned.timestamp_ms:
            return False
        deadline_ms = assigned.deadline_ms
        return deadline_ms is None or deadline_ms <= (self.metric_time_ms or 0)

    def _recompute_sums(self) -> None:
        """Set the sums that depend on the metric, as `_count` of each pod would."""
        zero, shown_since_ms = self._zero(), self._shown_since_ms
        measured_pods = (
            self.vectors.pods if self.vectors is not None and self.assigned else _NO_PODS
        )
        shares: list[Share] = []
        prod_usage: list[Vector] = []
        for assigned in self.assigned.values():
            pod = assigned.pod
            measured = measured_pods.get((pod.namespace, pod.name))
            # The metric fully shows most pods, so their estimates add nothing (`_compute_share`).
            if (
                measured is None
                or shown_since_ms is None
                or shown_since_ms < assigned.timestamp_ms
                or assigned.deadline_ms is not None
                or (assigned.kind.prod and not measured[1])
            ):
                shares.append(self._compute_share(assigned, measured, zero))
            elif assigned.kind.prod:
                prod_usage.append(measured[0])
        self.delta = sum_vectors(zero, [share.delta for share in shares if share.delta is not zero])
        prod_usage += [share.prod_usage for share in shares if share.prod_usage is not zero]
        self.prod_usage = sum_vectors(zero, prod_usage)
        self.prod_delta = sum_vectors(
            zero, [share.prod_delta for share in shares if share.prod_delta is not zero]
        )

    def _forget_time(self) -> None:
        if self.metric is None and not self.assigned:
            self.metric_time_ms = None


def _mark_unknown(usage: Vector, unknown: tuple[int, ...]) -> Vector:
    if not unknown:
        return usage
    return tuple([UNKNOWN if position in unknown else used for position, used in enumerate(usage)])


def _can_count(pod: Pod) -> bool:
    return not pod.has_finished and pod.annotations.get(RESERVE_POD_ANNOTATION) != "true"
