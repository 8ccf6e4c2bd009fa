"""Messages about rebalancing as sentences: rounds, migrations, drains, requests, outcomes of moves."""

from connectors.units import count_text, time_text
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.pods import PodRef
from schemas.messages.rounds import PoolRound, RebalanceRound

#: Hot nodes of a pool that a sentence names; the others are counted.
HOT_NAMED_MAX = 3
#: Classes of nodes in a round, from lightly loaded to hot.
_CLASSES = ("low", "bothLow", "prodLow", "normal", "prodHigh", "high", "skipped")


def pod_text(pod: PodRef) -> str:
    return f"{pod.namespace}/{pod.name}"


def list_judged_pools(message: RebalanceRound) -> list[PoolRound]:
    """Return the pools whose nodes a strategy has judged; all pools if no pool was judged.

    LowNodeLoad does not judge nodes of a pool without thresholds.
    """
    judged = [pool for pool in message.pools if not _lacks_thresholds(pool)]
    return judged or list(message.pools)


def _lacks_thresholds(pool: PoolRound) -> bool:
    """Tell whether the policy gives no thresholds; thresholds with another source may be unknown."""
    thresholds = pool.thresholds
    maps = (thresholds.low, thresholds.high, thresholds.prod_low, thresholds.prod_high)
    is_from_policy = thresholds.source in ("", "policy")
    return bool(pool.gate) and not pool.hot and is_from_policy and not any(maps)


def round_text(message: RebalanceRound) -> str:
    if message.gate:
        return f"round stopped: {message.gate}"
    dry = "dry run: " if message.dry_run else ""
    pools = "; ".join(map(_pool_text, list_judged_pools(message)))
    return f"{dry}round: {pools or 'the policy has no pools'}"


def classes_text(pool: PoolRound) -> str:
    """Return the number of nodes in each class, from lightly loaded to hot; empty: no nodes."""
    order = [*_CLASSES, *sorted(set(pool.nodes) - set(_CLASSES))]
    counts = ((pool.nodes.get(name, 0), name) for name in order)
    return ", ".join(f"{count} {name}" for count, name in counts if count)


def count_unnamed_hot(pool: PoolRound) -> int:
    """Return how many hot nodes of a pool the record does not name.

    A record names a limited number, and moves by risk look at some of the hot nodes only.
    """
    high = pool.nodes.get("high", 0) + pool.nodes.get("prodHigh", 0)
    return max(pool.hot_left_out, high - len(pool.hot))


def memory_text(pool: PoolRound) -> str:
    """Name the definitions of memory if the pool's nodes use several; empty: they use one."""
    counted = ", ".join(f"{name} on {count}" for name, count in sorted(pool.memory.items()))
    return f"memory of its nodes is not comparable: {counted}" if counted else ""


def _pool_text(pool: PoolRound) -> str:
    mixed = f" ({memory_text(pool)})" if pool.memory else ""
    if pool.gate:
        return f"pool {pool.pool} stopped: {pool.gate}{mixed}"
    text = f"pool {pool.pool}: {classes_text(pool) or 'no nodes'}{mixed}"
    if not pool.hot and not count_unnamed_hot(pool):
        return text
    names = [f"{hot.node} ({hot.gate or f'{hot.leaving} leave'})" for hot in pool.hot]
    more = max(0, len(names) - HOT_NAMED_MAX) + count_unnamed_hot(pool)
    names_text = ", ".join(names[:HOT_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{text}; {pool.leaving} of {pool.wanted} wanted pods leave; hot: {names_text}"


def migration_text(message: MigrationStatus) -> str:
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
    kept = [f"{pod_text(pod.pod)} ({pod.reason})" for pod in message.protected[:HOT_NAMED_MAX]]
    protected = f"; not evicted: {', '.join(kept)}" if kept else ""
    dry = "dry run: " if message.dry_run else ""
    return (
        f"{dry}node {message.node} {message.phase.lower()}: {count_text(message.pods_left, 'pod')} left, "
        f"{message.pods_protected} protected{protected}"
    )


def request_text(message: MigrationRequest) -> str:
    if message.node is not None and message.action in ("drain", "undrain"):
        subject = f"node {message.node}"
    elif message.pod is not None:
        subject = f"pod {pod_text(message.pod)}"
    else:
        subject = f"migration {message.migration_id or '(no id given)'}"
    why = f": {message.reason}" if message.reason else ""
    return f"request {message.request_id}: {message.action} {subject}{why}"


def move_text(message: MoveOutcome) -> str:
    return (
        f"pod {pod_text(message.pod)} moved from {message.source_node} at "
        f"{time_text(message.evicted_at_ms)}: {outcome_text(message)}"
    )


def outcome_text(move: MoveOutcome) -> str:
    """Describe source and target after a move, and whether the pod came back."""
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
