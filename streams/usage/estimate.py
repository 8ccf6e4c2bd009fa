"""Expected usage of a pod that has not been measured.

    estimate = min(limit, round(max(limit, request) * scaling factor / 100))   per resource

The estimate of a pod without request and limit is a small fixed amount of cpu and memory. If the policy allows
it, annotations of the pod change its estimate. Annotations that Go cannot decode are ignored.
Source: docs/reference/upstream.md A4, A6.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from schemas.base.message import INT64_MAX
from schemas.messages.pods import Pod
from schemas.policy import Compat, LoadAwareSchedulingArgs
from streams.pods.kind import DEFAULT_DEMAND, Kind, PodDemand, translate_resource
from streams.stage.sized_cache import SizedCache
from streams.usage.go_json import decode, read_integers
from streams.usage.rounding import round_half_away
from streams.usage.thresholds import read_policy_thresholds
from streams.usage.vectors import Vector

SCALING_FACTORS_ANNOTATION = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED_ANNOTATION = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
AFTER_INITIALIZED_ANNOTATION = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"

_GO_INTEGER = re.compile(r"[+-]?[0-9]+")

#: Most cached estimates, and most bytes that they take.
_ESTIMATES_MAX, _ESTIMATES_BYTES_MAX = 4_096, 16 * 1024 * 1024
_ESTIMATE_BYTES = 1_000


class Estimate(NamedTuple):
    expected: Vector
    added: Vector
    """`expected` with 0 instead of negative amounts, which do not lower the usage of a node (A6)."""


class Estimator:
    """Estimates the usage of pods by the arguments of a policy."""

    def __init__(self, args: LoadAwareSchedulingArgs, compat: Compat = "loadstream") -> None:
        self.args = args
        self.follows_koordinator = compat == "koordinator"
        """Whether usage, filter and score follow Koordinator without corrections."""
        self.resources: tuple[str, ...] = args.resources
        """Names of the resources of every vector, in ascending order."""
        self.thresholds = read_policy_thresholds(args)
        """Thresholds of nodes that do not override them."""
        self._factors = dict(args.estimated_scaling_factors)
        self.estimation_arguments = (
            self.resources,
            compat,
            self._factors,
            args.allow_customize_estimation,
            args.estimated_seconds_after_pod_scheduled,
            args.estimated_seconds_after_initialized,
        )
        self._estimates = SizedCache[bytes, Estimate](_ESTIMATES_BYTES_MAX, _ESTIMATES_MAX)
        """By key of the kind."""

    def has_same_estimates(self, other: "Estimator") -> bool:
        return self.estimation_arguments == other.estimation_arguments

    def to_vector(self, amounts: Mapping[str, int]) -> Vector:
        """Return amounts as a vector; missing resources are 0."""
        get = amounts.get
        return tuple([get(resource, 0) for resource in self.resources])

    def estimate(self, kind: Kind) -> Estimate:
        """Return the estimate of a pod of a kind, within 64 bits; negative if a factor is negative."""
        estimate = self._estimates.get(kind.key)
        if estimate is None:
            factors = self._factors
            if self.args.allow_customize_estimation:
                factors = {**factors, **read_scaling_factors(kind.pod)}
            expected = tuple(
                _estimate_resource(
                    translate_resource(resource, kind.priority_class),
                    factors[resource],
                    kind.demand,
                )
                if resource in factors
                else 0
                for resource in self.resources
            )
            added = tuple(max(0, amount) for amount in expected)
            estimate = Estimate(expected, added)
            self._estimates.put(kind.key, estimate, _ESTIMATE_BYTES)
        return estimate

    def compute_deadline_ms(self, pod: Pod, timestamp_ms: int) -> int | None:
        """Return the end of the time in which a pod's estimate counts although metrics show the pod, if any."""
        after_scheduled = self.args.estimated_seconds_after_pod_scheduled or 0
        after_initialized = self.args.estimated_seconds_after_initialized or 0
        if self.args.allow_customize_estimation:
            after_scheduled = read_seconds(pod, AFTER_SCHEDULED_ANNOTATION, after_scheduled)
            after_initialized = read_seconds(pod, AFTER_INITIALIZED_ANNOTATION, after_initialized)
        if after_initialized > 0 and pod.initialized_at_ms is not None:
            return pod.initialized_at_ms + after_initialized * 1000
        if after_scheduled > 0:
            return timestamp_ms + after_scheduled * 1000
        return None


def _estimate_resource(resource: str | None, factor: int, demand: PodDemand) -> int:
    if resource is None:
        return 0
    limit = demand.limits.get(resource, 0)
    base = max(limit, demand.requests.get(resource, 0))
    if base == 0:
        return DEFAULT_DEMAND.get(resource, 0)
    expected = round_half_away(float(base) * float(factor) / 100)
    if 0 < limit < expected:
        return limit
    # An annotation may have any factor.
    return min(max(expected, -INT64_MAX), INT64_MAX)


# --- annotations of pods ------------------------------------------------------------------------


def read_scaling_factors(pod: Pod) -> dict[str, int]:
    """Return the scaling factors in a pod's annotation, in percent, by resource."""
    text = pod.annotations.get(SCALING_FACTORS_ANNOTATION)
    try:
        return {} if text is None else read_integers(decode(text))
    except (ValueError, RecursionError):
        return {}


def read_seconds(pod: Pod, annotation: str, default: int) -> int:
    """Return the seconds in a pod's annotation; the default if Go cannot decode them."""
    text = pod.annotations.get(annotation)
    if text is None or not _GO_INTEGER.fullmatch(text) or len(text) > 20:
        return default
    seconds = int(text)
    return seconds if 0 <= seconds <= INT64_MAX else default
