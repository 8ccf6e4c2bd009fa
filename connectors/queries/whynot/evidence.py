"""The records that an answer is based on, newest first."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from connectors.queries.presence import describe_silence
from connectors.units import ago_text, time_text
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle, PodRef
from schemas.messages.rounds import HotNode, PodVerdict, PoolRound, RebalanceRound
from schemas.policy import Policy

_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Answer:
    sentences: tuple[str, ...]
    known: bool
    """Whether a record names the cluster, node or pod of the question."""
    data: dict[str, Any]
    """The records that the answer is based on, as plain values."""


@dataclass(frozen=True, slots=True)
class RoundNode:
    """A hot node, or a pod of one, in a round."""

    round: RebalanceRound
    rounds_ago: int
    """How many newer rounds there are."""
    pool: PoolRound
    node: HotNode
    pod: PodVerdict | None = None


@dataclass(slots=True)
class Evidence:
    """The newest records of one cluster."""

    cluster: str
    now_ms: int
    """Time on this machine, from which ages are counted."""
    tick_ms: int | None = None
    """Newest tick of the cluster's clock; None: it has never ticked."""
    unseen: str | None = None
    """A sentence if no producer has named the cluster and no round has seen its nodes."""
    rounds: tuple[RebalanceRound, ...] = ()
    cut_off: bool = False
    """Rounds of the requested time may be missing, because a limit was reached."""
    records: int = 0
    """Records of `status` that were read."""
    whole: bool = False
    """These were all records."""
    policy: Policy = field(default_factory=Policy)
    """The default policy if the cluster has none, or its document has errors."""
    policy_text: str | None = None
    """A short description of the cluster's policy; None: the default policy applies."""
    paused: bool = False
    """Whether the newest policy record that no worker refused pauses the cluster."""
    metrics: dict[str, NodeMetric] = field(default_factory=dict)
    """Newest metric of each node that was not refused."""
    refused: str = ""
    """Why the newest metric of the node in question was refused; empty: it was not."""
    nodes: dict[str, NodeState] = field(default_factory=dict)
    """Newest state of the node in question."""
    stateless: bool = False
    """Whether no record of `node-state` names the node, or none of `pod-lifecycle` the pod."""
    migrations: tuple[MigrationStatus, ...] = ()
    """Migrations of the pod or from the node in question."""
    drain: DrainStatus | None = None
    """The newest drain of the node in question."""
    moves: tuple[MoveOutcome, ...] = ()
    """Outcomes of moves of the pod or from the node in question."""
    placement: PlacementDecision | None = None
    """Newest decision on the pod in question."""
    lifecycle: PodLifecycle | None = None
    """Newest event of the pod in question."""

    def at(self, moment_ms: int) -> str:
        """Return a time with its age."""
        if self.now_ms < moment_ms:
            return time_text(moment_ms)
        return f"{time_text(moment_ms)} ({ago_text(self.now_ms - moment_ms)} ago)"

    def hot(self, node: str) -> Iterator[RoundNode]:
        """Yield the rounds in which a node was hot, once per pool and phase."""
        for ago, each in enumerate(self.rounds):
            for pool in each.pools:
                for hot in pool.hot:
                    if hot.node == node:
                        yield RoundNode(each, ago, pool, hot)

    def looked_at(self, namespace: str, name: str) -> Iterator[RoundNode]:
        """Yield the rounds that judged a pod."""
        for ago, each in enumerate(self.rounds):
            for pool in each.pools:
                for hot in pool.hot:
                    for pod in hot.pods:
                        if (pod.pod.namespace, pod.pod.name) == (namespace, name):
                            yield RoundNode(each, ago, pool, hot, pod)

    def warnings(self) -> Iterator[str]:
        """Yield why the answer may be out of date or incomplete."""
        silent = describe_silence(self.tick_ms, self.now_ms)
        yield from (each for each in (silent, self.unseen) if each)
        if self.cut_off:
            yield (
                f"Only the newest {len(self.rounds)} rounds were read, back to "
                f"{self.at(self.rounds[-1].decided_at_ms)}: less than --back asks for."
            )

    @property
    def ended(self) -> bool:
        """Whether the pod of the newest event has ended."""
        return self.lifecycle is not None and self.lifecycle.event in ("finished", "deleted")

    @property
    def replaced(self) -> bool:
        """Whether the pod has ended and another pod of its name waits for a node, still without an event."""
        decision, event = self.placement, self.lifecycle
        if decision is None or event is None or not decision.waits:
            return False
        return self.ended and event.pod.uid != decision.pod.uid

    @property
    def gone(self) -> bool:
        """Whether the pod has ended, and no other pod of its name waits."""
        return self.ended and not self.replaced

    def has_left(self, pod: PodRef) -> bool:
        return any(
            each.pod.uid == pod.uid and each.phase == "Succeeded" and not each.dry_run
            for each in self.migrations
        )

    def node_of(self, namespace: str, name: str) -> str | None:
        """Return the node of a pod by its newest event, or else by the newest metric that names it.

        While a pod of the name waits for a node, metrics name the pod before it.
        """
        if self.lifecycle is not None:
            return None if self.ended else self.lifecycle.pod.node
        if self.placement is not None and self.placement.waits:
            return None
        for node, metric in self.metrics.items():
            for pod in metric.pods:
                if (pod.namespace, pod.name) == (namespace, name):
                    return node
        return None


def kind_of(gate: str) -> str:
    """Return what gates of one kind have in common: the text before the first colon, without numbers."""
    return _NUMBER.sub("#", gate.partition(": ")[0])


def count_gates(gates: Iterable[str]) -> list[tuple[str, int]]:
    """Return the newest gate of each kind and how often the kind occurs, most frequent first.

    Args:
        gates: those of newer rounds first; empty texts are left out.
    """
    counts: Counter[str] = Counter()
    newest: dict[str, str] = {}
    for gate in filter(None, gates):
        counts[kind_of(gate)] += 1
        newest.setdefault(kind_of(gate), gate)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(newest[kind], count) for kind, count in order]


def is_about(pod: PodRef, namespace: str, name: str) -> bool:
    return (pod.namespace, pod.name) == (namespace, name)
