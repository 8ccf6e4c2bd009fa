"""Checks of a cluster's processes: its worker, its clock, and its duties.

A running process is a member of a consumer group, and writes records. The embedded broker does not
list the members of a group, so only records show whether a process runs.
"""

from collections.abc import Iterator

from connectors.kafka.admin import Group
from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages
from connectors.process import wall_clock
from connectors.queries.cluster_reading import DUTIES, ClusterRecords
from connectors.queries.presence import SILENT_AFTER_MS, describe_silence
from connectors.queries.status_processes import count_worker_lag, list_worker_groups
from connectors.units import ago_text, count_text
from loadstream.doctor.findings import Finding, error, ok, warning
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.policy import Policy
from schemas.settings.connection import name_duty_group

#: A worker with a larger lag decides by an old state; `/readyz` of the worker has the same default.
LAG_MAX = 20_000
#: Commands that are compared with their outcomes, newest first.
_COMMANDS_MAX = 500
#: Time between the expiry of a command and its outcome.
_GRACE_MS = 10_000


def check_processes(
    records: ClusterRecords, policy: Policy, unseen: str | None = None
) -> Iterator[Finding]:
    """Check the worker, the duties and the measurements of a cluster by its readable records.

    `unseen` is the sentence for a cluster that no producer names.
    """
    if "clock" not in records.unreadable:
        yield from _check_worker(records)
    yield from _check_duties(records, policy)
    if not records.unreadable & {"node-state", "node-metrics"}:
        yield from _check_measurements(records, policy, unseen)


def _check_worker(records: ClusterRecords) -> Iterator[Finding]:
    """Check whether a worker writes for the cluster, its lag, and its clock."""
    groups = list_worker_groups(records)
    workers = sum(len(group.members or ()) for group in groups)
    has_ended = any(group.has_existed and group.members is not None for group in groups)
    tick_ms, now_ms = records.tick_ms, records.now_ms
    silent = describe_silence(tick_ms, now_ms)
    advice = "Compare `date -u` here and where the worker runs; let NTP set both"
    if silent and tick_ms is not None and tick_ms > now_ms:
        text = f"the worker's clock is {ago_text(tick_ms - now_ms)} ahead of this machine's"
        yield error("clock", text, advice)
    elif tick_ms is not None and has_ended and not workers:
        text = (
            f"no worker runs any more; the last one wrote {ago_text(max(0, now_ms - tick_ms))} ago"
        )
        yield error("worker", text, "Start `loadstream worker`, or see why it has ended")
    elif silent is None:
        yield _judge_lag(records, workers)
        yield ok("clock", "the clocks of the worker and of this machine agree")
    elif tick_ms is not None and workers:
        text = f"a worker runs, and its clock is {ago_text(now_ms - tick_ms)} behind this machine's"
        yield error("clock", text, f"{advice}. If they agree, the worker waits: see its log")
    else:
        yield error("worker", silent.rstrip("."))
    latest_ms = max(tick_ms or 0, now_ms) + SILENT_AFTER_MS
    metrics = records.metrics.values()
    ahead = [metric.node for metric in metrics if (metric.updated_at_ms or 0) > latest_ms]
    if ahead:
        text = (
            f"metrics of {count_text(len(ahead), 'node')} are from the future, such as {ahead[0]}"
        )
        yield error("clock", text, "Set the clock of the source that measures them")


def _judge_lag(records: ClusterRecords, workers: int) -> Finding:
    inputs, samples = (lag or 0 for lag in count_worker_lag(records))
    text = f"{count_text(workers, 'worker')} in the group" if workers else "a worker writes"
    text += f", {count_text(inputs, 'record')} and {count_text(samples, 'usage sample')} behind"
    if inputs + samples <= LAG_MAX:
        return ok("worker", text)
    advice = (
        "Wait if it has just started; otherwise start another worker, or see docs/how-to/alerts.md"
    )
    return warning("worker", text, advice)


