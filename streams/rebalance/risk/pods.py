"""Pods of nodes at risk, ordered by the possible gain of their moves.

The heap has the decrease of a pod until its best target is known, and then its gain. A planned move changes
the decrease of the other pods on its source, and the best target of pods that were to move to its source or
target: these pods must be compared again.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.pods.held_pod import HeldPod
from streams.rebalance.outcome import Costs
from streams.rebalance.risk.nodes import Figures, RiskNodes
from streams.risk.node_statistics import compute_age_minutes

#: After an hour a move has little effect, because other pods have come and gone: in simulated days, moves
#: saved 50 to 100 hot minutes per unit of gain.
HORIZON_MINUTES = 60
#: Nodes whose pods are used to estimate how long pods run.
AGED_NODES_MAX = 64


def expect_life_minutes(nodes: Sequence[Iterable[HeldPod]], now_ms: int) -> int:
    """Return the minutes that a pod of the cluster is expected to run on.

    This is the median age of the pods on a part of the nodes, from 1 to `HORIZON_MINUTES`: in a steady
    cluster, ages and remaining lives have the same distribution. Pods of DaemonSets do not count, because
    they live as long as their nodes.
    """
    ages = sorted(
        compute_age_minutes(held, now_ms)
        for pods in nodes[:: len(nodes) // AGED_NODES_MAX + 1]
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
    figures: Figures
    saved: float = 0.0
    """Decrease of the node's cost without the pod."""
    target: int | None = None
    """Position of the best target; None before the pod is compared."""
    costs: Costs | None = None
    version: int = 0
    """Heap entries of an older version are stale."""


class RiskPods:
    """The pods that one round may still move."""

    def __init__(self, risk: RiskNodes, gain: float) -> None:
        """Pods that save less than `gain` are left out."""
        self._risk, self._gain = risk, gain
        self._heap: list[tuple[float, int, str, int, RiskPod]] = []
        self._of: dict[int, list[RiskPod]] = {}
        """By position of the node."""
        self._targeted: dict[int, list[RiskPod]] = {}
        """Compared pods by position of the target."""

    def add(self, position: int, pods: Iterable[RiskPod]) -> None:
        """Add the pods of a node, which is not ranked yet."""
        self._of[position] = list(pods)

    def rank(self, position: int) -> None:
        """Let the pods of a node wait in the order of their decrease."""
        cost = float(self._risk.costs[position])
        for pod in self._of[position]:
            pod.saved = cost - self._risk.cost_without_pod(position, pod.figures)
            self._wait(pod)

    def list_waiting(self) -> list[RiskPod]:
        """Return the waiting pods, the one with the largest possible gain first."""
        return [pod for *_, version, pod in sorted(self._heap) if version == pod.version]

    def pop_first(self) -> RiskPod | None:
        """Remove and return the pod with the largest possible gain; None if no pod waits."""
        while self._heap:
            *_, version, pod = heapq.heappop(self._heap)
            if version == pod.version and pod.source in self._of:
                return pod
        return None

    def note_compared(self, pod: RiskPod, target: int, costs: Costs) -> None:
        """Let a pod wait with the gain of its best target."""
        pod.target, pod.costs = target, costs
        self._targeted.setdefault(target, []).append(pod)
        self._push(pod, costs.gain)

    def drop(self, pod: RiskPod) -> None:
        """Remove a pod that stays, or whose move is planned."""
        pod.version += 1
        pod.costs, pod.target = None, None
        if pod.source in self._of:
            self._of[pod.source].remove(pod)

    def close_node(self, position: int) -> None:
        """Remove all pods of a node."""
        self._of.pop(position, None)

    def note_move(self, source: int, target: int) -> None:
        """Update the waiting pods after a planned move."""
        self.rank(source)
        # A node that gets a pod loses none in the same round.
        self.close_node(target)
        for position in (source, target):
            for pod in self._targeted.pop(position, ()):
                if pod.costs is not None and pod.target == position:
                    self._wait(pod)

    def _wait(self, pod: RiskPod) -> None:
        pod.version += 1
        pod.costs, pod.target = None, None
        if pod.saved >= self._gain:
            self._push(pod, pod.saved)

    def _push(self, pod: RiskPod, gain: float) -> None:
        heapq.heappush(self._heap, (-gain, pod.source, pod.held.pod.uid, pod.version, pod))
