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
from streams.aggregate.percentile import (
    INT64_MAX,
    UNKNOWN,
    Figures,
    are_all_within,
    compute_sums,
    count_measured,
)
from streams.aggregate.samples import Amounts, Member

#: Time (ms), table row, matrix of shape (members, 1 + resources).
PodSample = tuple[int, int, Figures]
#: A pod or a host application, and its average usage.
MemberMean = tuple[Member, dict[str, int]]
_BY_TIME = itemgetter(0)

#: Numbers of members, shape (members,).
Numbers = npt.NDArray[np.int64]


class _Order(NamedTuple):
    """Members of a sample or window, ordered by namespace and name."""

    numbers: bytes
    """Numbers of the members in the order of the sample or window."""
    lines: list[int]
    """Index in that order of each of `members`."""
    members: list[Member]


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
        self._last_order = _Order(b"", [], [])

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
        self._last_order = _Order(b"", [], [])
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
        self._last_order = _Order(b"", [], [])
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
        lines = np.concatenate([matrix for _, _, matrix in samples])
        order = lines[:, 0].argsort(kind="stable")
        ordered = lines[order]
        line_numbers = ordered[:, 0]
        begins = np.empty(len(line_numbers) + 1, dtype=np.bool_)
        begins[0] = begins[-1] = True
        np.not_equal(line_numbers[1:], line_numbers[:-1], out=begins[1:-1])
        bounds = begins.nonzero()[0]
        starts, figures = bounds[:-1], ordered[:, 1:]
        numbers = line_numbers[starts]
        member_order = self._find_order(numbers, numbers.tobytes())
        if (
            member_order is not None
            and figures.size
            and are_all_within(figures, INT64_MAX // len(figures))
        ):
            divisors = np.diff(bounds)[:, np.newaxis]
            mean_lines = (np.add.reduceat(figures, starts) // divisors).tolist()
            return _name_means(member_order, mean_lines, resources)
        line_sums, line_counts = compute_sums(figures, starts), count_measured(figures, starts)
        if member_order is not None:
            return [
                (member, usage)
                for line, member in zip(member_order.lines, member_order.members, strict=True)
                if (usage := _compute_mean(resources, line_sums[line], line_counts[line]))
            ]
        last_seen = order[bounds[1:] - 1]
        return self._compute_means_by_name(numbers, last_seen, line_sums, line_counts, resources)

    def _find_order(self, numbers: Numbers, key: bytes) -> "_Order | None":
        """Return the order in which members are reported; None if two have the same name.

        `key` has the numbers as bytes.
        """
        if self._last_order.numbers != key:
            names = {number: member for member, number in self.members.items()}
            members = [names[number] for number in numbers.tolist()]
            if len({member[:2] for member in members}) < len(members):
                return None
            lines = sorted(range(len(members)), key=members.__getitem__)
            self._last_order = _Order(key, lines, [members[line] for line in lines])
        return self._last_order

    def _compute_means_by_name(
        self,
        numbers: Numbers,
        last_seen: npt.NDArray[np.intp],
        line_sums: list[list[int]],
        line_counts: list[list[int]],
        resources: Sequence[str],
    ) -> list[MemberMean]:
        """Return the means if members have the same name; `last_seen` grows with the time of a member."""
        names = {number: member for member, number in self.members.items()}
        members = [names[number] for number in numbers.tolist()]
        by_identity: dict[tuple[str, str, str], tuple[Member, list[int], list[int]]] = {}
        for line in np.argsort(last_seen).tolist():
            member = members[line]
            entry = (member, line_sums[line], line_counts[line])
            before = by_identity.pop(member[:3], None)
            if before is not None:
                entry = (member, _add_lists(before[1], entry[1]), _add_lists(before[2], entry[2]))
            by_identity[member[:3]] = entry
        by_name = {entry[0][:2]: entry for entry in by_identity.values()}
        means = []
        for _, (member, totals, divisors) in sorted(by_name.items()):
            usage = _compute_mean(resources, totals, divisors)
            if usage:
                means.append((member, usage))
        return means

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


def _name_means(
    order: _Order, means: Sequence[Sequence[int]], resources: Sequence[str]
) -> list[MemberMean]:
    columns = list(enumerate(resources))
    return [
        (member, {resource: means[line][column] for column, resource in columns})
        for line, member in zip(order.lines, order.members, strict=True)
    ]


def _compute_mean(
    resources: Sequence[str], totals: Sequence[int], divisors: Sequence[int]
) -> dict[str, int]:
    return {
        resource: total // count
        for resource, total, count in zip(resources, totals, divisors, strict=True)
        if count
    }


def _add_lists(left: list[int], right: list[int]) -> list[int]:
    return [a + b for a, b in zip(left, right, strict=True)]
