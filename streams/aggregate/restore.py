"""Restores a partition from its rows, to the state when the last `progress` was written.

A row that cannot be read stops the worker, because percentiles of incomplete windows would be wrong
unnoticed. Rows of an incomplete batch are ignored, and removed with the next batch.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

import numpy as np

from schemas.storage.percentiles import (
    ClusterCollectPolicy,
    NodeMembers,
    PodColumns,
    Progress,
    SampleColumns,
)
from schemas.storage.tables import parse_row_key
from streams.aggregate.collect_policies import PoolRules, select_counted
from streams.aggregate.node import NodeWindows
from streams.aggregate.partition import PartitionClock, PartitionState
from streams.aggregate.percentile import UNKNOWN, Figures, find_measured
from streams.aggregate.rows import (
    PodEntry,
    align,
    decode_pods,
    numbered_key,
)
from streams.stage.records import DamagedTable, read_row

#: Columns of a sample.
_TIME, _DIGEST, _ROW, _OFFSET, _SINCE, _REPORTED, _FIGURES = range(7)


@dataclass(slots=True)
class _Rows:
    """Rows by key. Rows with a number in their key are pairs (number, row)."""

    progress: dict[str, Progress] = field(default_factory=dict)
    nodes: dict[str, NodeMembers] = field(default_factory=dict)
    samples: dict[str, tuple[int, SampleColumns]] = field(default_factory=dict)
    pods: dict[str, tuple[int, PodColumns]] = field(default_factory=dict)
    policies: dict[str, tuple[int, ClusterCollectPolicy]] = field(default_factory=dict)


def restore(partition: int, rows: Mapping[str, bytes], rules: PoolRules) -> PartitionState:
    """Return the state of a partition.

    Args:
        partition: number of the partition.
        rows: its rows by key.
        rules: rules of a cluster until its first policy; the last owner may have used others.

    Raises:
        DamagedTable: a row cannot be read, or is missing.
    """
    read = _parse_rows(rows)
    if not read.progress:
        if rows:
            key = numbered_key(partition, "progress", 0)
            raise DamagedTable(key, f"missing, while the table has {len(rows)} other rows")
        return PartitionState(partition, rules, first=True)
    progress_key = max(read.progress, key=lambda key: read.progress[key].epoch)
    progress = read.progress.pop(progress_key)
    obsolete_keys = [*read.progress, progress_key, *_drop_incomplete(read, progress)]
    state = PartitionState(partition, rules, epoch=progress.epoch + 1)
    state.position = progress.position
    state.since_sweep = progress.since_sweep
    state.clock = PartitionClock(progress.newest_ms)
    obsolete_keys += state.policies.restore(read.policies)
    resources, samples = _group_samples(read.samples, progress.position)
    pods = _group_pods(read.pods, progress.position)
    for key, members in read.nodes.items():
        if members.node not in samples:
            raise DamagedTable(key, "no row holds a sample of this node")
        state.nodes[members.node] = _restore_node(
            state, members, resources, samples[members.node], pods.get(members.node, [])
        )
    samples_live = Counter(row for node in state.nodes.values() for row in node.samples.rows)
    pods_live = Counter(row for node in state.nodes.values() for _, row, _ in node.pods)
    pods_live.update(
        node.pods.lifetimes_row for node in state.nodes.values() if node.pods.lifetimes is not None
    )
    state.samples_log.live.update(samples_live)
    state.pods_log.live.update(pods_live)
    obsolete_keys += [key for key, (row, _) in read.samples.items() if row not in samples_live]
    obsolete_keys += [key for key, (row, _) in read.pods.items() if row not in pods_live]
    state.obsolete_keys = sorted(obsolete_keys)
    return state


def _parse_rows(rows: Mapping[str, bytes]) -> _Rows:
    read = _Rows()
    for key, value in sorted(rows.items()):
        row = read_row(key, value)
        match row:
            case Progress():
                read.progress[key] = row
            case NodeMembers():
                read.nodes[key] = row
            case SampleColumns():
                read.samples[key] = (_parse_sequence(key), row)
            case PodColumns():
                read.pods[key] = (_parse_sequence(key), row)
            case ClusterCollectPolicy():
                read.policies[key] = (_parse_sequence(key), row)
            case _:
                raise DamagedTable(key, "is not a row of this stage")
    return read


def _parse_sequence(key: str) -> int:
    name = parse_row_key(key).name
    if not name.isdecimal():
        raise DamagedTable(key, "the key does not end in a number")
    return int(name)


def _drop_incomplete(read: _Rows, progress: Progress) -> list[str]:
    """Remove the rows of an incomplete batch; return their keys."""
    incomplete = [
        key
        for key, members in read.nodes.items()
        if members.created_offset > progress.position or members.node in progress.forgotten
    ]
    incomplete += [key for key, (row, _) in read.samples.items() if row > progress.samples_sequence]
    incomplete += [key for key, (row, _) in read.pods.items() if row > progress.pods_sequence]
    incomplete += [
        key
        for key, (row, policy) in read.policies.items()
        if row > progress.policies_sequence or policy.offset > progress.position
    ]
    for key in incomplete:
        for rows in (read.nodes, read.samples, read.pods, read.policies):
            rows.pop(key, None)
    return incomplete


@contextmanager
def _name_damaged(key: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, IndexError, KeyError) as error:
        text = f"its columns do not fit together ({type(error).__name__}: {error})"
        raise DamagedTable(key, text) from error


def _group_samples(
    rows: Mapping[str, tuple[int, SampleColumns]], position: int
) -> tuple[list[str], dict[str, Figures]]:
    """Return all resources, and the complete samples of each node, ordered by offset.

    Columns are time, digest, row, offset, offset of the window, time of the report, and the figures.
    """
    resources = list(dict.fromkeys(name for _, row in rows.values() for name in row.usage))
    numbers: dict[str, int] = {}
    parts = [np.empty((0, 1 + _FIGURES + 2 * len(resources)), dtype=np.int64)]
    for key, (number, row) in rows.items():
        with _name_damaged(key):
            nodes = [numbers.setdefault(row.nodes[node], len(numbers)) for node in row.node]
            missing = (UNKNOWN,) * len(nodes)
            head = (row.sampled_at_ms, row.digest, (number,) * len(nodes), row.offset)
            figures = [
                part.get(name, missing) for name in resources for part in (row.usage, row.system)
            ]
            columns = (*head, row.since_offset, row.reported_at_ms, *figures, nodes)
            parts.append(np.array(columns, dtype=np.int64).T)
    lines = np.concatenate(parts)
    lines = lines[lines[:, _OFFSET] <= position]
    lines = lines[np.lexsort((lines[:, _OFFSET], lines[:, -1]))]
    bounds = np.searchsorted(lines[:, -1], np.arange(len(numbers) + 1)).tolist()
    return resources, {
        name: lines[start:stop, :-1]
        for name, (start, stop) in zip(numbers, pairwise(bounds), strict=True)
        if start < stop
    }


def _group_pods(
    rows: Mapping[str, tuple[int, PodColumns]], position: int
) -> dict[str, list[tuple[int, PodEntry]]]:
    """Return the pods of the complete samples of each node, with the number of their row."""
    by_node: dict[str, list[tuple[int, PodEntry]]] = defaultdict(list)
    for key, (number, row) in rows.items():
        with _name_damaged(key):
            for entry in decode_pods(row):
                if entry.offset <= position:
                    by_node[entry.node].append((number, entry))
    return by_node


def _restore_node(
    state: PartitionState,
    members: NodeMembers,
    resources: list[str],
    lines: Figures,
    pods: list[tuple[int, PodEntry]],
) -> NodeWindows:
    cluster, _, name = members.node.partition("/")
    node = state.create(cluster, name, members.created_offset)
    node.since_offset, node.reported_at_ms = lines[-1, _SINCE].item(), lines[-1, _REPORTED].item()
    retention, pods_retention = state.policies.get_retentions(cluster)
    lines = lines[lines[:, _OFFSET] >= node.since_offset]
    lines = lines[select_counted(lines[:, _TIME], lines[:, _OFFSET], retention)]
    # Order by time. A sample may be in two rows if a batch was repeated; the first one counts.
    lines = lines[np.unique(lines[:, _TIME], return_index=True)[1]]
    figures = lines[:, _FIGURES:]
    node.samples.load(resources, lines[:, :_OFFSET], figures)
    node.samples.narrow(sorted({column // 2 for column in find_measured(figures)}))
    times, offsets = lines[:, _TIME], lines[:, _OFFSET]
    time_of = dict(zip(offsets.tolist(), times.tolist(), strict=True))
    by_time = {time_of[pod[1].offset]: pod for pod in pods if pod[1].offset in time_of}
    for time_ms, (number, entry) in sorted(by_time.items(), key=itemgetter(0)):
        if entry.lifetimes is not None:
            node.pods.lifetimes = entry.lifetimes._replace(at_ms=time_ms)
            node.pods.lifetimes_row = number
    counted = times[select_counted(times, offsets, pods_retention)].tolist()
    _load_pods(node, members, [(time, *by_time[time]) for time in counted if time in by_time])
    return node


def _load_pods(
    node: NodeWindows, members: NodeMembers, pods: list[tuple[int, int, PodEntry]]
) -> None:
    """Load time, row and pods of samples, and the resources that only pods have measured."""
    measured = {
        entry.resources[column]
        for _, _, entry in pods
        for column in find_measured(entry.matrix[:, 1:])
    }
    node.samples.widen(sorted(measured.difference(node.samples.resources)))
    resources = tuple(node.samples.resources)
    names = {
        (member.namespace, member.name, member.uid, member.priority_class): member.number
        for member in members.members
    }
    known_numbers = list(names.values())
    samples = []
    for time_ms, number, entry in pods:
        # Drop pods without a name. A worker that has lost the partition unnoticed may have replaced the row of
        # names with an older one.
        matrix = align(entry, resources)
        samples.append((time_ms, number, matrix[np.isin(matrix[:, 0], known_numbers)]))
    node.pods.load(names, members.next_number, samples)
