"""Usage of an unmeasured pod, estimated from the measured pods of a cluster.

There are three figures per resource, each a share of the pod's demand. The demand is the request,
else the limit, else a default (`Kind.resolved`).

    usage       mean usage of a pod
    variance    variance of one pod's usage over time
    spread      variance of the mean usage among pods

Let x be the mean usage of a measured pod divided by its demand (at most 5), and v the variance of
the pod's usage divided by the square of its demand (at most 25). With n pods measured for at least
5 minutes, and m of them for at least 15 minutes:

    usage     = (W * prior + sum(x over n pods)) / (W + n)     W: `USAGE_PRIOR_PODS`
    variance  = sum(v) / m                                     the prior, while m < 30
    spread    = sum(x^2) / m - (sum(x) / m)^2                  the prior, while m < 30

A pod may use many times its request if the request is tiny. Pods that request less than the default
for pods without a request (250 millicores, 200 MiB) therefore count only while fewer than 30 others
are measured for 15 minutes.

All figures are integers in millionths (ppm), so no sum depends on the order of its terms. They are
recomputed every 5 minutes of log time and stay constant in between.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import NamedTuple

from schemas.policy.sections.overutilization_risk import OverutilizationRiskArgs
from schemas.storage.usage_statistics import FleetFigures
from streams.pods.kind import DEFAULT_DEMAND, Kind, find_request

RECOMPUTE_INTERVAL_MS = 300_000
#: A pod counts for the mean usage after this many measured minutes,
USAGE_MINUTES_MIN = 5
#: and for variance and spread after this many.
VARIANCE_MINUTES_MIN = 15
#: The prior weighs as much as the usage of this many pods.
USAGE_PRIOR_PODS = 20
#: Fewer pods than this say too little about variance and spread.
VARIANCE_PODS_MIN = 30
#: The usage of a pod counts as at most five times its demand, so that no single pod dominates.
USAGE_MAX_PPM = 5_000_000
VARIANCE_MAX_PPM = 25_000_000

_PPM = 1_000_000
#: Sums kept for each resource: n, sum(x over n pods), m, sum(x over m pods), sum(x^2), sum(v).
SUMS_PER_RESOURCE = 6
ZERO_SUMS = (0,) * SUMS_PER_RESOURCE


class FleetUsage(NamedTuple):
    """Figures of one resource, in millionths: shares of a pod's demand, or of its square."""

    usage_ppm: int
    variance_ppm: int
    spread_ppm: int


#: Mean usage of 85 % of the demand, with a standard deviation of 20 % over time, and of 55 % among pods.
_PRIOR = FleetUsage(usage_ppm=850_000, variance_ppm=40_000, spread_ppm=302_500)


def get_prior_usage(args: OverutilizationRiskArgs) -> tuple[FleetUsage, ...]:
    """Return the figures of a cluster without measured pods, one entry per resource."""
    return (_PRIOR,) * len(args.resources)


