"""What a pod is expected to use before it has been measured.

Per resource the larger of its limit and its request, times a scaling factor in percent, rounded, at
most its limit; a pod that names neither is expected to use a small flat amount of cpu and memory.
Source: docs/upstream.md A4.1, A4.2, A6.5.

With `estimateBy: fleet` the estimate follows from what the measured pods of the cluster use of
their demand (`fleet_usage`), plus a margin, and is at most the pod's limit:

    demand * usage + margin * demand * sqrt(variance + spread)

The rule above still applies to a resource without fleet figures, and to a resource for which the
pod's own annotation names a factor.
"""

from collections.abc import Iterable, Mapping
from math import isqrt
from typing import Self

from schemas.base import INT64_MAX
from schemas.pods import Pod
from schemas.policy import LoadAwareSchedulingArgs
from schemas.rows import Counting
from streams.inventory.demand import PodDemand
from streams.inventory.estimate_annotations import (
    AFTER_INITIALIZED_ANNOTATION,
    AFTER_SCHEDULED_ANNOTATION,
    own_factors,
    own_seconds,
)
from streams.inventory.fleet_usage import FleetUsage, LearnedUsage
from streams.inventory.kind import Kind
from streams.inventory.need import FLAT, form_of, nominal
from streams.inventory.priority import PriorityClass
from streams.inventory.rounding import round_half_away
from streams.inventory.thresholds import policy_thresholds
from streams.stage.sized_cache import SizedCache

#: Amounts over the resources of a policy, in ascending order of their names.
Vector = tuple[int, ...]

#: Estimates that are kept, and bytes of the demands that are kept with them.
_KNOWN_MAX, _KNOWN_BYTES_MAX = 4_096, 16 * 1024 * 1024
#: Bytes of a demand, and of each resource and port in it.
_DEMAND_BYTES, _ITEM_BYTES = 1_000, 250
#: Arguments on which estimates depend.
_COUNTED_BY = (
    "estimate_by",
    "estimate_margin_percent",
    "estimated_scaling_factors",
    "allow_customize_estimation",
    "estimated_seconds_after_pod_scheduled",
    "estimated_seconds_after_initialized",
)
_MILLION = 1_000_000
_NONE: Mapping[str, int] = {}


class Alike:
    """Pods with the same estimate: what it follows from, and its latest value."""

    __slots__ = ("added", "custom", "demand", "estimate", "of_class", "version")

    def __init__(
        self, demand: PodDemand, of_class: PriorityClass, custom: Mapping[str, int]
    ) -> None:
        """Not estimated yet; `custom`: scaling factors that the pods name themselves."""
        self.demand, self.of_class, self.custom = demand, of_class, custom
        self.estimate: Vector = ()
        self.added: Vector = ()
        """What it adds to sums: no resource counts below 0 (docs/upstream.md A6.6)."""
        self.version: int | None = None
        """Version of the estimator at the latest estimate; None: not estimated yet."""


