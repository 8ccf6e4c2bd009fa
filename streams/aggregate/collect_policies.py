"""Collect policies of the clusters, and the limits of the stage.

The cluster stage derives a collect policy from a cluster's policy, and writes it between the samples as
a record (`schemas.messages.usage`). A sample names the pool of its node. The default rules apply to
pools that the policy does not name, and to clusters whose first policy has not arrived.

If a policy shortens the longest window, samples outside of the window are dropped, and a longer window does
not bring them back. A running stage drops them at once, but rows may still contain them. Therefore the change
is stored with the policy until a later window is at least as short, and `select_counted` filters samples of
rows by the stored changes. So a restart does not change the state.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.messages.metrics import PODS_PER_METRIC_MAX
from schemas.messages.usage import (
    HOST_APPLICATIONS_PER_SAMPLE_MAX,
    CollectPolicyRecord,
    NodeCollectPolicy,
)
from schemas.policy.sections.collect import CollectPolicy
from schemas.storage.percentiles import ClusterCollectPolicy, WindowChange
from streams.aggregate.rows import encode_policy_row, numbered_key
from streams.stage.records import RowChange

Ints = npt.NDArray[np.int64]

#: Most characters of namespace, name, uid and priority class of one pod.
_MEMBER_CHARACTERS_MAX = 253 + 253 + 128 + 253
#: Most stored changes of one cluster. A further change is merged with the last one, with the shorter windows
#: of both.
CHANGES_MAX = 16


@dataclass(frozen=True, slots=True)
class PoolRules:
    """The collect policies of all node pools of a cluster."""

    default: NodeCollectPolicy = CollectPolicy().as_message
    pools: Mapping[str, NodeCollectPolicy] = field(default_factory=dict)
    horizon_ms: int = field(init=False)
    """Samples are kept for this time before a node's newest sample: the longest window of any pool. All
    nodes of the cluster have the same horizon, so a node may change its pool at any time."""
    average_horizon_ms: int = field(init=False)
    """Figures of pods are kept for this time: the longest average window of any pool."""

    def __post_init__(self) -> None:
        policies = (self.default, *self.pools.values())
        average_ms = max(policy.average_ms for policy in policies)
        durations_ms = (duration for policy in policies for duration in policy.durations_ms)
        object.__setattr__(self, "average_horizon_ms", average_ms)
        object.__setattr__(self, "horizon_ms", max((average_ms, *durations_ms)))

    def get_rules(self, pool: str | None) -> NodeCollectPolicy:
        """Return the policy for a node whose newest sample names this pool."""
        return self.default if pool is None else self.pools.get(pool, self.default)


@dataclass(frozen=True, slots=True)
class AggregateLimits:
    """Limits of the stage. A record that exceeds one goes to `dead-letters` with the limit's name."""

    future_ms: int = 60_000
    """A sample may be this much later than the timestamp of its record."""
    forget_after_ms: int = 1_800_000
    """A node is forgotten when its newest sample left the longest window this long ago, by the clock
    of the partition."""
    sweep_records: int = 64
    """Records between two searches for nodes to forget, or the number of nodes if it is larger."""
    nodes_per_partition: int = 20_000
    policies_per_partition: int = 20_000
    """Clusters with a collect policy."""
    samples_per_node: int = 8_000
    """Samples within the longest window: half an hour of four samples per second."""
    resources_per_node: int = 32
    """Resources in a node's window."""
    pods_per_node: int = PODS_PER_METRIC_MAX
    """Pods within the average window."""
    host_applications_per_node: int = HOST_APPLICATIONS_PER_SAMPLE_MAX
    """Host applications within the average window."""
    name_characters_per_node: int = 262_144
    """Characters of all names of pods and host applications within the average window."""
    pod_figures_per_node: int = 2_000_000
    """Numbers kept for pods within the average window: 16 MB."""
    metric_bytes: int = 4 * 1024 * 1024
    """Longest node metric that readers accept; a longer one is emitted without its pods."""

    @property
    def safe_members(self) -> int:
        """Number of pods and host applications that cannot exceed a limit, even with the longest names."""
        return min(
            self.pods_per_node,
            self.host_applications_per_node,
            self.name_characters_per_node // _MEMBER_CHARACTERS_MAX,
        )


class Retention(NamedTuple):
    """Time for which samples of a cluster count."""

    horizon_ms: int
    changes: tuple[tuple[int, int], ...] = ()
    """Earlier changes: offset of the policy, and the horizon before the policy."""


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """The collect policy of one cluster."""

    sequence: int
    """Number of its row."""
    rules: PoolRules
    row: ClusterCollectPolicy


