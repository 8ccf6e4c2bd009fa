"""Restores a partition from its rows, to the state when the last `progress` was written.

A row that cannot be read stops the worker, because percentiles of incomplete windows would be wrong
unnoticed. Rows of an incomplete batch are ignored, and removed with the next batch.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from schemas.storage.percentiles import (
    ClusterCollectPolicy,
    NodeMembers,
    PodColumns,
    Progress,
    SampleColumns,
)
from schemas.storage.tables import parse_row_key
from streams.aggregate.collect_policies import ClusterPolicies, Ints, PoolRules, select_counted
from streams.aggregate.lifetimes import MemberLifetimes
from streams.aggregate.node import NodeWindows
from streams.aggregate.partition import PartitionClock, PartitionState
from streams.aggregate.percentile import UNKNOWN, Figures
from streams.aggregate.pods import PodSample
from streams.aggregate.rows import PodEntry, RowLog, SampleEntry, numbered_key
from streams.aggregate.samples_by_node import NodeSamples, SamplePods, group_pods, group_samples
from streams.stage.records import DamagedTable, read_row


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
    samples = group_samples(
        read.samples,
        progress.position,
        lambda node: state.policies.get_retentions(node.partition("/")[0])[0],
    )
    pods = group_pods(read.pods, progress.position)
    for key, members in read.nodes.items():
        if members.node not in samples:
            raise DamagedTable(key, "no row holds a sample of this node")
        state.nodes[members.node] = _restore_node(
            members, samples[members.node], pods.get(members.node, []), state.policies
        )
    samples_live = Counter(row for node in state.nodes.values() for row in node.samples.rows)
    pods_live = Counter(row for node in state.nodes.values() for _, row, _ in node.pods)
    pods_live.update(
        node.pods.lifetimes_row for node in state.nodes.values() if node.pods.lifetimes is not None
    )
    state.samples_log = RowLog[SampleEntry](state.epoch << 32, samples_live)
    state.pods_log = RowLog[PodEntry](state.epoch << 32, pods_live)
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


def _restore_node(
    members: NodeMembers, samples: NodeSamples, pods: list[SamplePods], policies: ClusterPolicies
) -> NodeWindows:
    cluster, _, name = members.node.partition("/")
    node = NodeWindows(cluster, name, members.created_offset)
    node.since_offset = samples.since_offset
    node.anchor_ms = samples.anchor_ms
    order = np.argsort(samples.head[:, 0])
    node.samples.load(samples.resources, samples.head[order], samples.figures[order])
    names = {
        (sample.namespace, sample.name, sample.uid, sample.priority_class): sample.number
        for sample in members.members
    }
    by_time = _sort_by_time(pods, samples)
    times = samples.head[:, 0]
    is_counted = select_counted(times, samples.offset, policies.get_retentions(cluster)[1])
    counted = set(times[is_counted].tolist())
    timed = [(time_ms, sample) for time_ms, sample in by_time if time_ms in counted]
    known_numbers = np.array(sorted(names.values()), dtype=np.int64)
    node.samples.widen(sorted(_find_measured_resources(timed) - set(samples.resources)))
    matrices: list[PodSample] = [
        (time_ms, sample.row, _build_matrix(sample, node.samples.resources, known_numbers))
        for time_ms, sample in timed
    ]
    node.pods.load(names, members.next_number, matrices)
    extended = [(time_ms, sample) for time_ms, sample in by_time if sample.lifetimes is not None]
    if extended:
        time_ms, sample = extended[-1]
        assert sample.lifetimes is not None  # noqa: S101 - selected above
        node.pods.lifetimes = MemberLifetimes(time_ms, *sample.lifetimes)
        node.pods.lifetimes_row = sample.row
    return node


def _sort_by_time(pods: Iterable[SamplePods], samples: NodeSamples) -> list[tuple[int, SamplePods]]:
    """Return time and pods of each sample that counts, ordered by time.

    A sample counts once, even if it is in two rows because a batch was repeated.
    """
    by_time = {}
    for sample in pods:
        index = int(np.searchsorted(samples.offset, sample.offset))
        if index < len(samples.offset) and samples.offset[index] == sample.offset:
            by_time[int(samples.head[index, 0])] = sample
    return sorted(by_time.items())


def _find_measured_resources(timed: Iterable[tuple[int, SamplePods]]) -> set[str]:
    measured: dict[str, bool] = defaultdict(bool)
    for _, sample in timed:
        for resource, column in sample.usage.items():
            measured[resource] |= bool((column >= 0).any())
    return {resource for resource, any_value in measured.items() if any_value}


def _build_matrix(pods: SamplePods, resources: list[str], known_numbers: Ints) -> Figures:
    matrix = np.full((len(pods.numbers), 1 + len(resources)), UNKNOWN, dtype=np.int64)
    matrix[:, 0] = pods.numbers
    for index, resource in enumerate(resources):
        column = pods.usage.get(resource)
        if column is not None:
            matrix[:, 1 + index] = column
    # Drop pods without a name. A worker that has lost the partition unnoticed may have replaced the row of
    # names with an older one.
    return matrix[np.isin(pods.numbers, known_numbers)]
