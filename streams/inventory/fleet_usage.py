"""What the pods of a cluster use of their requests: what is expected of pods that are not measured.

Three figures a resource, all shares of a pod's request: mean usage (one vote a pod that was
measured for 5 minutes, and as many votes for the prior as the policy says), variance of a pod's
usage, and spread, the variance of mean usage among pods (both from 30 pods of 15 minutes on). They
are worked out anew every 5 minutes of the log's clock, from the pods that are there, and hold until
then. Pods that ask for next to nothing of a resource, less than one counts with that does not say,
may use it many times over, so they have votes on it only while fewer than 30 others have one on its
variance.
Everything is integers, in millionths: sums do not depend on any order.
"""

from collections.abc import Iterable, Mapping
from operator import add
from typing import NamedTuple

from schemas.policy.overutilization import OverutilizationRiskArgs
from schemas.usage_moments import FleetFigures

#: How long figures hold.
RENEWAL_MS = 300_000
#: A pod has a vote on mean usage once it has been measured for so long,
VOTE_MINUTES = 5
#: and on variance and spread, once there are 30 pods of 15 minutes.
VARIANCE_MINUTES, VARIANCE_PODS = 15, 30
#: A pod that uses more of its request counts as this: one with a request of next to nothing must
#: not speak for all others. A share of 5, in millionths; squared for variances.
SHARE_MAX_PPM, SQUARE_MAX_PPM = 5_000_000, 25_000_000

_MILLION = 1_000_000
#: Sums a resource: pods with a vote and their shares; then pods of more minutes, their shares, the
#: squares of these, and their variances.
VOTES = 6
NO_VOTES = (0,) * VOTES


class Fleet(NamedTuple):
    """Figures of one resource, in millionths of a request or its square."""

    usage_ppm: int
    variance_ppm: int
    spread_ppm: int


class LearnedUsage:
    """The figures in force in a cluster, as estimates read them."""

    def __init__(self) -> None:
        self.figures: Mapping[str, Fleet] = {}
        """By resource; empty while no plugin and no estimate asks for them."""
        self.version = 0
        """Grows when the figures change."""

    def replace(self, figures: Mapping[str, Fleet]) -> None:
        """Use other figures from now on."""
        self.figures = figures
        self.version += 1


def prior(args: OverutilizationRiskArgs) -> tuple[Fleet, ...]:
    """Figures while no pod has been measured; one entry a resource."""
    deviation, spread = args.deviation_prior_percent, args.spread_prior_percent
    before = Fleet(args.usage_prior_percent * 10_000, deviation**2 * 100, spread**2 * 100)
    return (before,) * len(args.resources)


def votes(minutes: int, mean: int, deviation: int, nominal: int) -> tuple[int, ...]:
    """What one pod adds to the sums.

    Args:
        minutes: for how long it has been measured.
        mean: its mean usage, in thousandths.
        deviation: its standard deviation, in thousandths.
        nominal: what it says that it needs.
    """
    if minutes < VOTE_MINUTES or nominal <= 0:
        return NO_VOTES
    share = min(mean * 1_000 // nominal, SHARE_MAX_PPM)
    if minutes < VARIANCE_MINUTES:
        return (1, share, 0, 0, 0, 0)
    variance = min(deviation * deviation // (nominal * nominal), SQUARE_MAX_PPM)
    return (1, share, 1, share, share * share, variance)


def fleet(
    sums: Iterable[tuple[int, ...]],
    args: OverutilizationRiskArgs,
    others: Iterable[tuple[int, ...]] = (),
) -> tuple[Fleet, ...]:
    """The figures of all resources.

    Args:
        sums: of the votes of the pods of each node, resource after resource.
        args: of the policy.
        others: the same of pods by resources of which they ask for next to nothing.
    """
    asking, not_asking = _total(sums, args), _total(others, args)
    weight = args.usage_prior_pods
    figures = []
    for index, before in enumerate(prior(args)):
        total = asking[VOTES * index :][:VOTES]
        if total[2] < VARIANCE_PODS:
            total = tuple(map(add, total, not_asking[VOTES * index :][:VOTES]))
        pods, shares, measured, own, squares, variances = total
        usage = (before.usage_ppm * weight + shares) // (weight + pods)
        variance, spread = before.variance_ppm, before.spread_ppm
        if measured >= VARIANCE_PODS:
            variance = variances // measured
            spread = (squares * measured - own * own) // (measured * measured) // _MILLION
        figures.append(Fleet(usage, variance, spread))
    return tuple(figures)


def _total(sums: Iterable[tuple[int, ...]], args: OverutilizationRiskArgs) -> tuple[int, ...]:
    total = NO_VOTES * len(args.resources)
    for each in sums:
        total = tuple(map(add, total, each))
    return total


def published(figures: tuple[Fleet, ...], args: OverutilizationRiskArgs) -> dict[str, FleetFigures]:
    """The figures as a row has them."""
    return {
        resource.name: FleetFigures(**each._asdict())
        for resource, each in zip(args.resources, figures, strict=True)
    }


def read(figures: Mapping[str, FleetFigures], args: OverutilizationRiskArgs) -> tuple[Fleet, ...]:
    """The figures of a row; those of a resource that it has not are the priors."""
    return tuple(
        Fleet(found.usage_ppm, found.variance_ppm, found.spread_ppm)
        if (found := figures.get(resource.name)) is not None
        else before
        for resource, before in zip(args.resources, prior(args), strict=True)
    )