class Estimator:
    """Estimates pods under one set of arguments, as vectors over one list of resources."""

    def __init__(self, args: LoadAwareSchedulingArgs, learned: LearnedUsage | None = None) -> None:
        """Estimate by these arguments; `learned` has the fleet figures of the cluster."""
        self.args = args
        self.learned = LearnedUsage() if learned is None else learned
        self.by_fleet = args.by_fleet
        """Estimates change with the version."""
        self.resources: tuple[str, ...] = args.resources
        """Names in ascending order: the axis of every vector."""
        self.thresholds = policy_thresholds(args)
        """Thresholds of nodes that do not override them."""
        self._factors = dict(args.estimated_scaling_factors)
        self._last: tuple[bytes, int, Vector] = (b"", 0, ())
        self._known = SizedCache[tuple[int, PriorityClass], Alike](_KNOWN_BYTES_MAX, _KNOWN_MAX)
        """By class and the identity of the demand, which is kept with them and shared by a kind."""

    @classmethod
    def of(cls, counting: Counting, learned: LearnedUsage) -> Self:
        """One that estimates as a row says; it judges nothing."""
        factors = dict(counting.factors)
        made = cls(
            LoadAwareSchedulingArgs().model_copy(
                update={
                    "estimated_scaling_factors": factors,
                    "allow_customize_estimation": counting.by_annotations,
                    "estimated_seconds_after_pod_scheduled": counting.after_scheduled_s,
                    "estimated_seconds_after_initialized": counting.after_initialized_s,
                    "estimate_by": counting.by,
                    "estimate_margin_percent": counting.margin_percent,
                }
            ),
            learned,
        )
        made.resources = counting.resources
        return made

    def counting(self) -> Counting:
        """What its estimates depend on."""
        args = self.args
        return Counting(
            resources=self.resources,
            factors=dict(sorted(self._factors.items())),
            by_annotations=args.allow_customize_estimation,
            after_scheduled_s=args.estimated_seconds_after_pod_scheduled,
            after_initialized_s=args.estimated_seconds_after_initialized,
            by=args.estimate_by,
            margin_percent=args.estimate_margin_percent,
        )

    @property
    def version(self) -> int:
        """Estimates stay the same as long as the version does."""
        return self.learned.version if self.by_fleet else 0

    def counts_like(self, other: "Estimator") -> bool:
        """Both estimate every pod alike, over the same resources: thresholds may differ."""
        mine, theirs = self.args, other.args
        return self.resources == other.resources and all(
            getattr(mine, field) == getattr(theirs, field) for field in _COUNTED_BY
        )

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Amounts as a vector; a resource that is not named counts 0."""
        get = amounts.get
        return tuple([get(resource, 0) for resource in self.resources])

    def estimate(self, pod: Pod, demand: PodDemand, of_class: PriorityClass) -> Vector:
        """Expected use of a pod, shape (resources,); within 64 bits, negative by a negative factor.

        Args:
            pod: with its annotations.
            demand: of the pod; estimates of one that is shared are worked out once.
            of_class: of the pod.
        """
        return self.estimates((self.alike(pod, demand, of_class),))[0]

    def alike(self, pod: Pod, demand: PodDemand, of_class: PriorityClass) -> Alike:
        """The pods that are estimated as this one; the arguments are those of `estimate`."""
        custom = self._custom(pod)
        if custom:
            return Alike(demand, of_class, custom)
        key = id(demand), of_class
        known = self._known.get(key)
        if known is None:
            known = Alike(demand, of_class, {})
            items = len(demand.requests) + len(demand.limits) + len(demand.host_ports)
            self._known.put(key, known, _DEMAND_BYTES + items * _ITEM_BYTES)
        return known

    def _custom(self, pod: Pod) -> Mapping[str, int]:
        """Factors that the pod names itself, as far as pods may."""
        return own_factors(pod) if self.args.allow_customize_estimation else _NONE

    def estimates(self, pods: Iterable[Alike]) -> list[Vector]:
        """Expected use of many pods as it is now, each worked out once for all that are alike."""
        version = self.version
        found: list[Vector] = []
        for alike in pods:
            if alike.version != version:
                alike.estimate = self._estimated(alike.custom, alike.demand, alike.of_class)
                alike.added = not_negative(alike.estimate)
                alike.version = version
            found.append(alike.estimate)
        return found

    def _estimated(
        self, custom: Mapping[str, int], demand: PodDemand, of_class: PriorityClass
    ) -> Vector:
        factors = {**self._factors, **custom} if custom else self._factors
        by_fleet = self._estimate_by_fleet(custom, demand, of_class)
        return tuple(
            [
                by_fleet[resource]
                if resource in by_fleet
                else _expected(form_of(resource, of_class), factors[resource], demand)
                if resource in factors
                else 0
                for resource in self.resources
            ]
        )

    def _estimate_by_fleet(
        self, custom: Mapping[str, int], demand: PodDemand, of_class: PriorityClass
    ) -> dict[str, int]:
        if not self.by_fleet:
            return {}
        margin = self.args.estimate_margin_percent
        return {
            resource: _usual(resource, figures, margin, demand, of_class)
            for resource, figures in self.learned.figures.items()
            if resource in self.resources and resource not in custom
        }

    def estimate_by_fleet(self, kind: Kind) -> dict[str, int]:
        """Return the part of a kind's estimate that follows from the usage of the cluster's pods.

        By resource; empty if the policy estimates by requests.
        """
        return self._estimate_by_fleet(self._custom(kind.pod), kind.demand, kind.priority_class)

    def of_kind(self, kind: Kind) -> Vector:
        """Expected use of a kind of pods; remembered for the plugins that ask one after the other."""
        key, version, estimate = self._last
        if key != kind.key or version != self.version:
            # Not through what is known of pods that are alike: few kinds are asked about again.
            estimate = self._estimated(self._custom(kind.pod), kind.demand, kind.priority_class)
            self._last = kind.key, self.version, estimate
        return estimate

    def deadline_ms(self, pod: Pod, timestamp_ms: int) -> int | None:
        """Until when the pod is estimated even though it is measured; None: not at all."""
        after_scheduled = self.args.estimated_seconds_after_pod_scheduled or 0
        after_initialized = self.args.estimated_seconds_after_initialized or 0
        if self.args.allow_customize_estimation:
            after_scheduled = own_seconds(pod, AFTER_SCHEDULED_ANNOTATION, after_scheduled)
            after_initialized = own_seconds(pod, AFTER_INITIALIZED_ANNOTATION, after_initialized)
        if after_initialized > 0 and pod.initialized_at_ms is not None:
            return pod.initialized_at_ms + after_initialized * 1000
        if after_scheduled > 0:
            return timestamp_ms + after_scheduled * 1000
        return None


def not_negative(estimate: Vector) -> Vector:
    """An estimate without what is below 0."""
    if min(estimate, default=0) >= 0:
        return estimate
    return tuple([max(0, expected) for expected in estimate])


def _expected(resource: str | None, factor: int, demand: PodDemand) -> int:
    if resource is None:
        return 0
    limit = demand.limits.get(resource, 0)
    base = demand.requests.get(resource, 0)
    if limit > base:
        base = limit
    if base == 0:
        return FLAT.get(resource, 0)
    expected = round_half_away(float(base) * float(factor) / 100)
    if 0 < limit < expected:
        return limit
    # An annotation may hold any factor: the result stays an amount, if a negative one.
    if -INT64_MAX <= expected <= INT64_MAX:
        return expected
    return INT64_MAX if expected > 0 else -INT64_MAX


def _usual(
    resource: str, figures: FleetUsage, margin: int, demand: PodDemand, of_class: PriorityClass
) -> int:
    """What a pod uses of a resource where it is like others, at most its limit."""
    need = nominal(resource, demand, of_class)
    expected = (need * figures.usage_ppm + _MILLION // 2) // _MILLION
    if margin:
        square = need * need * (figures.variance_ppm + figures.spread_ppm) // _MILLION
        expected += isqrt(square) * margin // 100
    limits = demand.limits
    limit = limits.get(form_of(resource, of_class) or "", 0) or limits.get(resource, 0)
    most = limit if limit > 0 else INT64_MAX
    return max(0, min(expected, most))
