"""What a partition keeps in table `node_percentiles`, and what of it a batch has changed.

Samples go into the open row of their kind until it is full. Rows count the samples that a window
still needs; a full row without any is removed. The order of the changes is part of the meaning:
names, samples and pods first, then the progress that makes them hold, then what that progress no
longer needs.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import orjson

from schemas.storage.percentiles import ClusterCollectPolicy
from schemas.storage.tables import row_key
from schemas.topics.codec import encode
from streams.aggregate.lifetimes import MemberLifetimes, pack_lifetimes
from streams.aggregate.percentile import UNKNOWN, Figures
from streams.aggregate.pods import PodWindow
from streams.stage.records import RowChange

#: A row with this many numbers is full: about 16 KB, which is written again while it is open.
ROW_NUMBERS_MAX = 2_048

#: A row with lifetimes is full with this many numbers: lifetimes take many bytes and are needed only
#: until the next ones, so they should not be written again with each of many small batches.
LIFETIME_ROW_NUMBERS_MAX = 256

_HEAD_NUMBERS = 6


class SampleEntry(NamedTuple):
    """A sample in a row of kind `samples`."""

    node: str
    offset: int
    since_offset: int
    sampled_at_ms: int
    anchor_ms: int
    digest: int
    resources: tuple[str, ...]
    figures: Sequence[int]
    """Usage and system part of each resource in turn."""


class PodEntry(NamedTuple):
    """A sample's pods in a row of kind `pods`."""

    node: str
    offset: int
    resources: tuple[str, ...]
    matrix: Figures
    lifetimes: MemberLifetimes | None = None
    """Lifetimes of its members, if the sample has extended them."""


E = TypeVar("E", SampleEntry, PodEntry)


class RowLog(Generic[E]):
    """The rows of one kind: one is open, the others are full."""

    def __init__(self, sequence: int, live: dict[int, int] | None = None) -> None:
        """`sequence` is that of the open row, which is empty; `live` are the full ones."""
        self.sequence = sequence
        self.live: dict[int, int] = {**(live or {}), sequence: 0}
        """Samples of each row that a window still needs."""
        self._open: list[E] = []
        self._numbers = 0
        self._numbers_max = ROW_NUMBERS_MAX
        """With how many numbers the open row is full, once its batch has been written."""
        self._changed: dict[int, list[E]] = {}
        self._emptied: set[int] = set()

    def reserve(self, numbers: int) -> int:
        """The row that the next entry goes into; `numbers` is its size."""
        # A batch goes on with the row that it has begun to change.
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
        """Add the entry that room was reserved for; `numbers_max`: with how many numbers its row is
        full, for later batches."""
        self._open.append(entry)
        self._numbers_max = min(self._numbers_max, numbers_max)
        self._changed[self.sequence] = self._open

    def hold(self, row: int) -> None:
        """Keep a row for one more reason."""
        self.live[row] += 1

    def release(self, rows: Iterable[int]) -> None:
        """No window needs these samples any more; one row number a sample."""
        for row in rows:
            self.live[row] -= 1
            if not self.live[row] and row != self.sequence:
                self._emptied.add(row)

    def pending(self, node: str | None = None) -> list[tuple[int, list[E]]]:
        """Rows to write since the last `settle`, in ascending order; only a node's part, if given."""
        pending = []
        for row, entries in sorted(self._changed.items()):
            if node is not None:
                entries = [entry for entry in entries if entry.node == node]
            if entries and row not in self._emptied:
                pending.append((row, entries))
        return pending

    def settle(self) -> list[int]:
        """What is pending will be written; answers with the rows to remove after it, ascending."""
        removed = sorted(self._emptied)
        for row in removed:
            del self.live[row]
        self._changed, self._emptied = {}, set()
        return removed

    def drop(self, node: str, first_offset: int) -> None:
        """Leave out what is pending of a forgotten node from an offset of this batch on."""
        for entries in self._changed.values():
            entries[:] = [
                each for each in entries if each.node != node or each.offset < first_offset
            ]


def sample_numbers(resources: int) -> int:
    """How many numbers a sample has in its row."""
    return _HEAD_NUMBERS + 2 * resources


