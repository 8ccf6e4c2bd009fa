"""The summary of the demo: the result, and a check against the API server's audit log."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulation.control_plane.audit import AuditedRequest, AuditLog, find_duplicates
from simulation.kubernetes_demo.steps import DemoRun, Snapshot

BINDER, EVICTOR = "loadstream-bind", "loadstream-evict"


@dataclass(frozen=True, slots=True)
class Summary:
    """The result in sentences, and the problems."""

    lines: tuple[str, ...]
    problems: tuple[str, ...]


def summarize(demo_run: DemoRun, log: AuditLog) -> Summary:
    last = demo_run.snapshots[-1]
    problems = (
        *demo_run.problems,
        *find_duplicates(log.pods),
        *_find_problems(demo_run, last, log),
    )
    return Summary(tuple(_describe_run(demo_run, last, log)), problems)


def _describe_run(demo_run: DemoRun, last: Snapshot, log: AuditLog) -> Iterator[str]:
    for step, seconds in demo_run.seconds.items():
        yield f"{step}: {seconds:.0f} s"
    outcomes = demo_run.observed.outcomes
    yield (
        f"pods: {len(last.pods)}, bound {last.bound_pods}; decided {demo_run.observed.placements} placements "
        f"and {demo_run.observed.eviction_commands} evictions; outcomes "
        + ", ".join(f"{a} {b} {count}" for (a, b), count in sorted(outcomes.items()))
    )
    moved = [pod for pod in log.pods if pod.evictions]
    other_bindings = [
        request
        for request in _list_later_bindings(log)
        if request.node not in demo_run.heated_nodes
    ]
    yield (
        f"hot nodes: {len(demo_run.heated_nodes)} at first, {len(last.hot_nodes)} at the end; "
        f"{len(moved)} pods were evicted, and then {len(other_bindings)} were bound to other nodes; "
        f"{len(demo_run.protected)} pods on hot nodes have a disruption budget that allows no eviction"
    )
    if demo_run.observed.reason:
        yield f"the newest eviction was commanded because {demo_run.observed.reason}"
    yield (
        f"the API server's audit log: {sum(log.count_by_user('bindings').values())} bindings "
        f"({_format_users(log, 'bindings')}), {sum(log.count_by_user('evictions').values())} evictions "
        f"({_format_users(log, 'evictions')}){_format_unclear(log)}; no pod was bound or evicted twice"
        if not find_duplicates(log.pods)
        else "the API server's audit log shows pods that were bound or evicted twice"
    )


def _format_users(log: AuditLog, kind: str) -> str:
    counts = log.count_by_user(kind)
    return ", ".join(f"{user} {count}" for user, count in counts.items()) or "nobody"


def _format_unclear(log: AuditLog) -> str:
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(log.unclear.items()))
    return f", {counted} with unknown result" if counted else ""


def _find_problems(demo_run: DemoRun, last: Snapshot, log: AuditLog) -> Iterator[str]:
    """Yield a sentence for each problem at the end."""
    if last.bound_pods < demo_run.size.pods:
        yield f"{demo_run.size.pods - last.bound_pods} pods have no node"
    for user in log.count_by_user("bindings").keys() - {BINDER}:
        yield f"{user} has bound pods"
    for user in log.count_by_user("evictions").keys() - {EVICTOR}:
        yield f"{user} has evicted pods"
    evicted = {pod.uid for pod in log.pods if pod.evictions}
    for uid in sorted(demo_run.protected & evicted):
        yield f"the protected pod of uid {uid} was evicted"
    if demo_run.heated_nodes and not any(
        request.node not in demo_run.heated_nodes for request in _list_later_bindings(log)
    ):
        yield "no replacement was bound to another node"


def _list_later_bindings(log: AuditLog) -> list[AuditedRequest]:
    """Return the bindings after the first eviction, which are those of replacements."""
    evictions = [request.at for pod in log.pods for request in pod.evictions]
    bindings = (request for pod in log.pods for request in pod.bindings)
    return [request for request in bindings if evictions and request.at > min(evictions)]
