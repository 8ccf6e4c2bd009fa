"""Messages of rebalancing as sentences: rounds, migrations, requests, outcomes of moves, budgets.

Each function writes one message on one line; `connectors.queries.wording` chooses the function.
"""

from connectors.units import count_text, time_text
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.pods import PodRef
from schemas.messages.rounds import PoolRound, RebalanceRound
from schemas.messages.workloads import DisruptionBudget, WorkloadState

#: Hot nodes of a pool that a sentence names; the others are counted.
HOT_NAMED_MAX = 3
#: Classes of nodes, as a round counts them.
_CLASSES = ("low", "bothLow", "prodLow", "normal", "prodHigh", "high", "skipped")


def pod_text(pod: PodRef) -> str:
    """Namespace and name of a pod."""
    return f"{pod.namespace}/{pod.name}"


def round_text(message: RebalanceRound) -> str:
    """What a round saw, and what left."""
    if message.gate:
        return f"round stopped: {message.gate}"
    dry = "dry run: " if message.dry_run else ""
    pools = "; ".join(_pool_text(pool) for pool in message.pools)
    return f"{dry}round: {pools or 'the policy has no pool to look at'}"


def classes_text(pool: PoolRound) -> str:
    """How many nodes are in each class, from lightly loaded to hot; empty: none is in any."""
    order = [*_CLASSES, *sorted(set(pool.nodes) - set(_CLASSES))]
    counts = ((pool.nodes.get(name, 0), name) for name in order)
    return ", ".join(f"{count} {name}" for count, name in counts if count)


def unnamed_hot(pool: PoolRound) -> int:
    """Hot nodes of a pool that a record does not name: it is bounded, and by risk only some of them
    have their turn in a round."""
    high = pool.nodes.get("high", 0) + pool.nodes.get("prodHigh", 0)
    return max(pool.hot_left_out, high - len(pool.hot))


def memory_text(pool: PoolRound) -> str:
    """That the memory of nodes is not comparable, because it counts different things; empty: it is."""
    counted = ", ".join(f"{name} on {count}" for name, count in sorted(pool.memory.items()))
    return f"memory of its nodes is not comparable: {counted}" if counted else ""


def _pool_text(pool: PoolRound) -> str:
    mixed = f" ({memory_text(pool)})" if pool.memory else ""
    if pool.gate:
        return f"pool {pool.pool} stopped: {pool.gate}{mixed}"
    text = f"pool {pool.pool}: {classes_text(pool) or 'no nodes'}{mixed}"
    if not pool.hot and not unnamed_hot(pool):
        return text
    names = [f"{hot.node} ({hot.gate or f'{hot.leaving} leave'})" for hot in pool.hot]
    more = max(0, len(names) - HOT_NAMED_MAX) + unnamed_hot(pool)
    named = ", ".join(names[:HOT_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{text}; {pool.leaving} of {pool.wanted} wanted pods leave; hot: {named}"


def migration_text(message: MigrationStatus) -> str:
    """How far a migration has come."""
    dry = "dry run: " if message.dry_run else ""
    to = f" to {message.target_node}" if message.target_node else ""
    reason = f" ({message.reason})" if message.reason else ""
    paused = ", paused" if message.paused else ""
    why = message.message or message.cause
    return (
        f"{dry}migration {message.migration_id} of pod {pod_text(message.pod)} from "
        f"{message.source_node}{to}: {message.phase}{reason}{paused}{f': {why}' if why else ''}"
    )


def drain_text(message: DrainStatus) -> str:
    """How far a drain has come."""
    kept = [f"{pod_text(each.pod)} ({each.reason})" for each in message.protected[:HOT_NAMED_MAX]]
    protected = f"; not evicted: {', '.join(kept)}" if kept else ""
    dry = "dry run: " if message.dry_run else ""
    return (
        f"{dry}node {message.node} {message.phase.lower()}: {count_text(message.pods_left, 'pod')} left, "
        f"{message.pods_protected} protected{protected}"
    )


def request_text(message: MigrationRequest) -> str:
    """What a user asks for."""
    if message.node is not None and message.action in ("drain", "undrain"):
        what = f"node {message.node}"
    elif message.pod is not None:
        what = f"pod {pod_text(message.pod)}"
    else:
        what = f"migration {message.migration_id or 'of nothing named'}"
    why = f": {message.reason}" if message.reason else ""
    return f"{message.action} {what}, asked for by request {message.request_id}{why}"


def move_text(message: MoveOutcome) -> str:
    """Describe the outcome of an eviction."""
    return (
        f"pod {pod_text(message.pod)} moved from {message.source_node} at "
        f"{time_text(message.evicted_at_ms)}: {outcome_text(message)}"
    )


def outcome_text(move: MoveOutcome) -> str:
    """Source and target of a move after it, and whether it was undone."""
    before = "hot" if move.source_hot_before else "not hot"
    parts = [f"{move.source_node} was {before} before, {_hot_text(move.source_hot_after)} after"]
    if move.target_node is None:
        parts.append("no replacement came")
    elif move.returned:
        parts.append("the replacement returned")
    else:
        after = _hot_text(move.target_hot_after)
        parts.append(f"the replacement came to {move.target_node}, {after} after")
    if move.moved_again:
        parts.append("it was moved again")
    return "; ".join(parts)


def _hot_text(is_hot: bool | None) -> str:
    return "not measured" if is_hot is None else "hot" if is_hot else "not hot"


def workload_text(message: WorkloadState) -> str:
    """How many pods an owner wants."""
    what = f"{message.owner_kind} {message.namespace}/{message.name}"
    if message.removed:
        return f"{what} is gone"
    listed = f" (full list {message.list_id})" if message.list_id else ""
    return f"{what} wants {count_text(message.replicas, 'replica')}{listed}"


def budget_text(message: DisruptionBudget) -> str:
    """How many pods may be disrupted."""
    what = f"disruption budget {message.namespace}/{message.name}"
    if message.removed:
        return f"{what} is gone"
    listed = f" (full list {message.list_id})" if message.list_id else ""
    return (
        f"{what} allows {count_text(message.disruptions_allowed, 'disruption')}; "
        f"{message.current_healthy} of {message.expected_pods} pods healthy, "
        f"{message.desired_healthy} wanted{listed}"
    )


def namespace_text(message: NamespaceState) -> str:
    """Labels of a namespace."""
    if message.removed:
        return f"namespace {message.name} is gone"
    listed = f" (full list {message.list_id})" if message.list_id else ""
    labels = ", ".join(f"{key}={value}" for key, value in sorted(message.labels.items()))
    return (
        f"namespace {message.name} has {f'the labels {labels}' if labels else 'no labels'}{listed}"
    )


def priority_class_text(message: PriorityClassState) -> str:
    """Value of a priority class."""
    if message.removed:
        return f"priority class {message.name} is gone"
    listed = f" (full list {message.list_id})" if message.list_id else ""
    return f"priority class {message.name} has the value {message.value}{listed}"
