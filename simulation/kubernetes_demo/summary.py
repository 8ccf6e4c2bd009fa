"""The end of the demo: its result, and what was done by the API server's own log."""

from collections.abc import Iterator
from dataclasses import dataclass

from simulation.control_plane.audit import Act, AuditLog, judge
from simulation.kubernetes_demo.story import Look, Story

BINDER, EVICTOR = "loadstream-bind", "loadstream-evict"


@dataclass(frozen=True, slots=True)
class Summary:
    """Sentences for a person, and whether all is as it must be."""

    lines: tuple[str, ...]
    problems: tuple[str, ...]


def summary(story: Story, log: AuditLog) -> Summary:
    """Put the run into words."""
    last = story.looks[-1]
    problems = [*story.problems, *judge(log.pods), *_broken(story, last, log)]
    return Summary(tuple(_lines(story, last, log)), tuple(problems))


def _lines(story: Story, last: Look, log: AuditLog) -> Iterator[str]:
    for step, seconds in story.seconds.items():
        yield f"{step}: {seconds:.0f} s"
    outcomes = story.observed.outcomes
    yield (
        f"pods: {len(last.pods)}, bound {last.bound}; decided {story.observed.placed} placements "
        f"and {story.observed.commanded} evictions; outcomes "
        + ", ".join(f"{a} {b} {count}" for (a, b), count in sorted(outcomes.items()))
    )
    moved = [pod for pod in log.pods if pod.evictions]
    elsewhere = [act for act in _replacements(log) if act.node not in story.made_hot]
    yield (
        f"hot nodes: {len(story.made_hot)} were made so; {len(last.hot)} are hot at the end; "
        f"{len(moved)} pods were evicted and {len(elsewhere)} bound elsewhere since; "
        f"{len(story.protected)} pods on hot nodes have a disruption budget that lets no pod go"
    )
    if story.observed.why:
        yield f"the newest eviction was commanded because {story.observed.why}"
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
    return f", {counted} whose client was gone before the answer" if counted else ""


def _broken(story: Story, last: Look, log: AuditLog) -> Iterator[str]:
    """What must hold at the end, and does not."""
    if last.bound < story.size.pods:
        yield f"{story.size.pods - last.bound} pods have no node"
    for user in log.by_user("bindings").keys() - {BINDER}:
        yield f"{user} has bound pods"
    for user in log.by_user("evictions").keys() - {EVICTOR}:
        yield f"{user} has evicted pods"
    gone = {pod.uid for pod in log.pods if pod.evictions}
    for uid in sorted(story.protected & gone):
        yield f"the protected pod of uid {uid} was evicted"
    if story.made_hot and not any(act.node not in story.made_hot for act in _replacements(log)):
        yield "no replacement was bound elsewhere"


def _replacements(log: AuditLog) -> list[Act]:
    """Bindings after the first eviction."""
    began = min((act.at for pod in log.pods for act in pod.evictions), default=None)
    if began is None:
        return []
    return [act for pod in log.pods for act in pod.bindings if act.at > began]
