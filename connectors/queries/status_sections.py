"""The sections of `loadstream status` about a cluster's policy, usage, nodes, pods and moves."""

from collections import Counter
from collections.abc import Sequence

from connectors.queries.cluster_reading import ClusterRecords
from connectors.queries.node_usage import NodeUsageRow, list_node_usage
from connectors.queries.rebalancing_wording import (
    classes_text,
    list_judged_pools,
    outcome_text,
    pod_text,
)
from connectors.queries.status_processes import Section, ago, duties_section, worker_section
from connectors.queries.whynot.wording import strategy_text
from connectors.units import ago_text, count_text
from schemas.messages.migrations import LIVE, MigrationStatus
from schemas.policy import PolicyError, read_policy

#: Number of hottest nodes and newest moves that the screen names.
HOTTEST, MOVES = 5, 3
_MODES = {
    "observe": "mode observe: evictions are dry runs, no pod leaves its node",
    "enforce": "mode enforce: pods are evicted",
}


def cluster_sections(records: ClusterRecords) -> list[Section]:
    """Return all sections of a cluster. A section says so if its partition cannot be read."""
    rows = list_node_usage(records)
    sections = (
        ("policies", _build_policy(records)),
        ("clock", worker_section(records)),
        ("", duties_section(records)),
        ("node-metrics", _build_usage(records, rows)),
        ("node-state", _build_nodes(records, rows)),
        ("placement-decisions", _build_pods(records)),
        ("status", _build_moves(records)),
    )
    return [
        Section(section.name, (f"partition {records.partition} of {topic} cannot be read",))
        if topic in records.unreadable
        else section
        for topic, section in sections
    ]


def _build_policy(records: ClusterRecords) -> Section:
    record = records.policy
    lines = []
    digest = mode = None
    try:
        policy = read_policy(record.document if record else "")
    except PolicyError as error:
        count = count_text(len(error.problems), "error")
        text = f"cannot be read, so an earlier one applies: {count}, first {error.problems[0]}"
    else:
        digest, mode = policy.digest, policy.mode
        text = _MODES[mode]
    newest = records.round
    is_used = newest is None or record is None or newest.as_of.policy_digest == digest
    if newest is not None and not is_used:
        text += (
            f"; the newest round, {ago(records, newest.decided_at_ms)}, used another policy: see "
            f"`loadstream policy history {records.cluster}`"
        )
    if record is None:
        text = f"default policy, {text}"
    else:
        by = f" by {record.applied_by}" if record.applied_by else ""
        reason = f": {record.reason}" if record.reason else ""
        text += f"; sent {ago(records, record.applied_at_ms)}{by}{reason}"
    if record is not None and record.paused:
        resume = f"`loadstream cluster resume {records.cluster}`"
        lines.append(f"PAUSED: nothing is placed or evicted until {resume}")
    data = {
        "mode": mode,
        "paused": record is not None and record.paused,
        "digest": digest,
        "sent_at_ms": record.applied_at_ms if record else None,
        "applied_by": record.applied_by if record else "",
        "reason": record.reason if record else "",
        "used_by_newest_round": is_used,
    }
    return Section("policy", (*lines, text), data)


def _build_usage(records: ClusterRecords, rows: Sequence[NodeUsageRow]) -> Section:
    measured: dict[str, list[NodeUsageRow]] = {}
    for row in rows:
        if row.usage:
            measured.setdefault(row.source or "source not named", []).append(row)
    lines, data = [], {}
    for source, source_rows in sorted(measured.items()):
        source_rows.sort(key=lambda row: row.age_ms or 0)
        newest, oldest = source_rows[0], source_rows[-1]
        stale = sum("stale" in row.state for row in source_rows)
        lines.append(
            f"{source}: {count_text(len(source_rows), 'node')}, freshest {newest.node} {ago_text(newest.age_ms or 0)} "
            f"old, oldest {oldest.node} {ago_text(oldest.age_ms or 0)}{f'; {stale} stale' if stale else ''}"
        )
        data[source] = {"nodes": len(source_rows), "stale": stale, "freshest_node": newest.node, "freshest_ms": newest.updated_at_ms,
                        "oldest_node": oldest.node, "oldest_ms": oldest.updated_at_ms}  # fmt: skip
    unmeasured = [row.node for row in rows if not row.usage]
    if unmeasured:
        names_text = ", ".join(unmeasured[:3]) + (", ..." if len(unmeasured) > 3 else "")
        lines.append(f"{count_text(len(unmeasured), 'node')} without a metric: {names_text}")
    data_all = {"sources": data, "nodes_without_metric": len(unmeasured)}
    return Section("usage", tuple(lines) or ("nothing is measured",), data_all)