def members_key(partition: int, node: str) -> str:
    """Key of the row of who is on a node, which is given as cluster/node."""
    cluster, _, name = node.partition("/")
    return row_key(partition, cluster, "members", name)


def numbered_key(partition: int, kind: str, number: int) -> str:
    """Key of a row that has a number, of any other kind."""
    return row_key(partition, "", kind, str(number))


def progress_row(partition: int, progress: dict[str, Any]) -> RowChange:
    """A row of kind `progress`; fields as in `schemas.storage.percentiles.Progress`."""
    return _row(numbered_key(partition, "progress", progress["epoch"]), progress)


def node_row(partition: int, node: str, created_offset: int, pods: PodWindow) -> RowChange:
    """A row of kind `members`."""
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
    return _row(members_key(partition, node), content)


def policy_row(partition: int, sequence: int, kept: ClusterCollectPolicy) -> RowChange:
    """A row of kind `collect_policies`."""
    return RowChange(numbered_key(partition, "collect_policies", sequence), encode(kept))


def samples_row(partition: int, sequence: int, entries: Sequence[SampleEntry]) -> RowChange:
    """A row of kind `samples`."""
    nodes, places = _numbered([entry.node for entry in entries])
    content: dict[str, Any] = {
        "nodes": nodes,
        "node": places,
        "offset": [entry.offset for entry in entries],
        "since_offset": [entry.since_offset for entry in entries],
        "sampled_at_ms": [entry.sampled_at_ms for entry in entries],
        "anchor_ms": [entry.anchor_ms for entry in entries],
        "digest": [entry.digest for entry in entries],
    }
    usage: dict[str, list[int]] = {}
    system: dict[str, list[int]] = {}
    for place, entry in enumerate(entries):
        for index, resource in enumerate(entry.resources):
            if resource not in usage:
                usage[resource] = [UNKNOWN] * len(entries)
                system[resource] = [UNKNOWN] * len(entries)
            usage[resource][place] = entry.figures[2 * index]
            system[resource][place] = entry.figures[2 * index + 1]
    content |= {"usage": usage, "system": system}
    return _row(numbered_key(partition, "samples", sequence), content)


def pods_row(partition: int, sequence: int, entries: Sequence[PodEntry]) -> RowChange:
    """A row of kind `pod_samples`."""
    nodes, places = _numbered([entry.node for entry in entries])
    columns = {resource: None for entry in entries for resource in entry.resources}
    aligned = [_aligned(entry, tuple(columns)) for entry in entries]
    lines = np.concatenate(aligned)
    content = {
        "nodes": nodes,
        "node": places,
        "offset": [entry.offset for entry in entries],
        "members": [len(entry.matrix) for entry in entries],
        "number": lines[:, 0].tolist(),
        "usage": {resource: lines[:, 1 + index].tolist() for index, resource in enumerate(columns)},
    }
    lifetimes = {
        place: entry.lifetimes for place, entry in enumerate(entries) if entry.lifetimes is not None
    }
    if lifetimes:
        content["lifetimes"] = pack_lifetimes(lifetimes)
    return _row(numbered_key(partition, "pod_samples", sequence), content)


def _aligned(entry: PodEntry, resources: tuple[str, ...]) -> Figures:
    if entry.resources == resources:
        return entry.matrix
    aligned = np.full((len(entry.matrix), 1 + len(resources)), UNKNOWN, dtype=np.int64)
    aligned[:, 0] = entry.matrix[:, 0]
    for index, resource in enumerate(entry.resources):
        aligned[:, 1 + resources.index(resource)] = entry.matrix[:, 1 + index]
    return aligned


def _numbered(names: Sequence[str]) -> tuple[list[str], list[int]]:
    places: dict[str, int] = {}
    numbers = [places.setdefault(name, len(places)) for name in names]
    return list(places), numbers


def _row(key: str, content: dict[str, Any]) -> RowChange:
    # The same bytes as `schemas.topics.codec.encode` makes of a row's class, without building one: every
    # batch writes rows of thousands of numbers.
    row = {"schema_version": 1, **content}
    return RowChange(key, orjson.dumps(row, option=orjson.OPT_SORT_KEYS))