def _check_duties(records: ClusterRecords, policy: Policy) -> Iterator[Finding]:
    """Find duties that do not run; without any duty, other producers may do their work."""
    groups = {duty: records.groups.get(name_duty_group(duty, records.cluster)) for duty in DUTIES}
    has_duties = any(group is not None and group.has_existed for group in groups.values())
    for duty, group in groups.items():
        if group is None or group.members is None:
            continue  # the broker does not list members
        if group.members:
            standby = len(group.members) - 1
            yield ok(duty, f"one process is active{f', {standby} in standby' if standby else ''}")
        elif has_duties:
            yield _report_missing_duty(duty, group, records, policy)


def _report_missing_duty(
    duty: str, group: Group, records: ClusterRecords, policy: Policy
) -> Finding:
    state = "no process runs any more" if group.has_existed else "no process has ever run"
    advice = f"Start `loadstream kubernetes {duty} --cluster {records.cluster}`, or see its log"
    effect = {
        "watch": "the state of nodes and pods is old",
        "collect": "nothing is measured",
        "bind": "pods get no node",
        "evict": "nothing is evicted",
    }[duty]
    # A cluster that only observes needs no binder and no evictor. Another source may measure it.
    is_needed = {
        "watch": True,
        "collect": not _count_fresh_nodes(records, policy),
        "bind": group.has_existed,
        "evict": not policy.is_dry_for("request"),
    }[duty]
    return (error if is_needed else warning)(duty, f"{state}: {effect}", advice)


def _check_measurements(
    records: ClusterRecords, policy: Policy, unseen: str | None
) -> Iterator[Finding]:
    total, fresh = len(records.nodes), _count_fresh_nodes(records, policy)
    if not total:
        yield error(
            "nodes",
            unseen or f"no record names a node of cluster {records.cluster}",
            "Start `loadstream kubernetes watch`, or check the cluster's name",
        )
    elif fresh < total:
        stale = next(name for name in records.nodes if not _is_fresh(records, policy, name))
        text = f"{fresh} of {total} nodes have a fresh metric; {stale} has none"
        advice = f"Run `loadstream cluster why-not {records.cluster} --node {stale}`"
        if not fresh:
            advice = (
                "Start `loadstream kubernetes collect` or another producer of node-usage. If it runs, its log says "
                "why a node cannot be read. A new cluster has metrics after its first report interval (60 s)"
            )
        yield (warning if fresh else error)("measurements", text, advice)
    else:
        yield ok("measurements", f"all {count_text(total, 'node')} have a fresh metric")


def _count_fresh_nodes(records: ClusterRecords, policy: Policy) -> int:
    return sum(_is_fresh(records, policy, name) for name in records.nodes)


def _is_fresh(records: ClusterRecords, policy: Policy, node: str) -> bool:
    metric = records.metrics.get(node)
    updated_at_ms = None if metric is None else metric.updated_at_ms
    max_age_ms = 1_000 * policy.rebalance.node_metric_expiration_seconds
    return updated_at_ms is not None and records.now_ms - updated_at_ms <= max_age_ms


def check_commands(connection: Connection, records: ClusterRecords) -> Iterator[Finding]:
    """Find evictions that expired without an outcome."""
    cluster = records.cluster
    past = PastMessages(connection, "command-outcomes", cluster, 2 * _COMMANDS_MAX)
    outcomes = (o for o in past.newest() if isinstance(o, CommandOutcome))
    finished_ids = {outcome.command_id for outcome in outcomes}
    past = PastMessages(connection, "eviction-commands", cluster, _COMMANDS_MAX)
    commands = [c for c in past.newest() if isinstance(c, EvictionCommand)]
    until_ms = wall_clock.now_ms() - _GRACE_MS
    expired = (command for command in commands if command.expires_at_ms < until_ms)
    count = sum(command.command_id not in finished_ids for command in expired)
    if count:
        yield error(
            "commands",
            f"{count} of the newest {count_text(len(commands), 'eviction')} expired without an outcome",
            f"Start `loadstream kubernetes evict --cluster {cluster}`, or see its log",
        )
