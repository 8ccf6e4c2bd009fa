"""The part that pods of each owner have in the sums of one node, and in what its pods say.

The node's sums are those of all its pods under the fleet's figures; what is expected of owners'
pods instead is a correction, linear in the same sums. Everything that is added is taken away again
as it was, in integers.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import add

from schemas.pods import Pod
from streams.inventory.life import PARTS
from streams.inventory.owner_usage import OwnerUsage, owner_of

#: Sums a resource: mean by the fleet's usage and by pods' own (both in thousandths), variance by
#: the fleet's, pods' own, and by the fleet's spread.
SUMS = 5
_MILLION = 1_000_000

#: Mean and variance of one resource, in units and their squares.
Moments = tuple[float, float]


class OwnerSums:
    """Sums of one node by owner."""

    __slots__ = ("_means", "_owners", "_sums", "_variances", "_version", "_votes")

    def __init__(self, owners: OwnerUsage) -> None:
        """Without pods; `owners` are the cluster's, and count the votes of this node too."""
        self._owners = owners
        self._sums: dict[str, tuple[int, ...]] = {}
        self._votes: dict[str, tuple[int, ...]] = {}
        self._version = -1
        """Of the owners' figures under which the corrections are worked out."""
        self._means: list[int] = []
        self._variances: list[int] = []

    def count(self, pod: Pod, share: Iterable[int], votes: Sequence[int], sign: int) -> None:
        """A pod is added (1) or taken away (-1), with its share of the node's sums and its votes."""
        owner = owner_of(pod)
        if owner is None:
            return
        signed = [sign * each for each in share]
        _add(self._sums, owner, signed)
        if self._version == self._owners.version:
            self._correct(owner, signed)
        if any(votes):
            said = [sign * each for each in votes]
            _add(self._votes, owner, said)
            self._owners.vote(owner, said)

    def clear(self) -> None:
        """All pods are taken away."""
        for owner, votes in self._votes.items():
            self._owners.vote(owner, [-each for each in votes])
        self._sums, self._votes, self._version = {}, {}, -1

    def corrected(self, figures: Sequence[Moments]) -> list[Moments]:
        """Mean and variance of the node by resource, from those under the fleet's figures."""
        if self._version != self._owners.version:
            self._version = self._owners.version
            self._means, self._variances = [0] * len(figures), [0] * len(figures)
            for owner, sums in self._sums.items():
                self._correct(owner, sums)
        return _corrected(figures, zip(self._means, self._variances, strict=True))

    def of_pod(self, pod: Pod, share: Sequence[int], figures: Sequence[Moments]) -> list[Moments]:
        """The same of one pod, from its share of the sums."""
        owner = owner_of(pod)
        return _corrected(figures, [] if owner is None else self._corrections(owner, share))

    def _correct(self, owner: str, sums: Sequence[int]) -> None:
        """Let an owner's part of the sums be under its own figures."""
        for index, (mean, variance) in enumerate(self._corrections(owner, sums)):
            self._means[index] += mean
            self._variances[index] += variance

    def _corrections(self, owner: str, sums: Sequence[int]) -> Iterator[tuple[int, int]]:
        """What owner's figures add to mean and variance by resource; nothing: the fleet's hold."""
        for index, (usage, variance, spread) in enumerate(self._owners.beyond_fleet(owner)):
            expected, _, square, _, unknown = sums[SUMS * index : SUMS * index + SUMS]
            yield expected * usage, square * variance + unknown * spread


def _corrected(figures: Sequence[Moments], corrections: Iterable[tuple[int, int]]) -> list[Moments]:
    found = [
        (mean + more / (PARTS * _MILLION), max(0.0, variance + varied / _MILLION))
        for (mean, variance), (more, varied) in zip(figures, corrections, strict=False)
    ]
    return found or list(figures)


def _add(sums: dict[str, tuple[int, ...]], owner: str, more: Iterable[int]) -> None:
    """Add to an owner's sums; those that are all zero are no more."""
    before = sums.get(owner)
    after = tuple(more) if before is None else tuple(map(add, before, more))
    if any(after):
        sums[owner] = after
    else:
        sums.pop(owner, None)
