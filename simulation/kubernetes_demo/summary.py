"""The summary of the demo: the result, and a check against the API server's audit log."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulation.control_plane.audit import AuditedRequest, AuditLog, judge
from simulation.kubernetes_demo.steps import DemoRun, Snapshot

BINDER, EVICTOR = "loadstream-bind", "loadstream-evict"


@dataclass(frozen=True, slots=True)
class Summary:
    """The result in sentences, and the problems."""

    lines: tuple[str, ...]
    problems: tuple[str, ...]


def summarize(demo_run: DemoRun, log: AuditLog) -> Summary:
    last = demo_run.snapshots[-1]
    problems = [*demo_run.problems, *judge(log.pods), *_find_problems(demo_run, last, log)]
    return Summary(tuple(_lines(demo_run, last, log)), tuple(problems))


def _lines(demo_run: DemoRun, last: Snapshot, log: AuditLog) -> Iterator[str]:
    for step, seconds in demo_run.seconds.items():
        yield f"{step}: {seconds:.0f} s"
    outcomes = demo_run.observed.outcomes
    yield (
        f"pods: {len(last.pods)}, bound {last.bound}; decided {demo_run.observed.placed} placements "
        f"and {demo_run.observed.commanded} evictions; outcomes "
        + ", ".join(f"{a} {b} {count}" for (a, b), count in sorted(outcomes.items()))
    )
    moved = [pod for pod in log.pods if pod.evictions]
    elsewhere = [act for act in _replacements(log) if act.node not in demo_run.heated_nodes]
    yield (
        f"hot nodes: {len(demo_run.heated_nodes)} at first, {len(last.hot)} at the end; "
        f"{len(moved)} pods were evicted, and then {len(elsewhere)} were bound to other nodes; "
        f"{len(demo_run.protected)} pods on hot nodes have a disruption budget that allows no eviction"
    )
    if demo_run.observed.reason:
        yield f"the newest eviction was commanded because {demo_run.observed.reason}"
    yield (
        f"the API server's audit log: {sum(log.by_user('bindings').values())} bindings "
        f"({_users(log, 'bindings')}), {sum(log.by_user('evictions').values())} evictions "
        f"({_users(log, 'evictions')}){_unclear(log)}; no pod was bound or evicted twice"
        if not judge(log.pods)
        else "the API server's audit log shows pods that were bound or evicted twice"
    )


def _users(log: AuditLog, kind: str) -> str:
    return ", ".join(f"{user} {count}" for user, count in log.by_user(kind).items()) or "nobody"


def _unclear(log: AuditLog) -> str:
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(log.unclear.items()))
    return f", {counted} with unknown result" if counted else ""


def _find_problems(demo_run: DemoRun, last: Snapshot, log: AuditLog) -> Iterator[str]:
    """Yield a sentence for each problem at the end."""
    if last.bound < demo_run.size.pods:
        yield f"{demo_run.size.pods - last.bound} pods have no node"
    for user in log.by_user("bindings").keys() - {BINDER}:
        yield f"{user} has bound pods"
    for user in log.by_user("evictions").keys() - {EVICTOR}:
        yield f"{user} has evicted pods"
    gone = {pod.uid for pod in log.pods if pod.evictions}
    for uid in sorted(demo_run.protected & gone):
        yield f"the protected pod of uid {uid} was evicted"
    if demo_run.heated_nodes and not any(
        act.node not in demo_run.heated_nodes for act in _replacements(log)
    ):
        yield "no replacement was bound to another node"


def _replacements(log: AuditLog) -> list[AuditedRequest]:
    """Return the bindings after the first eviction."""
    began = min((act.at for pod in log.pods for act in pod.evictions), default=None)
    if began is None:
        return []
    return [act for pod in log.pods for act in pod.bindings if act.at > began]