class ClusterPolicies:
    """Collect policies by cluster."""

    def __init__(self, default: PoolRules, sequence: int) -> None:
        """`default` applies until a cluster's first policy; rows are numbered after `sequence`."""
        self.default = default
        self.sequence = sequence
        """Number of the newest row."""
        self.by_cluster: dict[str, ClusterPolicy] = {}
        self._written: dict[str, None] = {}
        self._removed: dict[int, None] = {}

    def get_pool_rules(self, cluster: str) -> PoolRules:
        policy = self.by_cluster.get(cluster)
        return self.default if policy is None else policy.rules

    def get_retentions(self, cluster: str) -> tuple[Retention, Retention]:
        """Return the retention of a cluster's samples, and that of figures of pods."""
        rules, policy = self.get_pool_rules(cluster), self.by_cluster.get(cluster)
        changes = () if policy is None else policy.row.changes
        return (
            Retention(
                rules.horizon_ms, tuple((change.offset, change.horizon_ms) for change in changes)
            ),
            Retention(
                rules.average_horizon_ms,
                tuple((change.offset, change.average_horizon_ms) for change in changes),
            ),
        )

    def set_policy(self, record: CollectPolicyRecord, offset: int) -> WindowChange | None:
        """Set the policy of a cluster; return the former horizons if they have changed."""
        cluster = record.cluster
        before = self.get_pool_rules(cluster)
        after = PoolRules(record.default, record.pools)
        replaced = self.by_cluster.get(cluster)
        changes = () if replaced is None else replaced.row.changes
        change = None
        if (before.horizon_ms, before.average_horizon_ms) != (
            after.horizon_ms,
            after.average_horizon_ms,
        ):
            change = WindowChange(
                offset=offset,
                horizon_ms=before.horizon_ms,
                average_horizon_ms=before.average_horizon_ms,
            )
            changes = _add_change(changes, change)
            change = changes[-1]
        if replaced is not None:
            self._removed[replaced.sequence] = None
        self.sequence += 1
        row = ClusterCollectPolicy(offset=offset, record=record, changes=changes)
        self.by_cluster[cluster] = ClusterPolicy(self.sequence, after, row)
        self._written[cluster] = None
        return change

    def restore(self, rows: Mapping[str, tuple[int, ClusterCollectPolicy]]) -> list[str]:
        """Restore the policies from number and row by key; return the keys of replaced rows."""
        key_of_cluster: dict[str, str] = {}
        replaced = []
        for key, (sequence, row) in sorted(rows.items(), key=lambda item: item[1][0]):
            cluster = row.record.cluster
            if cluster in key_of_cluster:
                replaced.append(key_of_cluster[cluster])
            key_of_cluster[cluster] = key
            self.by_cluster[cluster] = ClusterPolicy(
                sequence, PoolRules(row.record.default, row.record.pools), row
            )
        return replaced

    def take_changes(self, partition: int) -> tuple[list[RowChange], list[RowChange]]:
        """Return the rows that were changed, and those that were removed, since the last call."""
        policies = [self.by_cluster[cluster] for cluster in self._written]
        written = [encode_policy_row(partition, policy.sequence, policy.row) for policy in policies]
        removed = [
            RowChange(numbered_key(partition, "collect_policies", sequence), None)
            for sequence in self._removed
        ]
        self.mark_written()
        return written, removed

    def mark_written(self) -> None:
        self._written, self._removed = {}, {}


def select_counted(times: Ints, offsets: Ints, retention: Retention) -> npt.NDArray[np.bool_]:
    """Return which samples of a node, as read from rows, still count; shape (samples,).

    Args:
        times: times of the samples, in ms.
        offsets: offsets of their records.
        retention: retention of the node's cluster.
    """
    counted: npt.NDArray[np.bool_] = times >= times.max() - retention.horizon_ms
    for offset, horizon_ms in retention.changes:
        before = offsets < offset
        if before.any():
            counted &= ~before | (times >= times[before].max() - horizon_ms)
    return counted


def _add_change(changes: Iterable[WindowChange], newest: WindowChange) -> tuple[WindowChange, ...]:
    """Append a change, and drop earlier changes that did not remove more samples."""
    remaining = [
        change
        for change in changes
        if change.horizon_ms < newest.horizon_ms
        or change.average_horizon_ms < newest.average_horizon_ms
    ]
    if len(remaining) >= CHANGES_MAX:
        newest_remaining = remaining.pop()
        newest = WindowChange(
            offset=newest.offset,
            horizon_ms=min(newest_remaining.horizon_ms, newest.horizon_ms),
            average_horizon_ms=min(newest_remaining.average_horizon_ms, newest.average_horizon_ms),
        )
    return (*remaining, newest)
