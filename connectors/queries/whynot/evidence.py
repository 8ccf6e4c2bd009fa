"""The records that an answer is based on, newest first."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
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
    is_known: bool
    """Whether a record names the cluster, node or pod of the question."""
    data: dict[str, Any]
    """The records that the answer is based on, as plain values."""


@dataclass(frozen=True, slots=True)
class RoundNode:
    """A hot node of a round, or one of its pods."""

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
    unknown_cluster: str | None = None
    """A sentence if no producer names the cluster and its newest round has no nodes."""
    rounds: tuple[RebalanceRound, ...] = ()
    is_cut_off: bool = False
    """Rounds of the requested time may be missing, because a limit was reached."""
    records: int = 0
    """Records of `status` that were read."""
    read_all: bool = False
    """Whether `status` was read to its beginning."""
    policy: Policy = field(default_factory=Policy)
    """The default policy if the cluster has none, or its document has errors."""
    policy_text: str | None = None
    """Time and reason of the newest policy record; None: the default policy applies."""
    paused: bool = False
    """Whether the newest policy record that no worker refused pauses the cluster."""
    metrics: dict[str, NodeMetric] = field(default_factory=dict)
    """Newest accepted metric of each node."""
    refused: str = ""
    """Why the newest metric of the node in question was refused; empty: it was accepted."""
    nodes: dict[str, NodeState] = field(default_factory=dict)
    """Newest state of the node in question."""
    has_no_state: bool = False
    """Whether no record of `node-state` names the node, or no record of `pod-lifecycle` the pod."""
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

    def find_hot_rounds(self, node: str | None = None) -> Iterator[RoundNode]:
        """Yield the rounds in which a node (None: any node) was hot, once per pool and phase."""
        for ago, round_ in enumerate(self.rounds):
            for pool in round_.pools:
                for hot in pool.hot:
                    if node in (None, hot.node):
                        yield RoundNode(round_, ago, pool, hot)

    def find_verdicts(self, namespace: str, name: str) -> Iterator[RoundNode]:
        """Yield the rounds that judged a pod."""
        for hot in self.find_hot_rounds():
            for pod in hot.node.pods:
                if has_name(pod.pod, namespace, name):
                    yield replace(hot, pod=pod)

    def warnings(self) -> Iterator[str]:
        """Yield why the answer may be out of date or incomplete."""
        silent = describe_silence(self.tick_ms, self.now_ms)
        yield from (warning for warning in (silent, self.unknown_cluster) if warning)
        if self.is_cut_off:
            yield (
                f"Only the newest {len(self.rounds)} rounds were read, back to "
                f"{self.at(self.rounds[-1].decided_at_ms)}: less than --back asks for."
            )

    @property
    def has_ended(self) -> bool:
        """Whether the pod of the newest event has ended."""
        return self.lifecycle is not None and self.lifecycle.event in ("finished", "deleted")

    @property
    def is_replaced(self) -> bool:
        """Whether the pod has ended, and another pod with its name waits for a node."""
        decision, event = self.placement, self.lifecycle
        if decision is None or event is None or not decision.waits:
            return False
        return self.has_ended and event.pod.uid != decision.pod.uid

    @property
    def is_gone(self) -> bool:
        """Whether the pod has ended, and no other pod with its name waits."""
        return self.has_ended and not self.is_replaced

    def has_left(self, pod: PodRef) -> bool:
        done = (m for m in self.migrations if m.phase == "Succeeded" and not m.dry_run)
        return any(migration.pod.uid == pod.uid for migration in done)

    def find_node(self, namespace: str, name: str) -> str | None:
        """Return the node of a pod by its newest event, or else by the newest metric with the pod.

        While a pod waits for a node, metrics may still contain an earlier pod with its name.
        """
        if self.lifecycle is not None:
            return None if self.has_ended else self.lifecycle.pod.node
        if self.placement is not None and self.placement.waits:
            return None
        for node, metric in self.metrics.items():
            if any((pod.namespace, pod.name) == (namespace, name) for pod in metric.pods):
                return node
        return None


def kind_of(gate: str) -> str:
    """Return the kind of a gate: the text before the first colon, without numbers."""
    return _NUMBER.sub("#", gate.partition(": ")[0])


def count_gates(gates: Iterable[str]) -> list[tuple[str, int]]:
    """Return the newest gate of each kind and how often the kind occurs, most frequent first.

    Args:
        gates: gates of newer rounds first; empty texts are ignored.
    """
    counts: Counter[str] = Counter()
    newest: dict[str, str] = {}
    for gate in filter(None, gates):
        counts[kind_of(gate)] += 1
        newest.setdefault(kind_of(gate), gate)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(newest[kind], count) for kind, count in order]


def has_name(pod: PodRef, namespace: str, name: str) -> bool:
    return (pod.namespace, pod.name) == (namespace, name)
