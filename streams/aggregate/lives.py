"""What the pods of a node used over their lives: minutes, mean and deviation of their samples.

Lives are brought up to date by a sample that comes a whole average window after the one before that
did: with all samples in between, of the pods that the new one has. They are kept with that sample,
whose row is there until the next one has taken them over, so a restart finds them without a row of
their own. A window without any sample of pods ends them all. What comes late, with a time before
theirs, is in averages and percentiles and in no life.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from schemas.base import AMOUNT_MAX
from streams.aggregate.percentile import Figures
from streams.inventory.life import PARTS, Life, joined

_MINUTE_MS = 60_000


class Lives(NamedTuple):
    """Lives of the members of one sample."""

    at_ms: int
    """Time of the sample."""
    resources: tuple[str, ...]
    of: dict[int, Life]
    """By number of the member, in the order of the sample."""

    def aligned(self, number: int, resources: Sequence[str]) -> Life | None:
        """The life of a member over other resources; none: it has not been measured by all of them."""
        life = self.of.get(number)
        if life is None or self.resources == resources:
            return life
        figures = [life[0]]
        for resource in resources:
            if resource not in self.resources:
                return None
            index = 2 * self.resources.index(resource)
            figures += life[1 + index : 3 + index]
        return tuple(figures)


def brought_up(
    before: Lives | None,
    at_ms: int,
    matrices: Sequence[Figures],
    resources: tuple[str, ...],
    window_ms: int,
) -> Lives:
    """Lives after a stretch of time.

    Args:
        before: the lives until then; none: they begin.
        at_ms: time of the newest sample.
        matrices: the samples of the stretch, the newest one last; see `pods`.
        resources: of their columns.
        window_ms: the stretch is at most that long.
    """
    newest = matrices[-1][:, 0]
    numbers, places = np.unique(newest, return_inverse=True)
    lines = np.concatenate(matrices)
    place = np.searchsorted(numbers, lines[:, 0]).clip(max=len(numbers) - 1)
    known = numbers[place] == lines[:, 0]
    lines, place = lines[known], place[known]
    seen = np.bincount(place, minlength=len(numbers))
    stretch_ms = window_ms if before is None else min(at_ms - before.at_ms, window_ms)
    minutes = max(1, stretch_ms // _MINUTE_MS) if before is not None else 1
    spent = np.maximum(1, seen * minutes // len(matrices))
    columns = [spent]
    for index in range(len(resources)):
        figures = lines[:, 1 + index]
        measured = figures >= 0
        at = place[measured]
        used = np.minimum(figures[measured], AMOUNT_MAX).astype(np.float64)
        count = np.maximum(np.bincount(at, minlength=len(numbers)), 1)
        # Added up one after the other, and not in pairs: the same on every machine.
        mean = np.bincount(at, weights=used, minlength=len(numbers)) / count
        apart = used - mean[at]
        squares = np.bincount(at, weights=apart * apart, minlength=len(numbers)) / count
        columns += [
            (mean * PARTS).astype(np.int64),
            (np.sqrt(squares) * PARTS).astype(np.int64),
        ]
    stretches: list[list[int]] = np.stack(columns, axis=1)[places].tolist()
    lives: dict[int, Life] = {}
    for number, stretch in zip(newest.tolist(), stretches, strict=True):
        old = None if before is None else before.aligned(number, resources)
        lives[number] = tuple(stretch) if old is None else joined(old, tuple(stretch))
    return Lives(at_ms, resources, lives)


def columns_of(lived: Iterable[Lives]) -> dict[str, object]:
    """Lives as columns of a row; those of a resource that a sample has not are 0."""
    all_lives = list(lived)
    resources = dict.fromkeys(name for lives in all_lives for name in lives.resources)
    minutes = [life[0] for lives in all_lives for life in lives.of.values()]
    mean: dict[str, list[int]] = {name: [] for name in resources}
    deviation: dict[str, list[int]] = {name: [] for name in resources}
    for lives in all_lives:
        for name in resources:
            index = lives.resources.index(name) if name in lives.resources else None
            for life in lives.of.values():
                mean[name].append(-1 if index is None else life[1 + 2 * index])
                deviation[name].append(-1 if index is None else life[2 + 2 * index])
    return {"life_minutes": minutes, "life_mean": mean, "life_deviation": deviation}
