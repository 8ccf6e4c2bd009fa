"""The part that pods of each owner have in the sums of one node, and in what its pods say.

The node's sums are those of all its pods under the fleet's figures; what is expected of owners'
pods instead is a correction, linear in the same sums. Everything that is added is taken away again
as it was, in integers.
"""

from collections.abc import Iterable, Sequence
from operator import add

from schemas.pods import Pod
from streams.inventory.fleet_usage import Fleet
from streams.inventory.life import PARTS
from streams.inventory.owner_usage import OwnerUsage, owner_of

_MILLION = 1_000_000


class OwnerSums:
    """Sums of one node by owner."""

    __slots__ = ("_owners", "_sums", "_votes")

    def __init__(self, owners: OwnerUsage) -> None:
        """Without pods; `owners` are the cluster's, and count the votes of this node too."""
        self._owners = owners
        self._sums: dict[str, tuple[int, ...]] = {}
        self._votes: dict[str, tuple[int, ...]] = {}

    def count(self, pod: Pod, share: Iterable[int], votes: Sequence[int], sign: int) -> None:
        """A pod is added (1) or taken away (-1), with its share of the node's sums and its votes."""
        owner = owner_of(pod)
        if owner is None:
            return
        _add(self._sums, owner, [sign * each for each in share])
        if any(votes):
            signed = [sign * each for each in votes]
            _add(self._votes, owner, signed)
            self._owners.vote(owner, signed)

    def clear(self) -> None:
        """All pods are taken away."""
        for owner, votes in self._votes.items():
            self._owners.vote(owner, [-each for each in votes])
        self._sums, self._votes = {}, {}

    def corrected(
        self, figures: Sequence[tuple[float, float]], fleet: Sequence[Fleet]
    ) -> list[tuple[float, float]]:
        """Mean and variance of the node by resource, from those under the fleet's figures."""
        means, variances = [0] * len(fleet), [0] * len(fleet)
        for owner, sums in self._sums.items():
            size = len(sums) // len(fleet)
            for index, own in enumerate(self._owners.expected(owner)):
                expected, _, square, _, unknown = sums[size * index : size * index + size]
                usage, variance, spread = fleet[index]
                means[index] += expected * (own.usage_ppm - usage)
                variances[index] += square * (own.variance_ppm - variance)
                variances[index] += unknown * (own.spread_ppm - spread)
        return [
            (mean + more / (PARTS * _MILLION), max(0.0, variance + varied / _MILLION))
            for (mean, variance), more, varied in zip(figures, means, variances, strict=True)
        ]


def _add(sums: dict[str, tuple[int, ...]], owner: str, more: Iterable[int]) -> None:
    """Add to an owner's sums; those that are all zero are no more."""
    before = sums.get(owner)
    after = tuple(more) if before is None else tuple(map(add, before, more))
    if any(after):
        sums[owner] = after
    else:
        sums.pop(owner, None)
