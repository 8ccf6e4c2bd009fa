"""Converts the state of a cluster to table rows and back.

From the same records, a restored state makes the same decisions as the original state.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from schemas.policy import read_policy
from schemas.storage.rows import ClusterPolicyRow, ClusterRow
from schemas.storage.tables import parse_row_key, row_key
from schemas.topics.codec import encode
from streams.cluster.state import ClusterState
from streams.placement.registry import KNOWN
from streams.stage.records import DamagedTable, RowChange, read_row

#: Keys and values of one cluster's rows, by kind.
RowsByKind = dict[str, list[tuple[str, bytes]]]


def group_rows(rows: Iterable[tuple[str, bytes]]) -> dict[str, RowsByKind]:
    """Group rows by cluster and kind.

    Raises:
        DamagedTable: a key cannot be read.
    """
    by_cluster: dict[str, RowsByKind] = defaultdict(lambda: defaultdict(list))
    for key, value in rows:
        try:
            _, cluster, kind, _ = parse_row_key(key)
        except ValueError as error:
            raise DamagedTable(key, str(error)) from None
        by_cluster[cluster][kind].append((key, value))
    return by_cluster


def read_rows(rows: RowsByKind, kind: str) -> Iterator[Any]:
    """Decode the rows of a kind one by one, because a list of all rows takes twice the memory."""
    for key, value in rows.get(kind, ()):
        yield read_row(key, value)


def take_changed_rows(state: ClusterState, partition: int) -> Iterator[RowChange]:
    """Yield the rows of a cluster that have changed since the last call."""
    key = partial(row_key, partition, state.cluster)
    for tracked in state.tracked_rows:
        for name, row in tracked.take_changed_rows():
            yield RowChange(key(tracked.kind, name), row)
    if state.policy_changed and state.policy_record is not None:
        policy = ClusterPolicyRow(cluster=state.cluster, policy=state.policy_record)
        yield RowChange(key("cluster_policies"), encode(policy))
    state.policy_changed = False
    cluster_row = encode(_build_cluster_row(state))
    if cluster_row != state.written_row:
        state.written_row = cluster_row
        yield RowChange(key("clusters"), cluster_row)


def delete_last_rows(state: ClusterState, partition: int) -> Iterator[RowChange]:
    """Yield changes that delete the remaining rows of an empty cluster."""
    state.inventory.forget_metrics()
    yield from take_changed_rows(state, partition)
    for kind in ("fleet_usage", "migration_state", "clusters"):
        yield RowChange(row_key(partition, state.cluster, kind), None)


def restore(cluster: str, now_ms: int | None, rows: RowsByKind) -> ClusterState:
    """Restore a cluster from all its rows; `now_ms` is None before the first clock tick.

    Raises:
        DamagedTable: a row cannot be read.
    """
    state = ClusterState(cluster)
    cluster_row: ClusterRow = next(read_rows(rows, "clusters"))
    state.written_row = encode(cluster_row)
    policy: ClusterPolicyRow | None = next(read_rows(rows, "cluster_policies"), None)
    if policy is not None:
        state.policy_record = policy.policy
        state.set_policy(read_policy(policy.policy.document, KNOWN))
    for tracked in state.inventory_rows:
        tracked.restore(read_rows(rows, tracked.kind))
    inventory = state.inventory
    inventory.numbers.records_applied = cluster_row.records_applied
    inventory.lists.begun = dict(cluster_row.lists)
    inventory.lists.ending = dict(cluster_row.ending)
    if now_ms is not None:
        state.advance(now_ms)
    for tracked in state.other_rows:
        tracked.restore(read_rows(rows, tracked.kind))
    state.rebalancer.restore(
        cluster_row.last_round_at_ms, cluster_row.preparation_ticks, cluster_row.hot_nodes
    )
    state.collect_sent_at_ms = cluster_row.collect_sent_at_ms
    for tracked in state.request_rows:
        tracked.restore(read_rows(rows, tracked.kind))
    state.placement.pending.requests_seen = cluster_row.requests_seen
    # Restoring later rows may have changed nodes and pods that were restored before.
    for tracked in state.inventory_rows:
        tracked.changed.clear()
    inventory.openings.clear()
    return state


def _build_cluster_row(state: ClusterState) -> ClusterRow:
    return ClusterRow(
        cluster=state.cluster,
        records_applied=state.inventory.numbers.records_applied,
        requests_seen=state.placement.pending.requests_seen,
        lists=dict(state.inventory.lists.begun),
        ending=dict(state.inventory.lists.ending),
        last_round_at_ms=state.rebalancer.last_round_ms,
        preparation_ticks=state.rebalancer.preparation_ticks,
        hot_nodes=state.rebalancer.balancer.hot_nodes,
        collect_sent_at_ms=state.collect_sent_at_ms,
    )
