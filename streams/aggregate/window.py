"""The samples of one node, ordered by time.

One array has all samples: new samples are appended, late samples inserted, and expired samples dropped from
the beginning. So every time window is one slice. The columns are time, digest, table row, then usage and
system part of each resource (56 bytes for two resources).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streams.aggregate.percentile import UNKNOWN, Figures

_TIME, _DIGEST, _ROW, _HEAD = 0, 1, 2, 3
_ROOM_MIN = 16


class SampleWindow:
    """Times, digests, table rows and figures of samples; times are distinct."""

    __slots__ = ("_cells", "_high", "_low", "resources")

    def __init__(self) -> None:
        self.resources: list[str] = []
        """Resource of each pair of columns."""
        self._cells = np.empty((_ROOM_MIN, _HEAD), dtype=np.int64)
        self._low = 0
        self._high = 0

    def __len__(self) -> int:
        return self._high - self._low

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Times of the samples in ms, ascending, shape (samples,); a view."""
        return self._cells[self._low : self._high, _TIME]

    @property
    def newest_ms(self) -> int | None:
        return int(self._cells[self._high - 1, _TIME]) if self._high > self._low else None

    @property
    def rows(self) -> list[int]:
        """Table row of each sample."""
        return self._cells[self._low : self._high, _ROW].tolist()  # type: ignore[no-any-return]

    def figures(self, start: int = 0) -> Figures:
        """Return the figures of the samples from index `start` on, shape (samples, 2 * resources); a view.

        Columns are usage and system part of the first resource, then of the second, and so on.
        """
        return self._cells[self._low + start : self._high, _HEAD:]

    def find_index(self, time_ms: int) -> int:
        """Return the index of the first sample of this time or later."""
        return int(self.times.searchsorted(time_ms))

    def find_digest(self, time_ms: int) -> int | None:
        """Return the digest of the sample of exactly this time; None if there is none."""
        if not len(self) or time_ms > self._cells[self._high - 1, _TIME]:
            return None
        row = self._low + self.find_index(time_ms)
        return int(self._cells[row, _DIGEST]) if self._cells[row, _TIME] == time_ms else None

    def add(self, time_ms: int, digest: int, row: int, figures: Sequence[int]) -> None:
        """Insert a sample; `figures` has the columns of `figures()`."""
        self._make_room()
        row_index = self._high
        if len(self) and time_ms < self._cells[row_index - 1, _TIME]:
            row_index = self._low + self.find_index(time_ms)
            self._cells[row_index + 1 : self._high + 1] = self._cells[row_index : self._high]
        self._cells[row_index] = (time_ms, digest, row, *figures)
        self._high += 1

    def load(self, resources: Sequence[str], head: npt.NDArray[np.int64], figures: Figures) -> None:
        """Replace the content; `head` has times (ascending), digests and rows, shape (samples, 3)."""
        self.resources = list(resources)
        self._cells = np.ascontiguousarray(np.hstack((head, figures)), dtype=np.int64)
        self._low, self._high = 0, len(head)

    def drop(self, before_ms: int) -> list[int]:
        """Drop samples before this time; return the table row of each."""
        if not len(self) or self._cells[self._low, _TIME] >= before_ms:
            return []
        count = self.find_index(before_ms)
        dropped: list[int] = self._cells[self._low : self._low + count, _ROW].tolist()
        self._low += count
        return dropped

    def widen(self, resources: Sequence[str]) -> None:
        """Add columns for resources that are unknown in the present samples."""
        self.resources.extend(resources)
        rows = len(self._cells)
        more = np.full((rows, 2 * len(resources)), UNKNOWN, dtype=np.int64)
        self._cells = np.hstack((self._cells, more))

    def narrow(self, keep: Sequence[int]) -> None:
        """Keep only the columns of the resources with these indexes."""
        self.resources = [self.resources[index] for index in keep]
        columns = [column for index in keep for column in (2 * index, 2 * index + 1)]
        head = list(range(_HEAD))
        self._cells = self._cells[:, head + [_HEAD + column for column in columns]]

    def _make_room(self) -> None:
        room = len(self._cells)
        if self._high < room:
            return
        live = self._cells[self._low : self._high]
        if len(live) > room * 3 // 4:
            grown = max(room * 3 // 2, _ROOM_MIN)
            self._cells = np.empty((grown, self._cells.shape[1]), dtype=np.int64)
        self._cells[: len(live)] = live
        self._low, self._high = 0, len(live)
