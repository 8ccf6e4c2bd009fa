"""What was read of a cluster, and the questions that all answers ask of it.

Everything is newest first. Nothing here reads or writes.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from connectors.queries.presence import silence
from connectors.units import ago_text, time_text
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle, PodRef
from schemas.messages.rounds import HotNode, PodVerdict, PoolRound, RebalanceRound

_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Answer:
    """What there is to say."""

    sentences: tuple[str, ...]
    known: bool
    """Something was found out about what was asked."""
    data: dict[str, Any]
    """The records that it was found out from, as plain values."""


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
    """The time on this machine, which ages are counted from."""
    tick_ms: int | None = None
    """The newest tick of the cluster's clock; none: there is none."""
    unseen: str | None = None
    """That no producer has ever named the cluster; none: one has, or rounds have seen its nodes."""
    rounds: tuple[RebalanceRound, ...] = ()
    cut_off: bool = False
    """There may be older rounds that are asked for and were not looked at."""
    records: int = 0
    """How many records of `status` were looked at."""
    whole: bool = False
    """Those were all that there are."""
    others: tuple[str, ...] = ()
    """Other clusters that these records are about."""
    policy: str | None = None
    """The cluster's policy in a few words; none: it has none, and the default one holds."""
    metric_max_age_ms: int = 180_000
    """Age from which on rounds do not judge a node by its metric."""
    refuses_metrics: bool = True
    """Metrics that cannot be right are refused, as in all modes but Koordinator's."""
    min_samples: int = 3
    """Least samples of a metric by which thresholds judge a node."""
    paused: bool = False
    """The newest policy record that no worker has refused says so."""
    metrics: dict[str, NodeMetric] = field(default_factory=dict)
    """Newest metric of each node that was not refused."""
    refused: str = ""
    """Why the newest metric of the node that is asked about was refused; empty: it was not."""
    nodes: dict[str, NodeState] = field(default_factory=dict)
    """Newest state of the nodes that were looked for."""
    stateless: bool = False
    """No record of `node-state` names the node, or none of `pod-lifecycle` the pod, that is asked
    about."""
    migrations: tuple[MigrationStatus, ...] = ()
    """Reports on the pod or the node that is asked about."""
    drains: tuple[DrainStatus, ...] = ()
    """Reports on the drain of the node that is asked about."""
    moves: tuple[MoveOutcome, ...] = ()
    """The same of moves that were followed."""
    placement: PlacementDecision | None = None
    """Newest decision on the pod that is asked about."""
    lifecycle: PodLifecycle | None = None
    """The newest event of that pod."""

    def at(self, moment_ms: int) -> str:
        """A time, and how long ago it was."""
        if self.now_ms < moment_ms:
            return time_text(moment_ms)
        return f"{time_text(moment_ms)} ({ago_text(self.now_ms - moment_ms)} ago)"

    def hot(self, node: str) -> Iterator[RoundNode]:
        """The rounds in which a node was hot; one in two pools or phases comes twice."""
        for ago, each in enumerate(self.rounds):
            for pool in each.pools:
                for hot in pool.hot:
                    if hot.node == node:
                        yield RoundNode(each, ago, pool, hot)

    def looked_at(self, namespace: str, name: str) -> Iterator[RoundNode]:
        """The rounds that looked at a pod."""
        for ago, each in enumerate(self.rounds):
            for pool in each.pools:
                for hot in pool.hot:
                    for pod in hot.pods:
                        if (pod.pod.namespace, pod.pod.name) == (namespace, name):
                            yield RoundNode(each, ago, pool, hot, pod)

    def warnings(self) -> Iterator[str]:
        """What makes everything else old, or about nothing; to be said first."""
        silent = silence(self.tick_ms, self.now_ms)
        yield from (each for each in (silent, self.unseen) if each)
        if self.cut_off:
            yield (
                f"Only the newest {len(self.rounds)} rounds were looked at, back to "
                f"{self.at(self.rounds[-1].decided_at_ms)}: less than --back asks for."
            )

    @property
    def ended(self) -> bool:
        """The newest event says that its pod has ended."""
        return self.lifecycle is not None and self.lifecycle.event in ("finished", "deleted")

    @property
    def replaced(self) -> bool:
        """Its pod has ended, and another one of the name waits for a node, of which no event is
        known yet."""
        decision, event = self.placement, self.lifecycle
        if decision is None or event is None or not decision.waits:
            return False
        return self.ended and event.pod.uid != decision.pod.uid

    @property
    def gone(self) -> bool:
        """The pod that is asked about has ended, and no other one of its name waits."""
        return self.ended and not self.replaced

    def has_left(self, pod: PodRef) -> bool:
        """A migration has moved the pod away since, for real."""
        return any(
            each.pod.uid == pod.uid and each.phase == "Succeeded" and not each.dry_run
            for each in self.migrations
        )

    def node_of(self, namespace: str, name: str) -> str | None:
        """The node that a pod is on: by its newest event, else by the newest metric that names it,
        which is of the pod that had the name before where one waits for a node."""
        if self.lifecycle is not None:
            return None if self.ended else self.lifecycle.pod.node
        if self.placement is not None and self.placement.waits:
            return None
        for node, metric in self.metrics.items():
            for pod in metric.pods:
                if (pod.namespace, pod.name) == (namespace, name):
                    return node
        return None


@dataclass(slots=True)
class GateCounts:
    """How often each kind of gate was met; kinds differ in more than their numbers."""

    counts: Counter[str] = field(default_factory=Counter)
    newest: dict[str, str] = field(default_factory=dict)
    """The newest gate of each kind, whole."""

    def add(self, gate: str) -> None:
        """Take in a gate; those of newer rounds come first."""
        kind = kind_of(gate)
        self.counts[kind] += 1
        self.newest.setdefault(kind, gate)

    def most(self, count: int) -> list[tuple[str, int]]:
        """The most frequent kinds: newest gate of each, and how often it was met."""
        order = sorted(self.counts.items(), key=lambda each: (-each[1], each[0]))
        return [(self.newest[kind], times) for kind, times in order[:count]]


def kind_of(gate: str) -> str:
    """What gates of one kind have in common: the words before the colon, without numbers."""
    return _NUMBER.sub("#", gate.partition(": ")[0])


def gates_of(rounds: tuple[RebalanceRound, ...]) -> tuple[GateCounts, GateCounts]:
    """Gates of hot nodes, and gates of their pods, over all rounds."""
    nodes, pods = GateCounts(), GateCounts()
    for each in rounds:
        for pool in each.pools:
            for hot in pool.hot:
                if hot.gate:
                    nodes.add(hot.gate)
                for pod in hot.pods:
                    if pod.gate:
                        pods.add(pod.gate)
    return nodes, pods


def is_about(pod: PodRef, namespace: str, name: str) -> bool:
    """Whether this is the pod."""
    return (pod.namespace, pod.name) == (namespace, name)
