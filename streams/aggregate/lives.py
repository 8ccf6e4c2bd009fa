"""What the pods of a node used over their lives: minutes, mean and deviation of their samples.

Lives are brought up to date by a sample that comes a whole average window after the one before that
did: with all samples in between, of the pods that the new one has. They are kept with that sample,
whose row is there until the next one has taken them over, so a restart finds them without a row of
their own. A window without any sample of pods ends them all. What comes late, with a time before
theirs, is in averages and percentiles and in no life.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from schemas.base.message import AMOUNT_MAX
from streams.aggregate.packed_column import packed
from streams.aggregate.percentile import Figures
from streams.inventory.arrays import IntArray
from streams.inventory.life import MINUTES_MAX, PARTS, joined

_MINUTE_MS = 60_000
_NOT_MEASURED = (-1, -1)


class MemberLife(NamedTuple):
    """The life of one member."""

    minutes: int
    figures: dict[str, tuple[int, int]]
    """Mean and standard deviation by resource, in thousandths."""


class Lives(NamedTuple):
    """Lives of the members of one sample."""

    at_ms: int
    """Time of the sample."""
    of: dict[int, MemberLife]
    """By number of the member, in the order of the sample."""


def brought_up(
    before: Lives | None,
    at_ms: int,
    matrices: Sequence[Figures],
    resources: Sequence[str],
    window_ms: int,
) -> Lives:
    """Lives after a stretch of time. A resource that was not measured in it is in no life after it,
    and one that was not before begins.

    Args:
        before: the lives until then; none: they begin.
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
    figures = {
        resource: _figures(lines[:, 1 + index], place, len(numbers))
        for index, resource in enumerate(resources)
    }
    index_of = {number: index for index, number in enumerate(numbers.tolist())}
    lives = {}
    for number in newest:
        index = index_of[number]
        measured = {
            name: pair for name, each in figures.items() if (pair := each[index]) is not None
        }
        old = None if before is None else before.of.get(number)
        lives[number] = _after(old, spent[index], measured)
    return Lives(at_ms, lives)


def _figures(used: IntArray, place: IntArray, members: int) -> list[tuple[int, int] | None]:
    """Mean and deviation of each member in thousandths; none: it was not measured."""
    measured = used >= 0
    at = place[measured]
    amounts = np.minimum(used[measured], AMOUNT_MAX).astype(np.float64)
    counts = np.bincount(at, minlength=members)
    divisors = np.maximum(counts, 1)
    # Added up one after the other, and not in pairs: the same on every machine.
    mean = np.bincount(at, weights=amounts, minlength=members) / divisors
    apart = amounts - mean[at]
    squares = np.bincount(at, weights=apart * apart, minlength=members) / divisors
    means: list[int] = (mean * PARTS).astype(np.int64).tolist()
    deviations: list[int] = (np.sqrt(squares) * PARTS).astype(np.int64).tolist()
    return [
        pair if count else None
        for pair, count in zip(zip(means, deviations, strict=True), counts.tolist(), strict=True)
    ]


def _after(
    old: MemberLife | None, minutes: int, measured: dict[str, tuple[int, int]]
) -> MemberLife:
    if old is None:
        return MemberLife(minutes, measured)
    figures = {}
    for resource, pair in measured.items():
        known = old.figures.get(resource)
        if known is not None:
            _, mean, deviation = joined((old.minutes, *known), (minutes, *pair))
            pair = (mean, deviation)
        figures[resource] = pair
    return MemberLife(min(old.minutes + minutes, MINUTES_MAX), figures)


def packed_lives(lived: Mapping[int, Lives]) -> dict[str, object]:
    """Lives by index of their sample as columns of a row, `schemas.storage.percentiles.PackedLives`."""
    members = [life for lives in lived.values() for life in lives.of.values()]
    resources = sorted({name for life in members for name in life.figures})
    pairs = {
        name: [life.figures.get(name, _NOT_MEASURED) for life in members] for name in resources
    }
    return {
        "lived": list(lived),
        "minutes": packed([life.minutes for life in members]),
        "mean": {name: packed([mean for mean, _ in each]) for name, each in pairs.items()},
        "deviation": {name: packed([spread for _, spread in each]) for name, each in pairs.items()},
    }
