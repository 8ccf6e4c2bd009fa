"""Shares of pods in the sums that determine mean and variance of a node's usage.

With m the minutes for which a pod has been measured, n its demand, p = `MEAN_PRIOR_MINUTES` and
q = `VARIANCE_PRIOR_MINUTES`:

    mean     = (usage n p + own mean m) / (p + m)
    variance = (variance n^2 q + own variance v) / (q + v)  +  spread n^2 p / (p + m)

`usage`, `variance` and `spread` are those of `fleet_usage`; the last term is the uncertainty of the pod's
mean. v is m less one window, because one average has no variance. The sums are linear in these three
figures, so a share has five integers per resource (`SUMS`): the factor of `usage` and the own mean, both in
thousandths of a unit; the factor of `variance`; the own variance; and the factor of `spread`.
"""

from collections.abc import Iterable, Sequence

from streams.risk.fleet_usage import FleetUsage
from streams.risk.lifetimes import PARTS, WINDOW_MINUTES, Lifetime

#: Minutes of a pod's own usage that weigh as much as the fleet's figures, for mean and for variance.
MEAN_PRIOR_MINUTES, VARIANCE_PRIOR_MINUTES = 3, 30
#: Number of sums per resource.
SUMS = 5
_MILLION = 1_000_000


def compute_pod_share(demand: Iterable[int], lifetime: Lifetime | None) -> tuple[int, ...]:
    """Return the share of a pod; `demand` is in units, by resource."""
    mean_prior, variance_prior = MEAN_PRIOR_MINUTES, VARIANCE_PRIOR_MINUTES
    minutes = 0 if lifetime is None else lifetime.minutes
    variance_minutes = max(0, minutes - WINDOW_MINUTES)
    mean_total, variance_total = mean_prior + minutes, variance_prior + variance_minutes
    share: list[int] = []
    for index, amount in enumerate(demand):
        square = amount * amount
        if lifetime is None or lifetime.usage[2 * index] < 0:
            share += (amount * PARTS, 0, square, 0, square)
            continue
        mean, deviation = lifetime.usage[2 * index], lifetime.usage[2 * index + 1]
        share += (
            amount * PARTS * mean_prior // mean_total,
            mean * minutes // mean_total,
            square * variance_prior // variance_total,
            deviation * deviation * variance_minutes // (variance_total * PARTS * PARTS),
            square * mean_prior // mean_total,
        )
    return tuple(share)


def compute_whole_node_share(demand: Iterable[int], system: Lifetime | None) -> tuple[int, ...]:
    """Return the share of a pod whose usage is part of the whole node's, with lifetime `system`."""
    variance_minutes = 0 if system is None else max(0, system.minutes - WINDOW_MINUTES)
    variance_total = VARIANCE_PRIOR_MINUTES + variance_minutes
    share: list[int] = []
    for index, amount in enumerate(demand):
        square = amount * amount
        if system is not None and system.usage[2 * index] < 0:
            share += (amount * PARTS, 0, square, 0, square)
        else:
            share += (0, 0, square * VARIANCE_PRIOR_MINUTES // variance_total, 0, 0)
    return tuple(share)


def compute_system_share(lifetime: Lifetime | None, resources: int) -> tuple[int, ...]:
    """Return the share of the system part, which has no priors."""
    if lifetime is None:
        return (0,) * (SUMS * resources)
    share: list[int] = []
    for index in range(resources):
        # A resource that was not measured adds nothing.
        mean, deviation = (max(0, figure) for figure in lifetime.usage[2 * index : 2 * index + 2])
        share += (0, mean, 0, deviation * deviation // (PARTS * PARTS), 0)
    return tuple(share)


def compute_figures(sums: Sequence[int], fleet: Iterable[FleetUsage]) -> list[tuple[float, float]]:
    """Return mean and variance of a share or sum of shares, by resource, in units and squares of units."""
    result = []
    for index, figures in enumerate(fleet):
        usage_factor, own_mean, variance_factor, own_variance, spread_factor = sums[
            SUMS * index : SUMS * index + SUMS
        ]
        mean = (usage_factor * figures.usage_ppm + own_mean * _MILLION) / (PARTS * _MILLION)
        variance = (
            variance_factor * figures.variance_ppm
            + own_variance * _MILLION
            + spread_factor * figures.spread_ppm
        ) / _MILLION
        result.append((mean, variance))
    return result
