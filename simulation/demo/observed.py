"""What the answers say: the newest metric of each node, the decisions, and counts of everything.

Messages come in as they were read; nothing here knows where they came from.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import NodeMetric
from schemas.policy import Policy
from simulation.cluster.machines import Machine

#: Decisions that are kept to be shown.
DECISIONS_KEPT = 100


@dataclass(slots=True)
class ObservedNode:
    """A node as its newest metric has it."""

    machine: Machine
    updated_at_ms: int | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    """Average amounts."""
    p95: Mapping[str, int] = field(default_factory=dict)
    """Amounts over the longest window that there is."""
    full: bool = False
    """Above a threshold of the policy, so that no pod is put there."""

    @property
    def cpu(self) -> float | None:
        """Average CPU usage as a share of the machine."""
        return self._share(self.usage, "cpu")

    @property
    def memory(self) -> float | None:
        """Average memory usage as a share of the machine."""
        return self._share(self.usage, "memory")

    @property
    def cpu_p95(self) -> float | None:
        """95th percentile of the CPU usage as a share of the machine."""
        return self._share(self.p95, "cpu")

    def _share(self, amounts: Mapping[str, int], resource: str) -> float | None:
        amount = amounts.get(resource)
        return None if amount is None else amount / self.machine.allocatable[resource]


@dataclass(slots=True)
class Observed:
    """What is known of the cluster from the worker's answers alone."""

    machines: Sequence[Machine]
    policy: Policy
    nodes: dict[str, ObservedNode] = field(default_factory=dict)
    latest: deque[PlacementDecision] = field(default_factory=lambda: deque(maxlen=DECISIONS_KEPT))
    outcomes: dict[str, PlacementDecision] = field(default_factory=dict)
    """Newest decision on each pod, by uid."""
    decisions: Counter[str] = field(default_factory=Counter)
    """Decisions by outcome."""
    metrics: int = 0
    dead_letters: list[DeadLetter] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.nodes = {machine.name: ObservedNode(machine) for machine in self.machines}

    def asked(self, uid: str) -> None:
        """A pod asks for a node."""
        self._asked.add(uid)

    def metric(self, metric: NodeMetric) -> None:
        """The worker reports what a node uses."""
        self.metrics += 1
        node = self.nodes.get(metric.node)
        if node is None or metric.usage is None or metric.updated_at_ms is None:
            return
        node.updated_at_ms = metric.updated_at_ms
        node.usage = metric.usage
        node.p95 = {}
        for aggregate in sorted(metric.aggregated, key=lambda each: each.duration_ms):
            node.p95 = {**node.p95, **aggregate.usage.get("p95", {})}
        node.full = any(self._above(node, resource) for resource in ("cpu", "memory"))

    def decision(self, decision: PlacementDecision) -> None:
        """The worker has decided."""
        self.decisions[decision.outcome] += 1
        self.latest.append(decision)
        self.outcomes[decision.pod.uid] = decision
        self._asked.discard(decision.pod.uid)

    def dead_letter(self, letter: DeadLetter) -> None:
        """The worker could not use a record."""
        self.dead_letters.append(letter)

    @property
    def unanswered(self) -> int:
        """Pods that have asked and have no decision yet."""
        return len(self._asked)

    @property
    def full_nodes(self) -> list[str]:
        """Names of the nodes that take no pod now, for the load that they have."""
        return [name for name, node in self.nodes.items() if node.full]

    @property
    def unknown_nodes(self) -> list[str]:
        """Names of the nodes that never had a metric."""
        return [name for name, node in self.nodes.items() if node.updated_at_ms is None]

    def of_outcome(self, outcome: str) -> Iterator[PlacementDecision]:
        """Newest decisions on pods that came to this outcome."""
        return (d for d in self.outcomes.values() if d.outcome == outcome)

    def waiting(self) -> list[PlacementDecision]:
        """Newest decisions on pods that wait."""
        return [d for d in self.outcomes.values() if d.waits]

    def _above(self, node: ObservedNode, resource: str) -> bool:
        """Whether the load-aware filter would refuse the node as it is, by its own rounding."""
        args = self.policy.load_aware
        threshold, used = args.usage_thresholds.get(resource, 0), node.usage.get(resource)
        if args.aggregated is not None and args.aggregated.filters:
            threshold = args.aggregated.usage_thresholds.get(resource, 0)
            used = node.p95.get(resource, used)
        total = node.machine.allocatable[resource]
        return (
            threshold > 0 and used is not None and (200 * used + total) // (2 * total) > threshold
        )