def _build_nodes(records: ClusterRecords, rows: Sequence[NodeUsageRow]) -> Section:
    newest = records.round
    lines = []
    if newest is None:
        lines.append(f"{count_text(len(rows), 'node')}; no round of rebalancing yet")
    else:
        at = ago(records, newest.decided_at_ms)
        pools = list_judged_pools(newest)
        for pool in [pool for pool in pools if pool.nodes and not pool.gate] or pools:
            gate = f"; stopped: {pool.gate}" if pool.gate else ""
            lines.append(f"{classes_text(pool) or 'no nodes'}, by {strategy_text(pool)} {at}{gate}")
        if newest.gate:
            lines.append(f"the round {at} was stopped: {newest.gate}")
    hottest = [row for row in rows[:HOTTEST] if row.highest_percent >= 0]
    width = max((len(row.node) for row in hottest), default=0)
    for rank, row in enumerate(hottest):
        percents = "  ".join(
            f"{name} {row.percent[name]:3.0f}%" for name in ("cpu", "memory") if name in row.percent
        )
        state = f"  {', '.join(row.state)}" if row.state else ""
        lines.append(
            f"{'hottest ' if not rank else '        '}{row.node:{width}}  {percents}{state}"
        )
    classes = {pool.pool: pool.nodes for pool in newest.pools} if newest else {}
    data = {
        "nodes": len(rows),
        "round_ms": newest.decided_at_ms if newest else None,
        "classes": classes,
        "gate": newest.gate if newest else "",
        "hottest": [
            {"node": row.node, "percent": dict(row.percent), "state": row.state} for row in hottest
        ],
    }
    return Section("nodes", tuple(lines), data)


def _build_pods(records: ClusterRecords) -> Section:
    newest = list(records.decisions.values())
    waiting = [decision for decision in newest if decision.waits]
    refused = sum(decision.outcome == "refused" for decision in newest)
    cut = " (only the newest were read)" if records.decisions_cut else ""
    seen = f"of {count_text(len(newest), 'pod')} decided on in the last hour{cut}"
    reasons = Counter(
        decision.reasons[0].reason if decision.reasons else decision.message or decision.outcome
        for decision in waiting
    )
    lines = [f"{len(waiting)} waiting for a node, {refused} refused, {seen}"]
    if waiting:
        reason, count = reasons.most_common(1)[0]
        example = max(waiting, key=lambda decision: decision.attempt)
        lines.append(f"most frequent reason, {count_text(count, 'pod')}: {reason}")
        lines.append(
            f"tried most often: {pod_text(example.pod)}, {count_text(example.attempt + 1, 'attempt')}"
        )
    data = {"waiting": len(waiting), "refused": refused, "decided_on": len(newest), "reasons": dict(reasons.most_common(10))}  # fmt: skip
    return Section("pods", tuple(lines), data)


def _build_moves(records: ClusterRecords) -> Section:
    migrations = list(records.migrations.values())
    phases = Counter(migration.phase for migration in migrations if not migration.dry_run)
    dry = sum(migration.dry_run for migration in migrations)
    live = sum(phases[phase] for phase in LIVE)
    ended = [f"{n} {name.lower()}" for name, n in sorted(phases.items()) if name not in LIVE]
    text = f"{live} under way; in the last hour: {', '.join(ended) or 'no move ended'}"
    lines = [f"{text}, {count_text(dry, 'dry run')}" if dry else text]
    newest = migrations[:MOVES]
    lines += [_move_line(records, migration) for migration in newest]
    moved = []
    for migration in newest:
        outcome = records.moves.get(migration.migration_id)
        moved.append(
            {"migration": migration.payload(), "outcome": outcome.payload() if outcome else None}
        )
    return Section(
        "moves", tuple(lines), {"phases": dict(phases), "dry_runs": dry, "newest": moved}
    )


def _move_line(records: ClusterRecords, status: MigrationStatus) -> str:
    target = f" to {status.target_node}" if status.target_node else ""
    way = f"{pod_text(status.pod)} from {status.source_node}{target}"
    at = ago(records, status.happened_at_ms)
    if status.dry_run:
        return f"{at}: dry run, so it stays: {way}"
    reason = f" ({status.reason})" if status.reason else ""
    outcome = records.moves.get(status.migration_id)
    after = f": {outcome_text(outcome)}" if outcome else ""
    return f"{at}: {way} {status.phase.lower()}{reason}{after}"
