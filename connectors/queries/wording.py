"""Messages as sentences, for `loadstream topic tail`.

A sentence begins with the subject of the message and is one line. `--json` prints the whole message.
"""

from functools import singledispatch
from typing import Any

from connectors.queries import rebalancing_wording as rebalancing
from connectors.queries.rebalancing_wording import pod_text as _pod
from connectors.units import amounts_text, bytes_text, duration_text, time_text
from connectors.units import count_text as _count
from schemas.base.printable import to_one_line
from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.dead_letters import DeadLetter, parse_node
from schemas.messages.decisions import NodeScore, PlacementDecision, SchedulingRequest
from schemas.messages.journal import CheckpointPiece, JournalRecord
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import RebalanceRound
from schemas.messages.usage import NodeUsage

#: Reasons of refused nodes that a sentence names; the others are counted.
REASONS_MAX = 3
#: Fields that every message of a topic has.
_HIDDEN = ("schema_version", "kind", "cluster")


def sentence(message: Any) -> str:
    """Return a message or a refusal as one line of printable characters."""
    return to_one_line(_sentence(message)).strip()


@singledispatch
def _sentence(message: Any) -> str:
    """List the fields of a message for which no function is registered."""
    fields = message.payload().items()
    texts = [f"{name} {value}" for name, value in fields if name not in _HIDDEN and value]
    return f"{getattr(message, 'kind', type(message).__name__)}: {', '.join(texts)}"


@_sentence.register
def _(message: Refusal) -> str:
    return f"{message.category}: {message.reason}"


@_sentence.register
def _(message: NodeUsage) -> str:
    period = f" over {duration_text(message.interval_ms)}" if message.interval_ms else ""
    parts = [_count(len(message.pods), "pod")]
    if message.host_applications:
        parts.append(_count(len(message.host_applications), "host application"))
    if message.pool:
        parts.append(f"pool {message.pool}")
    used = amounts_text(message.usage)
    return f"node {message.node} used {used}{period}; {', '.join(parts)}"


@_sentence.register
def _(message: NodeState) -> str:
    subject = f"node {message.node} {message.event}"
    if message.event == "removed":
        return subject
    details = [f"{name} {amount}" for name, amount in message.allocatable.items()]
    if message.taints:
        details.append(_count(len(message.taints), "taint"))
    if message.unschedulable:
        details.append("unschedulable")
    return f"{subject}: {', '.join(details) or 'nothing allocatable'}{_of_list(message.list_id)}"


@_sentence.register
def _(message: ListBegin) -> str:
    return f"full list {message.list_id} begins"


@_sentence.register
def _(message: ListEnd) -> str:
    return f"full list {message.list_id} ends: objects that it does not contain are removed"


@_sentence.register
def _(message: PodLifecycle) -> str:
    where = f" on {message.pod.node}" if message.pod.node else ""
    state = f" ({message.pod.phase})" if message.event in ("seen", "changed") else ""
    return f"pod {_pod(message.pod)} {message.event}{where}{state}{_of_list(message.list_id)}"


@_sentence.register
def _(message: SchedulingRequest) -> str:
    if message.withdrawn:
        return f"pod {_pod(message.pod)} no longer needs a node"
    requested = [("", container.requests) for container in message.pod.containers]
    requested += [("init ", container.requests) for container in message.pod.init_containers]
    requested.append(("overhead ", message.pod.overhead))
    requests = "; ".join(
        prefix + ", ".join(f"{name} {amount}" for name, amount in amounts.items())
        for prefix, amounts in requested
        if amounts
    )
    priority = "" if message.pod.priority is None else f", priority {message.pod.priority}"
    return f"pod {_pod(message.pod)} requests a node for {requests or 'no resources'}{priority}"


@_sentence.register
def _(message: PolicyRecord) -> str:
    lines = len(message.document.splitlines())
    document = _count(lines, "line") if lines else "all defaults"
    paused = "; paused" if message.paused else ""
    reason = f": {message.reason}" if message.reason else ""
    return f"policy of {document}{paused}{reason}"


@_sentence.register
def _(message: NodeMetric) -> str:
    if message.removed:
        return f"node {message.node}: its metric is gone"
    parts = ["usage unknown" if message.usage is None else f"average {amounts_text(message.usage)}"]
    for aggregate in message.aggregated:
        p95 = aggregate.usage.get("p95")
        if p95:
            parts.append(f"p95 over {duration_text(aggregate.duration_ms)} {amounts_text(p95)}")
    parts.append(_count(len(message.pods), "pod"))
    until = (
        "never updated"
        if message.updated_at_ms is None
        else f"until {time_text(message.updated_at_ms)}"
    )
    return f"node {message.node}: {'; '.join(parts)} ({until})"


