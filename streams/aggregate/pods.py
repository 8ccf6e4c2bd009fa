"""Figures of the pods and host applications of one node within the average window.

Members (pods and host applications) have numbers, so a sample is a small int64 matrix with the number
and the figures of each member. The number of a removed member is not used again. Names are kept until no
sample needs them, so a worker can restore the names of all samples at any time.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.aggregate.lifetimes import MemberLifetimes, extend_member_lifetimes
from streams.aggregate.percentile import UNKNOWN, Figures, compute_means
from streams.aggregate.samples import Amounts, Member

#: Time (ms), table row, matrix of shape (members, 1 + resources).
PodSample = tuple[int, int, Figures]
#: A pod or a host application, and its average usage.
MemberMean = tuple[Member, dict[str, int]]
_BY_TIME = itemgetter(0)

#: Numbers of members, shape (members,).
Numbers = npt.NDArray[np.int64]


class _Order(NamedTuple):
    """Members of a window, ordered by namespace and name."""

    numbers: bytes
    """Numbers of the members in ascending order."""
    lines: list[tuple[int, Member]]
    """Each member with the index of its number."""


class PodWindow:
    """Samples of pods, ordered by time, and the numbers of members."""

    __slots__ = (
        "_last_order",
        "_samples",
        "lifetimes",
        "lifetimes_row",
        "members",
        "names_changed",
        "next_number",
        "size",
    )

    def __init__(self) -> None:
        self.members: dict[Member, int] = {}
        self.next_number = 0
        self.names_changed = True
        """Whether the row of names must be written, because the node or a member is new."""
        self.size = 0
        """Number of cells of all matrices."""
        self.lifetimes: MemberLifetimes | None = None
        """Lifetimes after the last extension; they may have ended (`NodeWindows.find_lifetimes`)."""
        self.lifetimes_row = 0
        """Table row that stores the lifetimes."""
        self._samples: list[PodSample] = []
        self._last_order = _Order(b"", [])

    def __iter__(self) -> Iterator[PodSample]:
        return iter(self._samples)

    def select_since(self, time_ms: int) -> list[PodSample]:
        """Return the samples of this time or later."""
        return self._samples[bisect_left(self._samples, time_ms, key=_BY_TIME) :]

    def build_matrix(
        self, members: Sequence[tuple[Member, Amounts]], resources: Sequence[str]
    ) -> Figures:
        """Return the matrix of a sample, shape (members, 1 + resources); numbers new members."""
        columns = [[self._number(member) for member, _ in members]]
        columns += [
            [amounts.get(resource, UNKNOWN) for _, amounts in members] for resource in resources
        ]
        return np.ascontiguousarray(np.array(columns, dtype=np.int64).T)

    def add(self, time_ms: int, row: int, matrix: Figures) -> None:
        self.size += matrix.size
        if self._samples and time_ms < self._samples[-1][0]:
            insort(self._samples, (time_ms, row, matrix), key=_BY_TIME)
        else:
            self._samples.append((time_ms, row, matrix))

    def extend_lifetimes(
        self,
        before: MemberLifetimes | None,
        resources: Sequence[str],
        window_ms: int,
    ) -> MemberLifetimes | None:
        """Extend the lifetimes if it is time, and return them; else return None.

        Args:
            before: the lifetimes before the newest sample was added.
            resources: resources of the samples' columns.
            window_ms: length of the longest average window.
        """
        time_ms, row, _ = self._samples[-1]
        if before is not None and time_ms - before.at_ms < window_ms:
            return None
        since_ms = time_ms if before is None else max(before.at_ms + 1, time_ms - window_ms)
        matrices = [matrix for _, _, matrix in self.select_since(since_ms)]
        self.lifetimes = extend_member_lifetimes(before, time_ms, matrices, resources, window_ms)
        self.lifetimes_row = row
        return self.lifetimes

    @property
    def lifetimes_rows(self) -> list[int]:
        """Table row that stores the lifetimes; empty without lifetimes."""
        return [] if self.lifetimes is None else [self.lifetimes_row]

    def drop_lifetimes(self) -> list[int]:
        """Drop the lifetimes; return the former `lifetimes_rows`."""
        rows = self.lifetimes_rows
        self.lifetimes = None
        return rows

    def load(self, members: dict[Member, int], next_number: int, samples: list[PodSample]) -> None:
        """Replace the content; `samples` are ordered by time."""
        self.members, self.next_number, self.names_changed = members, next_number, False
        self._last_order = _Order(b"", [])
        self._samples = samples
        self.size = sum(matrix.size for _, _, matrix in samples)

    def drop(self, before_ms: int) -> list[int]:
        """Drop samples before this time; return the table row of each."""
        if not self._samples or self._samples[0][0] >= before_ms:
            return []
        count = bisect_left(self._samples, before_ms, key=_BY_TIME)
        dropped = self._samples[:count]
        del self._samples[:count]
        self.size -= sum(matrix.size for _, _, matrix in dropped)
        return [row for _, row, _ in dropped]

    def clear(self) -> None:
        """Drop all samples; keep names."""
        self._samples, self.size, self.lifetimes = [], 0, None

    def prune(self) -> None:
        """Forget the names of members without sample and lifetime."""
        live = find_numbers(self._samples)
        if self.lifetimes is not None:
            live.update(self.lifetimes.by_number)
        self._last_order = _Order(b"", [])
        self.members = {member: number for member, number in self.members.items() if number in live}
        self.names_changed = False

    def widen(self, count: int) -> None:
        """Add columns for resources that are unknown in the present samples."""
        self._samples = [
            (time_ms, row, np.pad(matrix, ((0, 0), (0, count)), constant_values=UNKNOWN))
            for time_ms, row, matrix in self._samples
        ]
        self.size = sum(matrix.size for _, _, matrix in self._samples)

    def narrow(self, keep: Sequence[int]) -> None:
        """Keep only the columns of the resources with these indexes."""
        columns = [0, *(1 + index for index in keep)]
        self._samples = [(time, row, matrix[:, columns]) for time, row, matrix in self._samples]
        self.size = sum(matrix.size for _, _, matrix in self._samples)

    def compute_means(self, since_ms: int, resources: Sequence[str]) -> list[MemberMean]:
        """Return the mean usage of every measured member since a time, ordered by namespace and name.

        If several pods have the same name, the result has the pod seen last. A change of the priority
        class does not make another pod; the last class counts.
        """
        samples = self.select_since(since_ms)
        if not samples:
            return []
        return self._compute_means(np.concatenate([matrix for _, _, matrix in samples]), resources)

    def _compute_means(self, lines: Figures, resources: Sequence[str]) -> list[MemberMean]:
        ordered = lines[lines[:, 0].argsort(kind="stable")]
        starts = np.diff(ordered[:, 0], prepend=-1).nonzero()[0]
        order = self._find_order(ordered[starts, 0])
        if order is None:
            return self._compute_means(self._join_names(lines), resources)
        means = compute_means(ordered[:, 1:], starts).tolist()
        columns = list(enumerate(resources))
        return [
            (member, usage)
            for line, member in order
            for mean in (means[line],)
            if (usage := {name: mean[column] for column, name in columns if mean[column] >= 0})
        ]

    def _find_order(self, numbers: Numbers) -> list[tuple[int, Member]] | None:
        """Return the members in the order in which they are reported, each with the index of its number.

        Returns None if two members have the same name.
        """
        key = numbers.tobytes()
        if self._last_order.numbers != key:
            names = {number: member for member, number in self.members.items()}
            members = [names[number] for number in numbers.tolist()]
            if len({member[:2] for member in members}) < len(members):
                return None
            by_name = sorted(enumerate(members), key=itemgetter(1))
            self._last_order = _Order(key, by_name)
        return self._last_order.lines

    def _join_names(self, lines: Figures) -> Figures:
        """Return only the lines of the pod seen last of each name, all with the number of its last class."""
        names = {number: member for member, number in self.members.items()}
        members = [names[number] for number in lines[:, 0].tolist()]
        last = {member[:2]: member for member in members}
        lasts = [last[member[:2]] for member in members]
        numbers = np.array([self.members[member] for member in lasts], dtype=np.int64)
        is_last = [a[:3] == b[:3] for a, b in zip(members, lasts, strict=True)]
        return np.column_stack((numbers, lines[:, 1:]))[is_last]

    def _number(self, member: Member) -> int:
        number = self.members.get(member)
        if number is None:
            number = self.members[member] = self.next_number
            self.next_number += 1
            self.names_changed = True
        return number


def find_numbers(samples: Iterable[PodSample]) -> set[int]:
    """Return the numbers of all members in the samples."""
    matrices = [matrix[:, 0] for _, _, matrix in samples]
    return set(np.unique(np.concatenate(matrices)).tolist()) if matrices else set()
