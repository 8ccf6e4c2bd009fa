"""What is kept of one node, and what a sample does to it.

A sample is taken in at its own time, wherever that lies within the longest window behind the node's
newest sample. One of a time that is there already changes nothing; so does one older than the
window. Samples that no window needs any more are dropped when the node is next touched by another
batch, so that a batch that did not hold can be applied again to rows that it had begun to change.
"""

from collections.abc import Set
from typing import Literal, NamedTuple

from schemas.base.refusals import Refusal
from schemas.topics.catalog import node_key
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.lifetimes import MemberLifetimes
from streams.aggregate.percentile import UNKNOWN, measured
from streams.aggregate.pods import PodWindow, numbers
from streams.aggregate.reading import Member, SampleFigures
from streams.aggregate.rows import (
    LIFETIME_ROW_NUMBERS_MAX,
    ROW_NUMBERS_MAX,
    PodEntry,
    RowLog,
    SampleEntry,
    sample_numbers,
)
from streams.aggregate.window import SampleWindow

Verdict = Literal["take", "duplicate"] | Refusal


class _Columns(NamedTuple):
    """Resources of a node's figures."""

    number: int
    keep: list[int] | None = None
    """Places of those that the windows need; none: all may stay."""


class NodeWindows:
    """Windows of one node."""

    __slots__ = (
        "anchor_ms", "cluster", "created_offset", "key", "name", "pods", "samples", "since_offset"
    )  # fmt: skip

    def __init__(self, cluster: str, name: str, created_offset: int) -> None:
        self.cluster = cluster
        self.name = name
        self.key = node_key(cluster, name)
        self.created_offset = created_offset
        """Offset of the node's first sample."""
        self.since_offset = created_offset
        """Offset with which the window began."""
        self.anchor_ms = 0
        """Time of the newest report, or of the first sample."""
        self.samples = SampleWindow()
        self.pods = PodWindow()

    @property
    def newest_ms(self) -> int | None:
        """Time of the newest sample; None before the first one."""
        return self.samples.newest_ms

    def judge(
        self, reading: SampleFigures, collecting: Collecting, limits: AggregateLimits
    ) -> Verdict:
        """Whether a sample is to be taken in; changes nothing that a metric shows."""
        time_ms = reading.sampled_at_ms
        newest_ms = self.newest_ms
        if newest_ms is not None:
            if time_ms < newest_ms - collecting.horizon_ms:
                return Refusal(
                    "late",
                    f"sampled_at_ms is {time_ms}, {newest_ms - time_ms} ms before the node's newest "
                    f"sample; allowed are at most {collecting.horizon_ms} ms, the longest window",
                )
            digest = self.samples.digest_at(time_ms)
            if digest == reading.digest:
                return "duplicate"
            if digest is not None:
                return Refusal(
                    "late",
                    f"sampled_at_ms is {time_ms}, of which the node has another sample already; "
                    f"allowed is one sample a node and time, and the first one holds",
                )
        newest_ms = max(time_ms, newest_ms or time_ms)
        columns = self._columns(reading, newest_ms, collecting, limits)
        since_ms, pods_since_ms = (
            newest_ms - collecting.horizon_ms,
            newest_ms - collecting.average_horizon_ms,
        )
        refusal = self._too_many_samples(since_ms, limits)
        if isinstance(columns, Refusal):
            return refusal or columns
        refusal = refusal or self._too_many_members(reading, columns, pods_since_ms, limits)
        if refusal is not None:
            return refusal
        if columns.keep is not None:
            # Only now: a sample that is refused does not move the windows, which may need the
            # others.
            self.samples.narrow(columns.keep)
            self.pods.narrow(columns.keep)
        return "take"

    def take(
        self,
        reading: SampleFigures,
        offset: int,
        collecting: Collecting,
        samples_log: RowLog[SampleEntry],
        pods_log: RowLog[PodEntry],
    ) -> list[int]:
        """Take in a sample that was judged so; return its figures, for its entry in the rows."""
        before_ms = self.newest_ms
        lifetimes_before = self.find_lifetimes(collecting)
        self._widen(reading)
        resources = self.samples.resources
        figures = [
            amounts.get(resource, UNKNOWN)
            for resource in resources
            for amounts in (reading.usage, reading.system)
        ]
        if not len(self.samples):
            self.anchor_ms = reading.sampled_at_ms
        row = samples_log.reserve(sample_numbers(len(resources)))
        self.samples.add(reading.sampled_at_ms, reading.digest, row, figures)
        if reading.members:
            matrix = self.pods.matrix(reading.members, resources)
            row = pods_log.reserve(matrix.size)
            self.pods.add(reading.sampled_at_ms, row, matrix)
            lifetimes = None
            if before_ms is None or reading.sampled_at_ms > before_ms:
                rows_before = self.pods.lifetimes_rows
                lifetimes = self.pods.extend_lifetimes(
                    lifetimes_before, resources, collecting.average_horizon_ms
                )
                if lifetimes is not None:
                    pods_log.hold(row)
                    pods_log.release(rows_before)
            numbers_max = ROW_NUMBERS_MAX if lifetimes is None else LIFETIME_ROW_NUMBERS_MAX
            pods_log.append(
                PodEntry(self.key, offset, tuple(resources), matrix, lifetimes), numbers_max
            )
        return figures

    def find_lifetimes(self, collecting: Collecting) -> MemberLifetimes | None:
        """Return the lifetimes of the pods, unless they have ended."""
        newest_ms = self.newest_ms
        if newest_ms is None:
            return None
        return self.pods.find_lifetimes(
            newest_ms - collecting.average_horizon_ms, newest_ms - collecting.horizon_ms
        )

    def drop_expired(
        self,
        collecting: Collecting,
        samples_log: RowLog[SampleEntry],
        pods_log: RowLog[PodEntry],
    ) -> None:
        """Drop what no window needs; at the first touch of a batch, before anything is taken in."""
        self.cut(collecting.horizon_ms, collecting.average_horizon_ms, samples_log, pods_log)
        if self.pods.renamed:
            self.pods.prune()

    def cut(
        self,
        horizon_ms: int,
        average_horizon_ms: int,
        samples_log: RowLog[SampleEntry],
        pods_log: RowLog[PodEntry],
    ) -> None:
        """Drop what is older than that behind the newest sample; names stay."""
        newest_ms = self.newest_ms
        if newest_ms is not None:
            samples_log.release(self.samples.drop(newest_ms - horizon_ms))
            pods_log.release(self.pods.drop(newest_ms - average_horizon_ms))
            lifetimes = self.pods.lifetimes
            if lifetimes is not None and lifetimes.at_ms < newest_ms - horizon_ms:
                pods_log.release(self.pods.drop_lifetimes())

    def clear(self, samples_log: RowLog[SampleEntry], pods_log: RowLog[PodEntry]) -> None:
        """Drop all samples; names stay, since rows that still count may need them."""
        samples_log.release(self.samples.rows)
        pods_log.release([row for _, row, _ in self.pods] + self.pods.drop_lifetimes())
        self.samples = SampleWindow()
        self.pods.clear()

    def _widen(self, reading: SampleFigures) -> None:
        more = reading.resources.difference(self.samples.resources)
        if more:
            self.samples.widen(sorted(more))
            self.pods.widen(len(more))

    def _too_many_samples(self, since_ms: int, limits: AggregateLimits) -> Refusal | None:
        if len(self.samples) < limits.samples_per_node:
            return None
        live = len(self.samples) - self.samples.index(since_ms)
        if live < limits.samples_per_node:
            return None
        return Refusal(
            "limit", f"samples_per_node: the node has {live} samples in its window, all it may have"
        )

    def _columns(
        self,
        reading: SampleFigures,
        newest_ms: int,
        collecting: Collecting,
        limits: AggregateLimits,
    ) -> "Refusal | _Columns":
        """Resources that there are with the sample.

        Where a limit could be exceeded only those count of which the windows have a figure: others
        are not there after a restart.
        """
        known = len(self.samples.resources)
        more = reading.resources.difference(self.samples.resources)
        count = known + len(more)
        lines = self.pods.size // (1 + known) + len(reading.members)
        few = lines * (1 + count) <= limits.pod_figures_per_node
        if few and count <= limits.resources_per_node:
            return _Columns(count)
        start = self.samples.index(newest_ms - collecting.horizon_ms)
        keep = {column // 2 for column in measured(self.samples.figures(start))}
        for _, _, matrix in self.pods.since(newest_ms - collecting.average_horizon_ms):
            keep.update(measured(matrix[:, 1:]))
        found = reading.resources.union(self.samples.resources[index] for index in keep)
        if len(found) > limits.resources_per_node:
            return Refusal(
                "limit",
                f"resources_per_node: with this sample the node has {len(found)} resources in its "
                f"window; allowed are at most {limits.resources_per_node}",
            )
        return _Columns(len(found), sorted(keep) if len(keep) < known else None)

    def _too_many_members(
        self, reading: SampleFigures, columns: "_Columns", since_ms: int, limits: AggregateLimits
    ) -> Refusal | None:
        few = len(self.pods.members) + len(reading.members) <= limits.members_never_too_many
        lines = self.pods.size // (1 + len(self.samples.resources)) + len(reading.members)
        if few and lines * (1 + columns.number) <= limits.pod_figures_per_node:
            return None
        samples = self.pods.since(since_ms)
        live = numbers(samples)
        members = {member for member, number in self.pods.members.items() if number in live}
        members.update(member for member, _ in reading.members)
        applications = sum(namespace == "" for namespace, *_ in members)
        for name, found, allowed in (
            ("pods_per_node", len(members) - applications, limits.pods_per_node),
            ("host_applications_per_node", applications, limits.host_applications_per_node),
            ("name_characters_per_node", _characters(members), limits.name_characters_per_node),
            (
                "pod_figures_per_node",
                (sum(len(matrix) for _, _, matrix in samples) + len(reading.members))
                * (1 + columns.number),
                limits.pod_figures_per_node,
            ),
        ):
            if found > allowed:
                return Refusal(
                    "limit",
                    f"{name}: with this sample the node has {found} in its average window; allowed "
                    f"are at most {allowed}",
                )
        return None


def _characters(members: Set[Member]) -> int:
    return sum(len(part) for member in members for part in member)
