"""State to table rows and back.

Rows are packed snapshots: one a node, one a node's pods, one a waiting request, one a cluster. A state
that is put together from its rows goes on exactly as the one that they were made from: the same
records give the same decisions, byte for byte.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from schemas.base import Message
from schemas.codec import encode
from schemas.policy import read_policy
from schemas.rows import (
    ClusterRow,
    HotspotCounterRow,
    NodeRow,
    PendingRequestRow,
    ReservedPodsRow,
    UsageHistoryRow,
    WaitingGroup,
)
from streams.cluster.kind import kind_of, shared
from streams.cluster.node import Held, Node
from streams.cluster.pending import Waiting
from streams.cluster.plugins.registry import KNOWN
from streams.cluster.state import ClusterState
from streams.migration import migrations
from streams.moves import memory
from streams.packing import single
from streams.records import RowChange

#: Tables of a cluster and the classes of their rows, in the order in which rows are written.
ROWS: dict[str, type[Message]] = {
    "clusters": ClusterRow,
    "nodes": NodeRow,
    "reserved_pods": ReservedPodsRow,
    "pending_requests": PendingRequestRow,
    **memory.ROWS,
    **migrations.ROWS,
    "hotspot_counters": HotspotCounterRow,
    "usage_history": UsageHistoryRow,
}


def changed_rows(state: ClusterState, prefix: str) -> Iterator[RowChange]:
    """Rows that have changed since the last call; keys begin with `prefix`."""
    inventory, placement = state.inventory, state.placement
    for name in inventory.changed_nodes:
        row = _node_row(state.cluster, inventory.nodes.get(name))
        yield RowChange("nodes", f"{prefix}/{name}", _value(row))
    for name, uid in inventory.changed_pods:
        node = inventory.nodes.get(name)
        held = None if node is None else node.held.get(uid)
        if node is None or held is None:
            item = None
        else:
            item = state.pod_rows.encode(held, node.load.assigned.get(uid))
        yield RowChange("reserved_pods", single(prefix, name, uid), item)
    for uid in placement.changed_requests:
        waiting = placement.pending.get(uid)
        request = None if waiting is None else _request_row(state.cluster, waiting)
        yield RowChange("pending_requests", f"{prefix}/{uid}", _value(request))
    inventory.changed_nodes.clear()
    inventory.changed_pods.clear()
    placement.changed_requests.clear()
    for table, key, kept in state.memory.changed_rows():
        yield RowChange(table, f"{prefix}/{key}", _value(kept))
    for table, key, kept in state.migrations.changed_rows():
        yield RowChange(table, f"{prefix}/{key}" if key else prefix, _value(kept))
    for table, key, kept in state.rebalancer.changed_rows():
        yield RowChange(table, f"{prefix}/{key}", _value(kept))
    own = encode(_cluster_row(state))
    digest = _digest(own)
    if digest != state.row_digest:
        state.row_digest = digest
        yield RowChange("clusters", prefix, own)


def last_rows(state: ClusterState, prefix: str) -> Iterator[RowChange]:
    """Rows of an empty cluster that is forgotten: nothing is left of it."""
    state.inventory.forget_metrics()
    yield from changed_rows(state, prefix)
    for table in ("migration_state", "clusters"):
        yield RowChange(table, prefix, None)


def all_rows(state: ClusterState, prefix: str) -> Iterator[RowChange]:
    """All rows, and deletions since the last call of `changed_rows`."""
    inventory, placement = state.inventory, state.placement
    inventory.changed_nodes.update(dict.fromkeys(inventory.nodes))
    inventory.changed_pods.update(
        dict.fromkeys((node.name, uid) for node in inventory.nodes.values() for uid in node.held)
    )
    placement.changed_requests.update(
        dict.fromkeys(each.request.pod.uid for each in placement.pending)
    )
    state.memory.touch()
    state.migrations.touch()
    state.rebalancer.touch()
    state.row_digest = b""
    yield from changed_rows(state, prefix)


def restore(cluster: str, now_ms: int | None, read: Callable[[str], Iterator[Any]]) -> ClusterState:
    """Put a cluster's state together; `read` gives the rows that it has in a table."""
    state = ClusterState(cluster)
    row: ClusterRow = next(read("clusters"))
    state.row_digest = _digest(encode(row))
    state.policy_record = row.policy
    if row.policy is not None:
        state.set_policy(read_policy(row.policy.document, KNOWN, accepted=True))
    for node_row in read("nodes"):
        _restore_node(state, node_row)
    for pods_row in read("reserved_pods"):
        _restore_pods(state, pods_row)
    inventory = state.inventory
    inventory.sequence = row.applied
    inventory.lists = dict(row.lists)
    inventory.endings = dict(row.endings)
    if now_ms is not None:
        state.advance(now_ms)
    # Before the requests: what they are known to have been tried against is a version of the nodes.
    for table in migrations.ROWS:
        state.migrations.restore(table, read(table))
    state.rebalancer.restore(read, row.last_round_at_ms)
    _restore_requests(state, row, read("pending_requests"))
    state.memory.restore(read)
    inventory.changed_nodes.clear()
    inventory.changed_pods.clear()
    state.placement.changed_requests.clear()
    return state