@_sentence.register
def _(message: ClockTick) -> str:
    lost = "; the partition was reset" if message.state_lost else ""
    return f"clock of partition {message.partition}: {time_text(message.now_ms)}{lost}"


@_sentence.register
def _(message: JournalRecord) -> str:
    if message.opens:
        return f"a new writer takes over partition {message.partition}; its epoch is the offset of this record"
    part = f" part {message.part + 1} of {message.parts}" if message.parts > 1 else ""
    return (
        f"partition {message.partition} epoch {message.epoch} batch {message.sequence}{part}: applied "
        f"{_count(message.applied, 'input')}; {_count(message.rows, 'row')} changed, "
        f"{_count(message.outputs, 'output')}"
    )


@_sentence.register
def _(message: CheckpointPiece) -> str:
    end = message.end
    last = ""
    if end is not None:
        last = f", the last; {_count(end.rows, 'row')} in all, sha256 {end.sha256[:12]}"
    return (
        f"partition {message.partition} checkpoint of epoch {message.epoch} batch {message.sequence}, journal "
        f"offset {message.offset}: piece {message.piece + 1}{last}"
    )


@_sentence.register
def _(message: PlacementDecision) -> str:
    pod = f"pod {_pod(message.pod)}"
    refused = sum(message.refused_by.values())
    stale = f", {message.stale_nodes} without a fresh metric" if message.stale_nodes else ""
    if message.outcome == "placed":
        score = f" with {_score(message.winner)}" if message.winner else ""
        others = ", ".join(f"{other.node} {other.total}" for other in message.runners_up)
        before = f"; before {others}" if others else ""
        nodes = f"; {_count(message.nodes, 'node')}, {refused} refused{stale}"
        return f"{pod} placed on {message.node}{score}{before}{nodes}"
    why = "; ".join(filter(None, [message.message, *_reasons(message)]))
    tail = (
        f"; not tried again for {duration_text(message.retry_after_ms)}"
        if message.retry_after_ms
        else ""
    )
    attempt = f" (attempt {message.attempt})" if message.attempt else ""
    return f"{pod} {_OUTCOMES[message.outcome]}{attempt}{': ' if why else ''}{why}{tail}"


def _reasons(decision: PlacementDecision) -> list[str]:
    """Return the counts of reasons, unless the decision's message contains them."""
    reasons = decision.reasons
    if not reasons or reasons[0].reason.removeprefix("node(s) ") in decision.message:
        return []
    counted = [f"{_count(item.nodes, 'node')}: {item.reason}" for item in reasons[:REASONS_MAX]]
    if len(reasons) > REASONS_MAX:
        counted.append(_count(len(reasons) - REASONS_MAX, "further reason"))
    return counted


_OUTCOMES = {
    "waiting": "waits for a node",
    "refused": "is refused for good",
    "withdrawn": "was withdrawn",
    "expired": "was not bound before its reservation expired, and waits again",
}


@_sentence.register
def _(message: EvictionCommand) -> str:
    dry = "dry run: " if message.dry_run else ""
    how = "" if message.policy == "Eviction" else f" by {message.policy}"
    return (
        f"{dry}evict pod {_pod(message.pod)} from {message.node}{how} until "
        f"{time_text(message.expires_at_ms)}: {message.reason}"
    )


@_sentence.register
def _(message: CommandOutcome) -> str:
    verb = {"bind": "binding", "evict": "eviction of"}[message.command]
    where = (
        f" {'to' if message.command == 'bind' else 'from'} {message.node}" if message.node else ""
    )
    why = f": {message.reason}" if message.reason else ""
    return f"{verb} pod {_pod(message.pod)}{where} {message.result}{why}"


@_sentence.register
def _(message: DeadLetter) -> str:
    part = f", part {message.part + 1} of {message.parts}" if message.parts > 1 else ""
    held = len((message.value_base64 or "").rstrip("=")) * 3 // 4
    size = bytes_text(held) if held >= 1024 else _count(held, "byte")
    node = parse_node(message)
    of_node = f" of node {node}" if node else ""
    return (
        f"{message.topic} partition {message.partition} offset {message.offset}{of_node} was not applied "
        f"({message.category}, {size}{part}): {message.reason}"
    )


_sentence.register(RebalanceRound, rebalancing.round_text)
_sentence.register(MigrationStatus, rebalancing.migration_text)
_sentence.register(DrainStatus, rebalancing.drain_text)
_sentence.register(MigrationRequest, rebalancing.request_text)
_sentence.register(MoveOutcome, rebalancing.move_text)


def _score(winner: NodeScore) -> str:
    terms = ", ".join(f"{term.plugin} {term.score}×{term.weight}" for term in winner.terms)
    return f"{winner.total}{f' ({terms})' if terms else ''}"


def _of_list(list_id: str | None) -> str:
    return f" (full list {list_id})" if list_id else ""
