"""Pods of nodes at risk, ordered by the possible gain of their moves.

A pod waits in a heap, with the decrease of its node's cost until its best target is known, and then with its
gain. A planned move changes the decrease of the other pods on its source. Pods whose best target is the source
or target of a planned move must be compared again.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.pods.held_pod import HeldPod
from streams.rebalance.outcome import Costs
from streams.rebalance.risk.nodes import PodFigures, RiskNodes
from streams.risk.node_statistics import compute_age_minutes

#: A move has little effect after an hour, because other pods come and go. In simulated days, moves saved 50
#: to 100 hot minutes per unit of gain.
HORIZON_MINUTES = 60
#: Most nodes from which pods are sampled to estimate how long pods run.
SAMPLED_NODES_MAX = 64


def estimate_remaining_minutes(nodes: Sequence[Iterable[HeldPod]], now_ms: int) -> int:
    """Estimate for how many more minutes a pod of the cluster runs, from 1 to `HORIZON_MINUTES`.

    The estimate is the median age of pods on a sample of the nodes: in a steady cluster, ages and remaining
    lifetimes have the same distribution. Pods of DaemonSets do not count, because they live as long as
    their nodes.
    """
    ages = sorted(
        compute_age_minutes(held, now_ms)
        for pods in nodes[:: len(nodes) // SAMPLED_NODES_MAX + 1]
        for held in pods
        if held.pod.node is not None and all(owner.kind != "DaemonSet" for owner in held.pod.owners)
    )
    median = ages[len(ages) // 2] if ages else HORIZON_MINUTES
    return min(max(median, 1), HORIZON_MINUTES)


@dataclass(slots=True, eq=False)
class RiskPod:
    held: HeldPod
    source: int
    """Position of the pod's node."""
    figures: PodFigures
    decrease: float = 0.0
    """Decrease of the node's cost without the pod."""
    target: int | None = None
    """Position of the best target; None before the pod is compared."""
    costs: Costs | None = None
    version: int = 0
    """Heap entries with an older version are stale."""


class RiskPods:
    """The pods that one round may still move."""

    def __init__(self, risk: RiskNodes, min_gain: float) -> None:
        """Start without pods; pods with a decrease below `min_gain` do not wait."""
        self._risk, self._min_gain = risk, min_gain
        self._heap: list[tuple[float, int, str, int, RiskPod]] = []
        self._by_source: dict[int, list[RiskPod]] = {}
        self._by_target: dict[int, list[RiskPod]] = {}
        """Compared pods by position of their best target."""

    def add(self, position: int, pods: Iterable[RiskPod]) -> None:
        """Add the pods of a node; they wait after `rank`."""
        self._by_source[position] = list(pods)

    def rank(self, position: int) -> None:
        """Compute the decreases of the pods of a node, and let the pods wait."""
        cost = float(self._risk.costs[position])
        for pod in self._by_source[position]:
            pod.decrease = cost - self._risk.compute_cost_without(position, pod.figures)
            self._enqueue(pod)

    def list_waiting(self) -> list[RiskPod]:
        """Return the waiting pods, the one with the largest possible gain first."""
        return [pod for *_, version, pod in sorted(self._heap) if version == pod.version]

    def pop_first(self) -> RiskPod | None:
        """Remove and return the pod with the largest possible gain; None if no pod waits."""
        while self._heap:
            *_, version, pod = heapq.heappop(self._heap)
            if version == pod.version and pod.source in self._by_source:
                return pod
        return None

    def note_compared(self, pod: RiskPod, target: int, costs: Costs) -> None:
        """Let a pod wait with the gain of its move to the best target."""
        pod.target, pod.costs = target, costs
        self._by_target.setdefault(target, []).append(pod)
        self._push(pod, costs.gain)

    def drop(self, pod: RiskPod) -> None:
        """Remove a pod that stays, or whose move is planned."""
        pod.version += 1
        pod.costs, pod.target = None, None
        if pod.source in self._by_source:
            self._by_source[pod.source].remove(pod)

    def close_node(self, position: int) -> None:
        """Remove all pods of a node."""
        self._by_source.pop(position, None)

    def note_move(self, source: int, target: int) -> None:
        """Update the waiting pods after a planned move."""
        self.rank(source)
        # A node that gets pods loses none in the same round.
        self.close_node(target)
        for position in (source, target):
            for pod in self._by_target.pop(position, ()):
                if pod.costs is not None and pod.target == position:
                    self._enqueue(pod)

    def _enqueue(self, pod: RiskPod) -> None:
        pod.version += 1
        pod.costs, pod.target = None, None
        if pod.decrease >= self._min_gain:
            self._push(pod, pod.decrease)

    def _push(self, pod: RiskPod, gain: float) -> None:
        heapq.heappush(self._heap, (-gain, pod.source, pod.held.pod.uid, pod.version, pod))
