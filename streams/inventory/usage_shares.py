"""What one pod adds to the sums that mean and variance of its node are worked out from.

With m the minutes for which a pod has been measured, n what it requests, and p and q the minutes
that the policy gives the priors of mean and variance:

    mean     = (usage n p + own mean m) / (p + m)
    variance = (variance n^2 q + own variance v) / (q + v)  +  spread n^2 p / (p + m)

`usage`, `variance` and `spread` are those of the fleet; the last term is what is not known of a
pod's mean. v is m less one window: from averages over windows the first one says nothing of
variance. So each sum is linear in the fleet's figures, and a share is five integers a resource
(`SUMS`): what multiplies `usage` and the own mean, both in thousandths of a unit; what multiplies
`variance`, the own variance, and what multiplies `spread`.
"""

from collections.abc import Iterable, Sequence

from schemas.policy.overutilization import OverutilizationRiskArgs
from streams.inventory.fleet_usage import FleetUsage
from streams.inventory.life import PARTS, Life

#: Length of the window that averages of pods are over, and from one addition to a life to the next.
WINDOW_MINUTES = 5
#: Sums of one resource.
SUMS = 5
_MILLION = 1_000_000


def unmeasured(needs: Iterable[int]) -> tuple[int, ...]:
    """A pod of which nothing is known but what it needs, by resource in units."""
    share: list[int] = []
    for amount in needs:
        square = amount * amount
        share += (amount * PARTS, 0, square, 0, square)
    return tuple(share)


def measured(needs: Iterable[int], life: Life, args: OverutilizationRiskArgs) -> tuple[int, ...]:
    """A pod with a life."""
    for_mean, for_variance = args.mean_prior_minutes, args.variance_prior_minutes
    minutes = life[0]
    varied = max(0, minutes - WINDOW_MINUTES)
    of_mean, of_variance = for_mean + minutes, for_variance + varied
    share: list[int] = []
    for index, amount in enumerate(needs):
        mean, deviation = life[1 + 2 * index], life[2 + 2 * index]
        square = amount * amount
        share += (
            amount * PARTS * for_mean // of_mean,
            mean * minutes // of_mean,
            square * for_variance // of_variance,
            deviation * deviation * varied // (of_variance * PARTS * PARTS),
            square * for_mean // of_mean,
        )
    return tuple(share)


def within_whole(
    needs: Iterable[int], system: Life | None, args: OverutilizationRiskArgs
) -> tuple[int, ...]:
    """A pod whose usage is in that of the whole node, whose life is `system`."""
    varied = 0 if system is None else max(0, system[0] - WINDOW_MINUTES)
    for_variance = args.variance_prior_minutes
    share: list[int] = []
    for amount in needs:
        share += (0, 0, amount * amount * for_variance // (for_variance + varied), 0, 0)
    return tuple(share)


def system(life: Life | None, resources: int) -> tuple[int, ...]:
    """The system part, of which nothing is known beforehand: mean and deviation are its own."""
    if life is None:
        return (0,) * (SUMS * resources)
    share: list[int] = []
    for index in range(resources):
        mean, deviation = life[1 + 2 * index], life[2 + 2 * index]
        share += (0, mean, 0, deviation * deviation // (PARTS * PARTS), 0)
    return tuple(share)


def figures(sums: Sequence[int], fleet: Iterable[FleetUsage]) -> list[tuple[float, float]]:
    """Mean and variance by resource, in units and their squares, from a share or a sum of them."""
    found = []
    for index, each in enumerate(fleet):
        expected, own, square, varied, unknown = sums[SUMS * index : SUMS * index + SUMS]
        mean = (expected * each.usage_ppm + own * _MILLION) / (PARTS * _MILLION)
        variance = (
            square * each.variance_ppm + varied * _MILLION + unknown * each.spread_ppm
        ) / _MILLION
        found.append((mean, variance))
    return found
