"""Usage of pods and host applications of one node over their lifetimes.

A sample extends the lifetimes of its members if it is at least an average window newer than the sample
that extended them last. All samples in between contribute. The lifetimes are stored with the sample's
pods; the row is kept until the next extension, even if the window becomes shorter. An average window
without samples of pods ends all lifetimes. A sample that is older than the last extension counts in averages
and percentiles, but not in lifetimes.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from schemas.storage.percentiles import LifetimeColumns
from streams.aggregate.percentile import Figures
from streams.risk.lifetimes import NOT_MEASURED, PARTS, Lifetime, merge_lifetimes
from streams.stage.arrays import IntArray

_MINUTE_MS = 60_000
#: Mean and standard deviation.
_Pair = tuple[int, ...]
_NO_PAIR = (NOT_MEASURED, NOT_MEASURED)


class MemberLifetimes(NamedTuple):
    """Lifetimes of the members of one sample, which extended the lifetimes last."""

    at_ms: int
    """Time of the sample."""
    resources: tuple[str, ...]
    """Resources of every `Lifetime.usage`."""
    by_number: dict[int, Lifetime]
    """Lifetime by number of the member, in the order of the sample."""

    def list_pairs(self, resource: str) -> list[_Pair]:
        """Return mean and deviation of each member."""
        if resource not in self.resources:
            return [_NO_PAIR] * len(self.by_number)
        column = 2 * self.resources.index(resource)
        return [lifetime.usage[column : column + 2] for lifetime in self.by_number.values()]

    def align(self, resources: tuple[str, ...]) -> "MemberLifetimes":
        """Return the same lifetimes with other resources."""
        if resources == self.resources:
            return self
        columns = [self.list_pairs(resource) for resource in resources]
        by_number = {
            number: Lifetime(
                lifetime.minutes, tuple(chain.from_iterable(column[index] for column in columns))
            )
            for index, (number, lifetime) in enumerate(self.by_number.items())
        }
        return MemberLifetimes(self.at_ms, resources, by_number)


def extend_member_lifetimes(
    before: MemberLifetimes | None,
    at_ms: int,
    matrices: Sequence[Figures],
    resources: Sequence[str],
    window_ms: int,
) -> MemberLifetimes:
    """Return the lifetimes, extended by the samples since the last extension.

    A resource that none of these samples measured is removed from all lifetimes.

    Args:
        before: lifetimes after the last extension, if any.
        at_ms: time of the newest sample.
        matrices: the samples since then, newest last; see `PodWindow.build_matrix`.
        resources: resources of the matrices' columns.
        window_ms: average window; the samples do not span more time.
    """
    newest: list[int] = list(dict.fromkeys(matrices[-1][:, 0].tolist()))
    numbers = np.array(sorted(newest), dtype=np.int64)
    lines = np.concatenate(matrices)
    member_index = np.searchsorted(numbers, lines[:, 0]).clip(max=len(numbers) - 1)
    is_member = numbers[member_index] == lines[:, 0]
    lines, member_index = lines[is_member], member_index[is_member]
    minutes = 1
    if before is not None:
        minutes = max(1, min(at_ms - before.at_ms, window_ms) // _MINUTE_MS)
    sample_counts = np.bincount(member_index, minlength=len(numbers))
    member_minutes: list[int] = np.maximum(1, sample_counts * minutes // len(matrices)).tolist()
    columns: list[list[int]] = []
    for index in range(len(resources)):
        columns += _measure(lines[:, 1 + index], member_index, len(numbers))
    usages = list(zip(*columns, strict=True)) or [()] * len(numbers)
    index_of = {number: index for index, number in enumerate(numbers.tolist())}
    older = {} if before is None else before.align(tuple(resources)).by_number
    lifetimes = {}
    for number in newest:
        index = index_of[number]
        lifetime = Lifetime(member_minutes[index], usages[index])
        if number in older:
            lifetime = merge_lifetimes(older[number], lifetime)
        lifetimes[number] = lifetime
    return MemberLifetimes(at_ms, tuple(resources), lifetimes)


def _measure(used: IntArray, member_index: IntArray, members: int) -> tuple[list[int], list[int]]:
    """Return means and deviations of all members, in thousandths of the unit.

    Args:
        used: amounts, -1 for not measured, shape (lines,).
        member_index: index of the member of each line, shape (lines,).
        members: number of members.
    """
    measured = used >= 0
    measured_index = member_index[measured]
    amounts = used[measured].astype(np.float64)
    counts = np.bincount(measured_index, minlength=members)
    divisors = np.maximum(counts, 1)
    # `bincount` adds one value after the other, so the result is the same on every machine.
    mean = np.bincount(measured_index, weights=amounts, minlength=members) / divisors
    differences = amounts - mean[measured_index]
    squares = (
        np.bincount(measured_index, weights=differences * differences, minlength=members) / divisors
    )
    means = np.where(counts, (mean * PARTS).astype(np.int64), NOT_MEASURED)
    deviations = np.where(counts, (np.sqrt(squares) * PARTS).astype(np.int64), NOT_MEASURED)
    return means.tolist(), deviations.tolist()


def encode_lifetime_columns(by_sample: Mapping[int, MemberLifetimes]) -> dict[str, object]:
    """Return the fields of a `LifetimeColumns`; `by_sample` has lifetimes by index of the sample."""
    samples = by_sample.values()
    pairs = {
        name: [pair for lifetimes in samples for pair in lifetimes.list_pairs(name)]
        for name in sorted({name for lifetimes in samples for name in lifetimes.resources})
    }
    columns = {
        name: tuple(zip(*of_resource, strict=True))
        for name, of_resource in pairs.items()
        if any(mean >= 0 for mean, _ in of_resource)
    }
    return {
        "samples": list(by_sample),
        "minutes": [
            lifetime.minutes for lifetimes in samples for lifetime in lifetimes.by_number.values()
        ],
        "mean": {name: list(means) for name, (means, _) in columns.items()},
        "deviation": {name: list(deviations) for name, (_, deviations) in columns.items()},
    }


def decode_lifetime_columns(
    stored: LifetimeColumns, numbers: Mapping[int, list[int]]
) -> dict[int, MemberLifetimes]:
    """Return lifetimes, without their time, by index of the sample.

    Args:
        stored: the columns.
        numbers: numbers of the members of each sample, by index of the sample.

    Raises:
        ValueError, KeyError: the columns do not fit together.
    """
    resources = tuple(stored.mean)
    columns = [part[resource] for resource in resources for part in (stored.mean, stored.deviation)]
    usages = zip(*columns, strict=True) if columns else [()] * len(stored.minutes)
    members = [(index, number) for index in numbers for number in dict.fromkeys(numbers[index])]
    by_sample = {index: MemberLifetimes(0, resources, {}) for index in numbers}
    for (index, number), minutes, usage in zip(members, stored.minutes, usages, strict=True):
        by_sample[index].by_number[number] = Lifetime(minutes, usage)
    return by_sample
