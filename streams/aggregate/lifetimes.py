"""Usage of the members of one node over their lifetimes, from their samples.

Lifetimes are extended by a sample that comes a whole average window after the one that did so
before: with all samples in between, of the members that the new one has. They are kept with that
sample, whose row stays until the next one has taken them over, so a restart finds them without a row
of their own, also if the window becomes shorter. A window without any sample of pods ends all lifetimes. A late sample, with a time
before theirs, is part of averages and percentiles and of no lifetime.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from schemas.base.message import AMOUNT_MAX
from streams.aggregate.packed_column import packed
from streams.aggregate.percentile import Figures
from streams.risk.lifetimes import NOT_MEASURED, PARTS, Lifetime, merge_lifetimes
from streams.stage.arrays import IntArray

_MINUTE_MS = 60_000
#: Mean and standard deviation.
_Pair = tuple[int, ...]
_NO_PAIR = (NOT_MEASURED, NOT_MEASURED)


class MemberLifetimes(NamedTuple):
    """Lifetimes of the members of one sample."""

    at_ms: int
    """Time of the sample."""
    resources: tuple[str, ...]
    """Of every `Lifetime.usage`."""
    of: dict[int, Lifetime]
    """By number of the member, in the order of the sample."""

    def pairs(self, resource: str) -> list[_Pair]:
        """Return mean and deviation of each member."""
        if resource not in self.resources:
            return [_NO_PAIR] * len(self.of)
        column = 2 * self.resources.index(resource)
        return [lifetime.usage[column : column + 2] for lifetime in self.of.values()]

    def align(self, resources: tuple[str, ...]) -> "MemberLifetimes":
        """Return the same lifetimes with other resources."""
        if resources == self.resources:
            return self
        columns = [self.pairs(resource) for resource in resources]
        of = {
            number: Lifetime(
                lifetime.minutes, tuple(chain.from_iterable(each[place] for each in columns))
            )
            for place, (number, lifetime) in enumerate(self.of.items())
        }
        return MemberLifetimes(self.at_ms, resources, of)


def extend_member_lifetimes(
    before: MemberLifetimes | None,
    at_ms: int,
    matrices: Sequence[Figures],
    resources: Sequence[str],
    window_ms: int,
) -> MemberLifetimes:
    """Return the lifetimes after a stretch of time.

    A resource that was not measured in it ends in all lifetimes; one that is new begins.

    Args:
        before: the lifetimes until then; None: they begin.
        at_ms: time of the newest sample.
        matrices: the samples of the stretch, the newest one last; see `pods`.
        resources: of their columns.
        window_ms: the stretch is at most that long.
    """
    newest: list[int] = list(dict.fromkeys(matrices[-1][:, 0].tolist()))
    numbers = np.array(sorted(newest), dtype=np.int64)
    lines = np.concatenate(matrices)
    place = np.searchsorted(numbers, lines[:, 0]).clip(max=len(numbers) - 1)
    known = numbers[place] == lines[:, 0]
    lines, place = lines[known], place[known]
    minutes = 1
    if before is not None:
        minutes = max(1, min(at_ms - before.at_ms, window_ms) // _MINUTE_MS)
    seen = np.bincount(place, minlength=len(numbers))
    spent: list[int] = np.maximum(1, seen * minutes // len(matrices)).tolist()
    columns: list[list[int]] = []
    for index in range(len(resources)):
        columns += _measure(lines[:, 1 + index], place, len(numbers))
    usages = list(zip(*columns, strict=True)) or [()] * len(numbers)
    index_of = {number: index for index, number in enumerate(numbers.tolist())}
    older = {} if before is None else before.align(tuple(resources)).of
    lifetimes = {}
    for number in newest:
        index = index_of[number]
        lifetime = Lifetime(spent[index], usages[index])
        if number in older:
            lifetime = merge_lifetimes(older[number], lifetime)
        lifetimes[number] = lifetime
    return MemberLifetimes(at_ms, tuple(resources), lifetimes)


def _measure(used: IntArray, place: IntArray, members: int) -> tuple[list[int], list[int]]:
    """Return means and deviations of all members, in thousandths."""
    measured = used >= 0
    at = place[measured]
    amounts = np.minimum(used[measured], AMOUNT_MAX).astype(np.float64)
    counts = np.bincount(at, minlength=members)
    divisors = np.maximum(counts, 1)
    # Added up one after the other, and not in pairs: the same on every machine.
    mean = np.bincount(at, weights=amounts, minlength=members) / divisors
    differences = amounts - mean[at]
    squares = np.bincount(at, weights=differences * differences, minlength=members) / divisors
    means = np.where(counts, (mean * PARTS).astype(np.int64), NOT_MEASURED)
    deviations = np.where(counts, (np.sqrt(squares) * PARTS).astype(np.int64), NOT_MEASURED)
    return means.tolist(), deviations.tolist()


def pack_lifetimes(by_sample: Mapping[int, MemberLifetimes]) -> dict[str, object]:
    """Return lifetimes, by index of their sample, as fields of a `PackedLifetimes`."""
    samples = by_sample.values()
    pairs = {
        name: [pair for each in samples for pair in each.pairs(name)]
        for name in sorted({name for each in samples for name in each.resources})
    }
    pairs = {name: each for name, each in pairs.items() if any(mean >= 0 for mean, _ in each)}
    return {
        "samples": list(by_sample),
        "minutes": packed([lifetime.minutes for each in samples for lifetime in each.of.values()]),
        "mean": {name: packed([mean for mean, _ in each]) for name, each in pairs.items()},
        "deviation": {name: packed([spread for _, spread in each]) for name, each in pairs.items()},
    }