def _digest(row: bytes) -> bytes:
    return blake2b(row, digest_size=16).digest()


def _value(row: Message | None) -> bytes | None:
    return None if row is None else encode(row)


# --- to rows ------------------------------------------------------------------------------------


def _node_row(cluster: str, node: Node | None) -> NodeRow | None:
    if node is None:
        return None
    load = node.load
    if (node.state, node.list_id, load.metric, load.metric_time_ms) == (None,) * 4:
        return None
    return NodeRow(
        cluster=cluster,
        node=node.name,
        state=node.state,
        metric=node.load.metric,
        metric_time_ms=node.load.metric_time_ms,
        list_id=node.list_id,
    )


def _request_row(cluster: str, waiting: Waiting) -> PendingRequestRow:
    return PendingRequestRow(
        cluster=cluster,
        request=waiting.request,
        attempt=waiting.attempt,
        sequence=waiting.sequence,
        not_before_ms=waiting.not_before_ms,
        applied=waiting.applied,
        list_id=waiting.list_id,
        excluded=waiting.excluded,
    )


def _cluster_row(state: ClusterState) -> ClusterRow:
    version = state.inventory.placer.version
    pending = state.placement.pending
    return ClusterRow(
        cluster=state.cluster,
        policy=state.policy_record,
        applied=state.inventory.sequence,
        requests_seen=pending.sequence,
        lists=dict(state.inventory.lists),
        endings=dict(state.inventory.endings),
        last_round_at_ms=state.rebalancer.last_round_ms,
        groups=tuple(
            WaitingGroup(
                kind=group.kind.key.hex(),
                failures=group.failures,
                retry_at_ms=group.retry_at_ms,
                unchanged=group.version == version and not state.inventory.layout_stale,
            )
            for group in pending.groups()
        ),
    )


# --- from rows ----------------------------------------------------------------------------------


def _restore_node(state: ClusterState, row: NodeRow) -> None:
    if row.state is not None:
        state.inventory.apply_node(row.state)
    node = state.inventory.node(row.node)
    node.list_id = row.list_id
    node.load.metric_time_ms = row.metric_time_ms
    if row.metric is not None:
        state.inventory.apply_metric(row.metric)
        node.load.metric_time_ms = row.metric_time_ms


def _restore_pods(state: ClusterState, row: ReservedPodsRow) -> None:
    for item in row.pods:
        kind = kind_of(item.pod)
        pod = shared(item.pod, kind)
        held = Held(
            pod=pod,
            demand=kind.demand,
            assigned_at_ms=item.assigned_at_ms,
            decision_id=item.decision_id,
            expires_at_ms=item.expires_at_ms,
            requested_at_ms=item.requested_at_ms,
            attempt=item.attempt,
            sequence=item.sequence,
            list_id=item.list_id,
            place=item.place,
        )
        state.inventory.restore_held(row.node, held, item.counted or pod, item.counted_at_ms)
        state.placement.reservations.expect_end(held)


def _restore_requests(
    state: ClusterState, row: ClusterRow, requests: Iterable[PendingRequestRow]
) -> None:
    pending = state.placement.pending
    for item in sorted(requests, key=lambda request: request.sequence):
        waiting = Waiting(
            item.request,
            kind_of(item.request.pod),
            item.sequence,
            item.attempt,
            item.not_before_ms,
            item.applied,
            item.list_id,
            item.excluded,
        )
        if waiting.attempt:
            pending.add(waiting, state.now_ms or 0)
        else:
            pending.keep(waiting)
    pending.sequence = row.requests_seen
    known = {group.kind: group for group in row.groups}
    version = state.inventory.ready().version if known else 0
    for group in pending.groups():
        saved = known.get(group.kind.key.hex())
        if saved is not None:
            group.failures = saved.failures
            group.retry_at_ms = saved.retry_at_ms
            group.version = version if saved.unchanged else -1
