"""Groups the samples in rows by node.

Rows have samples of many nodes, as columns. The columns of all rows are joined, ordered by node and
offset, and split by node. These steps use arrays, because a worker that takes over a partition reads up
to a million samples.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from schemas.storage.percentiles import PodColumns, SampleColumns
from streams.aggregate.collect_policies import Ints, Retention, select_counted
from streams.aggregate.percentile import UNKNOWN, Figures
from streams.risk.lifetimes import Lifetime
from streams.stage.records import DamagedTable


@dataclass(frozen=True, slots=True)
class NodeSamples:
    """Samples of one node that still count, in the order of their records."""

    since_offset: int
    anchor_ms: int
    resources: list[str]
    offset: Ints
    head: Ints
    """Time, digest and row of each sample, shape (samples, 3)."""
    figures: Figures
    """Shape (samples, 2 * resources); columns as in `SampleWindow.figures`."""


#: Resources, and lifetime by number of the member.
SampleLifetimes = tuple[tuple[str, ...], dict[int, Lifetime]]


@dataclass(frozen=True, slots=True)
class SamplePods:
    """Pods of one sample."""

    offset: int
    row: int
    numbers: Ints
    usage: dict[str, Ints]
    lifetimes: SampleLifetimes | None = None
    """Lifetimes of the members, if the sample has extended them."""


def group_samples(
    rows: Mapping[str, tuple[int, SampleColumns]],
    position: int,
    find_retention: Callable[[str], Retention],
) -> dict[str, NodeSamples]:
    """Return the samples by node.

    Args:
        rows: sequence and row, by key.
        position: last applied offset; later samples are ignored.
        find_retention: returns how long samples of a node count, by key of the node.
    """
    joined = _JoinedRows(position)
    for key, (sequence, columns) in rows.items():
        joined.add(key, sequence, columns)
    return joined.group(find_retention)


def group_pods(
    rows: Mapping[str, tuple[int, PodColumns]], position: int
) -> dict[str, list[SamplePods]]:
    """Return the pods by node; arguments as in `group_samples`."""
    by_node: dict[str, list[SamplePods]] = defaultdict(list)
    for key, (sequence, columns) in rows.items():
        _check_lengths(key, len(columns.offset), columns.node, columns.members)
        _check_lengths(key, sum(columns.members), columns.number, *columns.usage.values())
        _check_indexes(key, columns.node, columns.nodes)
        numbers = np.array(columns.number, dtype=np.int64)
        usage = {
            resource: np.array(column, dtype=np.int64) for resource, column in columns.usage.items()
        }
        lifetimes = _read_lifetimes(key, columns)
        start = 0
        for index, (node, offset, members) in enumerate(
            zip(columns.node, columns.offset, columns.members, strict=True)
        ):
            lines = slice(start, start + members)
            start += members
            if offset <= position:
                cut = {resource: column[lines] for resource, column in usage.items()}
                by_node[columns.nodes[node]].append(
                    SamplePods(offset, sequence, numbers[lines], cut, lifetimes.get(index))
                )
    return by_node


def _read_lifetimes(key: str, columns: PodColumns) -> dict[int, SampleLifetimes]:
    """Return lifetimes by index of their sample."""
    stored = columns.lifetimes
    if stored is None:
        return {}
    _check_indexes(key, stored.samples, columns.offset, "sample")
    starts = np.cumsum((0, *columns.members)).tolist()
    numbers = [
        list(dict.fromkeys(columns.number[starts[index] : starts[index + 1]]))
        for index in stored.samples
    ]
    if list(stored.mean) != list(stored.deviation):
        raise DamagedTable(key, "means and deviations name different resources")
    resources = tuple(stored.mean)
    parts = [part[resource] for resource in resources for part in (stored.mean, stored.deviation)]
    _check_lengths(key, sum(map(len, numbers)), stored.minutes, *parts)
    usages = zip(*parts, strict=True) if parts else repeat(())
    lifetimes = map(Lifetime, stored.minutes, usages)
    return {
        index: (resources, dict(zip(sample_numbers, lifetimes, strict=False)))
        for index, sample_numbers in zip(stored.samples, numbers, strict=True)
    }


_FIELDS = ("offset", "since_offset", "sampled_at_ms", "anchor_ms", "digest")


class _JoinedRows:
    def __init__(self, position: int) -> None:
        self._position = position
        self._length = 0
        self._nodes: dict[str, int] = {}
        self._columns: dict[str, list[Ints]] = defaultdict(list)
        self._figures: dict[str, list[tuple[Ints, Ints, Ints]]] = defaultdict(list)
        """Indexes in the columns, usage, and system part by resource."""

    def add(self, key: str, sequence: int, row: SampleColumns) -> None:
        length = len(row.offset)
        figures = (*row.usage.values(), *row.system.values())
        _check_lengths(key, length, row.node, *(getattr(row, field) for field in _FIELDS), *figures)
        _check_indexes(key, row.node, row.nodes)
        if row.usage.keys() != row.system.keys():
            raise DamagedTable(key, "usage and system name different resources")
        numbers = [self._nodes.setdefault(node, len(self._nodes)) for node in row.nodes]
        self._columns["node"].append(np.array(numbers, dtype=np.int64)[list(row.node)])
        for field in _FIELDS:
            self._columns[field].append(np.array(getattr(row, field), dtype=np.int64))
        self._columns["row"].append(np.full(length, sequence, dtype=np.int64))
        for resource, values in row.usage.items():
            usage = np.array(values, dtype=np.int64)
            system = np.array(row.system[resource], dtype=np.int64)
            measured = np.flatnonzero((usage >= 0) | (system >= 0))
            if len(measured):
                indexes = self._length + measured
                self._figures[resource].append((indexes, usage[measured], system[measured]))
        self._length += length

    def group(self, find_retention: Callable[[str], Retention]) -> dict[str, NodeSamples]:
        if not self._length:
            return {}
        columns = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        # Samples of an incomplete batch are moved to the end, behind the last node.
        columns["node"][columns["offset"] > self._position] = len(self._nodes)
        order = np.lexsort((columns["offset"], columns["node"]))
        columns = {name: column[order] for name, column in columns.items()}
        bounds = np.searchsorted(columns["node"], np.arange(len(self._nodes) + 1))
        figures = self._group_figures(order, columns["node"])
        return {
            name: _select_samples(
                columns,
                slice(bounds[number], bounds[number + 1]),
                figures[number],
                find_retention(name),
            )
            for name, number in self._nodes.items()
            if bounds[number] < bounds[number + 1]
        }

    def _group_figures(
        self, order: Ints, node: Ints
    ) -> dict[int, list[tuple[str, Ints, Ints, Ints]]]:
        """Return resource, indexes in the ordered columns, usage, and system part by node."""
        position_of = np.empty_like(order)
        position_of[order] = np.arange(len(order))
        by_node: dict[int, list[tuple[str, Ints, Ints, Ints]]] = defaultdict(list)
        for resource, parts in self._figures.items():
            positions = position_of[np.concatenate([part[0] for part in parts])]
            ascending = np.argsort(positions)
            positions = positions[ascending]
            usage = np.concatenate([part[1] for part in parts])[ascending]
            system = np.concatenate([part[2] for part in parts])[ascending]
            numbers, starts = np.unique(node[positions], return_index=True)
            for number, start, stop in zip(
                numbers.tolist(),
                starts.tolist(),
                [*starts[1:].tolist(), len(positions)],
                strict=True,
            ):
                by_node[number].append(
                    (resource, positions[start:stop], usage[start:stop], system[start:stop])
                )
        return by_node


def _select_samples(
    columns: Mapping[str, Ints],
    span: slice,
    figures: Sequence[tuple[str, Ints, Ints, Ints]],
    retention: Retention,
) -> NodeSamples:
    """Return the samples of one node since its windows began, without expired ones."""
    cut = {name: column[span] for name, column in columns.items()}
    since_offset = int(cut["since_offset"][-1])
    times = cut["sampled_at_ms"]
    since = np.flatnonzero(cut["offset"] >= since_offset)
    counted = since[select_counted(times[since], cut["offset"][since], retention)]
    # A sample may be in two rows if a batch was repeated; the first one counts.
    _, first_indexes = np.unique(times[counted], return_index=True)
    ordered = np.sort(counted[first_indexes])
    matrix = np.full((len(times), 2 * len(figures)), UNKNOWN, dtype=np.int64)
    for index, (_, positions, usage, system) in enumerate(figures):
        matrix[positions - span.start, 2 * index] = usage
        matrix[positions - span.start, 2 * index + 1] = system
    return NodeSamples(
        since_offset=since_offset,
        anchor_ms=int(cut["anchor_ms"][-1]),
        resources=[resource for resource, *_ in figures],
        offset=cut["offset"][ordered],
        head=np.stack((times[ordered], cut["digest"][ordered], cut["row"][ordered]), axis=1),
        figures=matrix[ordered],
    )


def _check_lengths(key: str, length: int, *columns: Sequence[int]) -> None:
    for column in columns:
        if len(column) != length:
            text = f"a column has {len(column)} entries; expected are {length}"
            raise DamagedTable(key, text)


def _check_indexes(
    key: str, indexes: Sequence[int], items: Sequence[object], kind: str = "node"
) -> None:
    if indexes and max(indexes) >= len(items):
        text = f"{kind} {max(indexes)} is used; there are {len(items)}, numbered from 0"
        raise DamagedTable(key, text)
