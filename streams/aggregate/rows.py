"""Rows of table `node_percentiles`, and a log of the rows that a batch has changed.

Samples are appended to the open row of their kind until it is full. A full row is removed when no window
needs its samples. Changes are written in this order: names, samples and pods; `progress`, which makes
the earlier rows valid; removals of rows that are no longer needed.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import orjson

from schemas.storage.percentiles import ClusterCollectPolicy, PodColumns
from schemas.storage.tables import row_key
from schemas.topics.codec import encode
from streams.aggregate.lifetimes import (
    MemberLifetimes,
    decode_lifetime_columns,
    encode_lifetime_columns,
)
from streams.aggregate.percentile import UNKNOWN, Figures
from streams.aggregate.pods import PodWindow
from streams.stage.records import RowChange

#: A row with this many numbers (about 16 KB) is full. Each batch writes the open row again.
ROW_NUMBERS_MAX = 2_048

#: A row with lifetimes is full sooner, because lifetimes take many bytes.
LIFETIME_ROW_NUMBERS_MAX = 256

_HEAD_NUMBERS = 6


class SampleEntry(NamedTuple):
    """A sample in a row of kind `samples`."""

    node: str
    offset: int
    since_offset: int
    sampled_at_ms: int
    reported_at_ms: int
    digest: int
    resources: tuple[str, ...]
    figures: Sequence[int]
    """Usage and system part of the first resource, then of the second, and so on."""


class PodEntry(NamedTuple):
    """Pods of a sample in a row of kind `pod_samples`."""

    node: str
    offset: int
    resources: tuple[str, ...]
    matrix: Figures
    lifetimes: MemberLifetimes | None = None
    """Lifetimes that the sample has extended."""


E = TypeVar("E", SampleEntry, PodEntry)


class RowLog(Generic[E]):
    """The rows of one kind: one is open, the others are full."""

    def __init__(self, sequence: int) -> None:
        """Start with an open row `sequence`."""
        self.sequence = sequence
        self.live: dict[int, int] = {sequence: 0}
        """Number of samples that a window still needs, by row."""
        self._open: list[E] = []
        self._numbers = 0
        self._numbers_max = ROW_NUMBERS_MAX
        """Size at which the open row is full after the batch."""
        self._changed: dict[int, list[E]] = {}
        self._emptied: set[int] = set()

    def reserve(self, numbers: int) -> int:
        """Reserve room for an entry with that many numbers; return its row."""
        # A row that the batch has changed is full only at the larger size.
        numbers_max = ROW_NUMBERS_MAX if self.sequence in self._changed else self._numbers_max
        if self._numbers >= numbers_max:
            if not self.live[self.sequence]:
                self._emptied.add(self.sequence)
            self.sequence += 1
            self.live[self.sequence] = 0
            self._open, self._numbers, self._numbers_max = [], 0, ROW_NUMBERS_MAX
        self._numbers += numbers
        self.live[self.sequence] += 1
        return self.sequence

    def append(self, entry: E, numbers_max: int = ROW_NUMBERS_MAX) -> None:
        """Append an entry after `reserve`; for later batches, the row is full at `numbers_max`."""
        self._open.append(entry)
        self._numbers_max = min(self._numbers_max, numbers_max)
        self._changed[self.sequence] = self._open

    def hold(self, row: int) -> None:
        """Keep a row until one more `release`."""
        self.live[row] += 1

    def release(self, rows: Iterable[int]) -> None:
        """Release samples that no window needs; `rows` has the row of each."""
        for row in rows:
            self.live[row] -= 1
            if not self.live[row] and row != self.sequence:
                self._emptied.add(row)

    def list_pending(self) -> list[tuple[int, list[E]]]:
        """Return the rows to write, in ascending order."""
        return [
            (row, entries)
            for row, entries in sorted(self._changed.items())
            if row not in self._emptied
        ]

    def mark_written(self) -> list[int]:
        """Mark pending rows as written; return the rows to remove, in ascending order."""
        removed = sorted(self._emptied)
        for row in removed:
            del self.live[row]
        self._changed, self._emptied = {}, set()
        return removed


def count_numbers(resources: int) -> int:
    """Return how many integers a sample takes in a row."""
    return _HEAD_NUMBERS + 2 * resources


def members_key(partition: int, node: str) -> str:
    """Return the key of a row of kind `members`; `node` is cluster/node."""
    cluster, _, name = node.partition("/")
    return row_key(partition, cluster, "members", name)


def numbered_key(partition: int, kind: str, number: int) -> str:
    return row_key(partition, "", kind, str(number))


def encode_progress_row(partition: int, progress: dict[str, Any]) -> RowChange:
    """Return a row of kind `progress`; `progress` has the fields of `Progress`."""
    return _encode_row(numbered_key(partition, "progress", progress["epoch"]), progress)


def encode_node_row(partition: int, node: str, created_offset: int, pods: PodWindow) -> RowChange:
    members = [
        {
            "number": number,
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "priority_class": priority_class,
        }
        for (namespace, name, uid, priority_class), number in pods.members.items()
    ]
    content = {
        "node": node,
        "created_offset": created_offset,
        "next_number": pods.next_number,
        "members": members,
    }
    return _encode_row(members_key(partition, node), content)


def encode_policy_row(partition: int, sequence: int, policy: ClusterCollectPolicy) -> RowChange:
    return RowChange(numbered_key(partition, "collect_policies", sequence), encode(policy))


def encode_samples_row(partition: int, sequence: int, entries: Sequence[SampleEntry]) -> RowChange:
    nodes, node_indexes = _number_names([entry.node for entry in entries])
    content: dict[str, Any] = {
        "nodes": nodes,
        "node": node_indexes,
        "offset": [entry.offset for entry in entries],
        "since_offset": [entry.since_offset for entry in entries],
        "sampled_at_ms": [entry.sampled_at_ms for entry in entries],
        "reported_at_ms": [entry.reported_at_ms for entry in entries],
        "digest": [entry.digest for entry in entries],
    }
    usage: dict[str, list[int]] = {}
    system: dict[str, list[int]] = {}
    for index, entry in enumerate(entries):
        for resource_index, resource in enumerate(entry.resources):
            if resource not in usage:
                usage[resource] = [UNKNOWN] * len(entries)
                system[resource] = [UNKNOWN] * len(entries)
            usage[resource][index] = entry.figures[2 * resource_index]
            system[resource][index] = entry.figures[2 * resource_index + 1]
    content |= {"usage": usage, "system": system}
    return _encode_row(numbered_key(partition, "samples", sequence), content)


def encode_pods_row(partition: int, sequence: int, entries: Sequence[PodEntry]) -> RowChange:
    nodes, node_indexes = _number_names([entry.node for entry in entries])
    columns = {resource: None for entry in entries for resource in entry.resources}
    aligned = [align(entry, tuple(columns)) for entry in entries]
    lines = np.concatenate(aligned)
    content = {
        "nodes": nodes,
        "node": node_indexes,
        "offset": [entry.offset for entry in entries],
        "members": [len(entry.matrix) for entry in entries],
        "number": lines[:, 0].tolist(),
        "usage": {resource: lines[:, 1 + index].tolist() for index, resource in enumerate(columns)},
    }
    lifetimes = {
        index: entry.lifetimes for index, entry in enumerate(entries) if entry.lifetimes is not None
    }
    if lifetimes:
        content["lifetimes"] = encode_lifetime_columns(lifetimes)
    return _encode_row(numbered_key(partition, "pod_samples", sequence), content)


def align(entry: PodEntry, resources: tuple[str, ...]) -> Figures:
    """Return the matrix of an entry with the columns of these resources."""
    if entry.resources == resources:
        return entry.matrix
    aligned = np.full((len(entry.matrix), 1 + len(resources)), UNKNOWN, dtype=np.int64)
    aligned[:, 0] = entry.matrix[:, 0]
    for index, resource in enumerate(entry.resources):
        if resource in resources:
            aligned[:, 1 + resources.index(resource)] = entry.matrix[:, 1 + index]
    return aligned


def _number_names(names: Sequence[str]) -> tuple[list[str], list[int]]:
    index_of: dict[str, int] = {}
    numbers = [index_of.setdefault(name, len(index_of)) for name in names]
    return list(index_of), numbers


def _encode_row(key: str, content: dict[str, Any]) -> RowChange:
    # The bytes equal `encode` of the row's class. An object of the class would cost too much, because every
    # batch writes rows of thousands of numbers.
    row = {"schema_version": 1, **content}
    return RowChange(key, orjson.dumps(row, option=orjson.OPT_SORT_KEYS))


def decode_pods(row: PodColumns) -> list[PodEntry]:
    """Return the pods of the samples of a row; lifetimes lack their time.

    Raises:
        ValueError, IndexError, KeyError: columns of the row do not fit together.
    """
    resources = tuple(row.usage)
    lines = np.array((row.number, *row.usage.values()), dtype=np.int64).T
    bounds = list(accumulate(row.members, initial=0))
    if bounds[-1] != len(lines):
        raise ValueError(f"{len(lines)} members are listed, but samples have {bounds[-1]}")
    matrices = [lines[start:stop] for start, stop in pairwise(bounds)]
    lifetimes = {}
    if row.lifetimes is not None:
        numbers = {index: matrices[index][:, 0].tolist() for index in row.lifetimes.samples}
        lifetimes = decode_lifetime_columns(row.lifetimes, numbers)
    return [
        PodEntry(row.nodes[node], offset, resources, matrix, lifetimes.get(index))
        for index, (node, offset, matrix) in enumerate(
            zip(row.node, row.offset, matrices, strict=True)
        )
    ]
