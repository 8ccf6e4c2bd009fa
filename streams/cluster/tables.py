"""State to table rows and back.

Rows are packed snapshots: one a node, one a node's pods, one a waiting request, one a cluster. A
state that is put together from its rows goes on exactly as the one that they were made from: the
same records give the same decisions, byte for byte.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson

from schemas.base import Message
from schemas.codec import encode
from schemas.policy import read_policy
from schemas.rows import (
    ClusterPolicyRow,
    ClusterRow,
    NodeRow,
    PendingRequestRow,
    ReservedPodsRow,
    WaitingGroupRow,
)
from schemas.topics import TABLES
from streams.cluster.podrows import counted_pod
from streams.cluster.row_counts import COUNTED, check_counts
from streams.cluster.state import ClusterState
from streams.inventory.kind import kind_of, shared
from streams.inventory.node import Held
from streams.placement.pending import Group, Waiting
from streams.placement.plugins.registry import KNOWN
from streams.stage.packing import single
from streams.stage.records import RowChange

_CLASSES = {table.name: table.row for table in TABLES}
#: Tables of a cluster and the classes of their rows, in the order in which rows are written.
ROWS: dict[str, type[Message]] = {
    name: _CLASSES[name]
    for name in (
        "clusters",
        "cluster_policies",
        "nodes",
        "reserved_pods",
        "pending_requests",
        "waiting_groups",
        *(table.name for table in ClusterState("").tables),
    )
}


def changed_rows(state: ClusterState, prefix: str) -> Iterator[RowChange]:
    """Rows that have changed since the last call; keys begin with `prefix`.

    The cluster's own row counts the others, so it comes last.
    """
    for change in _changed_rows(state, prefix):
        if change.table not in COUNTED:
            state.row_counts.note(change.table, change.key, there=change.value is not None)
        yield change
    own = encode(_cluster_row(state))
    digest = _digest(own)
    if digest != state.row_digest:
        state.row_digest = digest
        yield RowChange("clusters", prefix, own)


def _changed_rows(state: ClusterState, prefix: str) -> Iterator[RowChange]:
    inventory, placement = state.inventory, state.placement
    for name in inventory.changed_nodes:
        row = state.node_rows.encode(name, inventory.nodes.get(name))
        yield RowChange("nodes", f"{prefix}/{name}", row)
    for name, uid in inventory.changed_pods:
        node = inventory.nodes.get(name)
        held = None if node is None else node.held.get(uid)
        if node is None or held is None:
            item = None
        else:
            item = state.pod_rows.encode(held, node.load.pods.assigned.get(uid))
        yield RowChange("reserved_pods", single(prefix, name, uid), item)
    for uid in placement.changed_requests:
        waiting = placement.pending.get(uid)
        request = None if waiting is None else _request_row(state.cluster, waiting)
        yield RowChange("pending_requests", f"{prefix}/{uid}", _value(request))
    version = None if inventory.layout_stale else inventory.index.version
    for digest, group, unchanged in placement.pending.changed_groups(version):
        kept_group = _group_row(state.cluster, group, unchanged)
        yield RowChange("waiting_groups", f"{prefix}/{digest.hex()}", kept_group)
    if state.policy_changed and state.policy_record is not None:
        policy = ClusterPolicyRow(cluster=state.cluster, policy=state.policy_record)
        yield RowChange("cluster_policies", f"{prefix}/policy", encode(policy))
    _settle_own(state)
    for table in state.tables:
        for key, kept in table.changed_rows():
            yield RowChange(table.name, f"{prefix}/{key}" if key else prefix, _value(kept))


def last_rows(state: ClusterState, prefix: str) -> Iterator[RowChange]:
    """Rows of an empty cluster that is forgotten: nothing is left of it."""
    state.inventory.forget_metrics()
    yield from changed_rows(state, prefix)
    if state.row_counts.has("fleet_usage", f"{prefix}/fleet"):
        yield RowChange("fleet_usage", f"{prefix}/fleet", None)
    for table in ("migration_state", "clusters"):
        yield RowChange(table, prefix, None)


def settle(state: ClusterState) -> None:
    """Where rows are not kept: note all that has changed as written, and make no rows of it."""
    _settle_own(state)
    state.placement.pending.forget_changed()
    for table in state.tables:
        table.settle()


def _settle_own(state: ClusterState) -> None:
    """Note as written what the inventory, the requests and the policy have changed."""
    inventory = state.inventory
    inventory.changed_nodes.clear()
    inventory.changed_pods.clear()
    state.placement.changed_requests.clear()
    state.policy_changed = False


def restore(
    cluster: str,
    now_ms: int | None,
    read: Callable[[str], Iterator[Any]],
    keys: Mapping[str, Sequence[str]],
) -> ClusterState:
    """Put a cluster's state together.

    Args:
        cluster: its name.
        now_ms: the log's time; none: before its clock ticked first.
        read: gives the rows that it has in a table.
        keys: theirs, by table.

    Raises:
        DamagedTable: a table has other rows than the cluster's row counts.
    """
    state = ClusterState(cluster)
    row: ClusterRow = next(read("clusters"))
    state.row_digest = _digest(encode(row))
    _restore_policy(state, next(read("cluster_policies"), None))
    for node_row in read("nodes"):
        _restore_node(state, node_row)
    for pods_row in read("reserved_pods"):
        _restore_pods(state, pods_row)
    inventory = state.inventory
    inventory.numbers.sequence = row.applied
    inventory.lists.begun = dict(row.lists)
    inventory.lists.ending = dict(row.endings)
    if now_ms is not None:
        state.advance(now_ms)
    # Before the requests: what they are known to have been tried against is a version of the nodes.
    for table in state.tables:
        table.restore(read(table.name))
    state.rebalancer.restored(row.last_round_at_ms, row.round_ticks_ahead, row.hot_nodes)
    state.collect.at_ms = row.collect_relayed_at_ms
    _restore_requests(state, row, read("pending_requests"), read("waiting_groups"))
    inventory.changed_nodes.clear()
    inventory.changed_pods.clear()
    state.placement.changed_requests.clear()
    for name in keys.keys() - {"clusters", *COUNTED}:
        for key in keys[name]:
            state.row_counts.note(name, key, there=True)
    check_counts(next(iter(keys["clusters"])), row.rows, _row_counts(state))
    return state


def _digest(row: bytes) -> bytes:
    return blake2b(row, digest_size=16).digest()


def _value(row: Message | None) -> bytes | None:
    return None if row is None else encode(row)


# --- to rows ------------------------------------------------------------------------------------


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


def _group_row(cluster: str, group: Group | None, unchanged: bool) -> bytes | None:
    """What `encode` says of a `WaitingGroupRow`: thousands of them may change with one policy."""
    if group is None or not (group.failures or group.retry_at_ms or unchanged):
        return None
    return orjson.dumps(
        {
            "cluster": cluster,
            "failures": group.failures,
            "kind": group.kind.key.hex(),
            "retry_at_ms": group.retry_at_ms,
            "schema_version": 1,
            "unchanged": unchanged,
        }
    )


def _cluster_row(state: ClusterState) -> ClusterRow:
    return ClusterRow(
        cluster=state.cluster,
        applied=state.inventory.numbers.sequence,
        requests_seen=state.placement.pending.sequence,
        lists=dict(state.inventory.lists.begun),
        endings=dict(state.inventory.lists.ending),
        last_round_at_ms=state.rebalancer.last_round_ms,
        round_ticks_ahead=state.rebalancer.ticks_ahead,
        hot_nodes=state.rebalancer.balancer.hot_nodes,
        collect_relayed_at_ms=state.collect.at_ms,
        rows=_row_counts(state),
    )


def _row_counts(state: ClusterState) -> dict[str, int]:
    pods, requests = state.inventory.held_pods, len(state.placement.pending)
    return state.row_counts.counts({"reserved_pods": pods, "pending_requests": requests})


# --- from rows ----------------------------------------------------------------------------------


def _restore_policy(state: ClusterState, row: ClusterPolicyRow | None) -> None:
    if row is None:
        return
    state.policy_record = row.policy
    state.set_policy(read_policy(row.policy.document, KNOWN))


def _restore_node(state: ClusterState, row: NodeRow) -> None:
    if row.state is not None:
        state.inventory.apply_node(row.state)
    node = state.inventory.node(row.node)
    node.list_id = row.list_id
    node.load.pods.metric_time_ms = row.metric_time_ms
    if row.metric is not None:
        state.inventory.apply_metric(row.metric, again=True)
        node.load.pods.metric_time_ms = row.metric_time_ms


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
        state.inventory.restore_held(row.node, held, counted_pod(item, pod), item.counted_at_ms)
        state.placement.reservations.expect_end(held)


def _restore_requests(
    state: ClusterState,
    row: ClusterRow,
    requests: Iterable[PendingRequestRow],
    groups: Iterable[WaitingGroupRow],
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
    known = list(groups)
    version = state.inventory.lay_out().version if known else 0
    for group in known:
        pending.restore_group(group, version)