def compute_pod_sums(minutes: int, mean: int, deviation: int, demand: int) -> tuple[int, ...]:
    """Return what one pod adds to the sums of one resource.

    Args:
        minutes: how long the pod has been measured.
        mean: mean usage, in thousandths of the resource's unit; below 0 if it was not measured.
        deviation: standard deviation of the usage, in thousandths of the unit.
        demand: the pod's demand, in units.
    """
    if minutes < USAGE_MINUTES_MIN or demand <= 0 or mean < 0:
        return ZERO_SUMS
    usage = min(mean * 1_000 // demand, USAGE_MAX_PPM)
    if minutes < VARIANCE_MINUTES_MIN:
        return (1, usage, 0, 0, 0, 0)
    variance = min(deviation * deviation // (demand * demand), VARIANCE_MAX_PPM)
    return (1, usage, 1, usage, usage * usage, variance)


def compute_fleet_usage(
    node_sums: Iterable[tuple[int, ...]],
    args: OverutilizationRiskArgs,
    tiny_request_sums: Iterable[tuple[int, ...]] = (),
) -> tuple[FleetUsage, ...]:
    """Return the figures of the cluster, one entry per resource.

    Args:
        node_sums: for each node the sums over its pods, all resources one after the other.
        args: resources of the policy.
        tiny_request_sums: the same sums over the pods that request less than the default.
    """
    sums, tiny_sums = _add_up(node_sums, args), _add_up(tiny_request_sums, args)
    figures = []
    for start in range(0, len(sums), SUMS_PER_RESOURCE):
        resource_sums = sums[start : start + SUMS_PER_RESOURCE]
        if resource_sums[2] < VARIANCE_PODS_MIN:
            resource_sums = tuple(map(add, resource_sums, tiny_sums[start:]))
        figures.append(_compute_figures(resource_sums))
    return tuple(figures)


def _compute_figures(sums: tuple[int, ...]) -> FleetUsage:
    usage_pods, usage_sum, variance_pods, mean_sum, square_sum, variance_sum = sums
    usage = (_PRIOR.usage_ppm * USAGE_PRIOR_PODS + usage_sum) // (USAGE_PRIOR_PODS + usage_pods)
    if variance_pods < VARIANCE_PODS_MIN:
        return _PRIOR._replace(usage_ppm=usage)
    # m * sum(x^2) - sum(x)^2 stays exact; squares of ppm become ppm again in the last division.
    spread = (square_sum * variance_pods - mean_sum * mean_sum) // (variance_pods**2) // _PPM
    return FleetUsage(usage, variance_sum // variance_pods, spread)


def _add_up(rows: Iterable[tuple[int, ...]], args: OverutilizationRiskArgs) -> tuple[int, ...]:
    total = ZERO_SUMS * len(args.resources)
    for row in rows:
        total = tuple(map(add, total, row))
    return total


def encode_fleet_usage(
    figures: tuple[FleetUsage, ...], args: OverutilizationRiskArgs
) -> dict[str, FleetFigures]:
    """Return the figures by resource name, as table `fleet_usage` stores them."""
    return {
        resource.name: FleetFigures(**usage._asdict())
        for resource, usage in zip(args.resources, figures, strict=True)
    }


def decode_fleet_usage(
    figures: Mapping[str, FleetFigures], args: OverutilizationRiskArgs
) -> tuple[FleetUsage, ...]:
    """Return stored figures in the order of the policy's resources; missing ones are the priors."""
    rows = (figures.get(resource.name) for resource in args.resources)
    return tuple(
        _PRIOR if row is None else FleetUsage(row.usage_ppm, row.variance_ppm, row.spread_ppm)
        for row in rows
    )


class Fleet:
    """Arguments of the risk score, and usage of all pods of a cluster; the cluster's nodes share this object."""

    def __init__(self, args: OverutilizationRiskArgs, before: "Fleet | None" = None) -> None:
        """Start with the figures of `before` if it has the same resources, else with the priors."""
        self.args = args
        self.resources = tuple(resource.name for resource in args.resources)
        self.renewed_at_ms: int | None = None
        """Log time when the figures were computed; None if they are priors."""
        self.figures: tuple[FleetUsage, ...]
        if before is None or before.renewed_at_ms is None or before.resources != self.resources:
            self.figures = get_prior_usage(args)
        else:
            self.figures, self.renewed_at_ms = before.figures, before.renewed_at_ms
        self._default_requests = tuple(
            (name, max(1, DEFAULT_DEMAND.get(name, 0))) for name in self.resources
        )

    def is_due(self, now_ms: int) -> bool:
        return self.renewed_at_ms is None or now_ms - self.renewed_at_ms >= RECOMPUTE_INTERVAL_MS

    def recompute(
        self,
        node_sums: Iterable[tuple[int, ...]],
        tiny_request_sums: Iterable[tuple[int, ...]],
        now_ms: int,
    ) -> bool:
        """Recompute the figures from the sums of all nodes; return whether they have changed."""
        figures = compute_fleet_usage(node_sums, self.args, tiny_request_sums)
        self.renewed_at_ms = now_ms
        if figures == self.figures:
            return False
        self.figures = figures
        return True

    def select_requested(self, sums: Sequence[int], kind: Kind) -> Sequence[int]:
        """Return a pod's sums, with 0 for each resource whose request is less than the default."""
        requests = kind.demand.requests
        for resource, least in self._default_requests:
            if requests.get(resource, 0) < least:
                break
        else:
            return sums
        enough = [
            find_request(resource, kind.demand, kind.priority_class) >= least
            for resource, least in self._default_requests
        ]
        return [
            amount if enough[index // SUMS_PER_RESOURCE] else 0 for index, amount in enumerate(sums)
        ]
