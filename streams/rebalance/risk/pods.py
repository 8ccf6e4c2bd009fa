"""Pods of nodes at risk, the one first whose move may gain most.

A pod waits with what its leaving saves, the most that its move can gain; once its best target is
known, with what it gains. A planned move changes what the pods of its source save, and which target
is best for those that were to go to one of its two nodes: these wait to be compared again.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.pods.held import Held
from streams.rebalance.outcome import Costs
from streams.rebalance.risk.nodes import Figures, RiskNodes

#: A move has little effect after an hour, since other pods have come and gone by then: in simulated
#: days, moves saved 50 to 100 hot minutes per unit of gain.
HORIZON_MINUTES = 60
#: Nodes whose pods are looked at to expect how long pods run.
AGED_NODES_MAX = 64


def expect_life_minutes(nodes: Sequence[Iterable[Held]], now_ms: int) -> int:
    """Return for how many minutes a pod of the cluster is expected to run on.

    This is the median age of the pods, from 1 to `HORIZON_MINUTES`: in a steady cluster, ages and
    remaining lives have the same distribution. Pods of DaemonSets, which live as long as their
    nodes, do not count.

    Args:
        nodes: pods of each node; of many nodes a part is looked at.
        now_ms: time of the round.
    """
    ages = sorted(
        held.compute_age_minutes(now_ms)
        for pods in nodes[:: len(nodes) // AGED_NODES_MAX + 1]
        for held in pods
        if held.pod.node is not None and all(owner.kind != "DaemonSet" for owner in held.pod.owners)
    )
    median = ages[len(ages) // 2] if ages else HORIZON_MINUTES
    return min(max(median, 1), HORIZON_MINUTES)


@dataclass(slots=True, eq=False)
class RiskPod:
    """A pod of a node at risk."""

    held: Held
    source: int
    """Position of its node."""
    figures: Figures
    saved: float = 0.0
    target: int | None = None
    """The best one; none: it has not been looked for."""
    costs: Costs | None = None
    turn: int = 0
    """Entries of the heap that were made before another one do not count."""


class RiskPods:
    """The pods that one round may still move; equal gains: by the node's position, then the uid."""

    def __init__(self, risk: RiskNodes, gain: float) -> None:
        """`gain`: pods that save less do not wait."""
        self._risk, self._gain = risk, gain
        self._heap: list[tuple[float, int, str, int, RiskPod]] = []
        self._of: dict[int, list[RiskPod]] = {}
        """By the position of their node."""
        self._targeted: dict[int, list[RiskPod]] = {}
        """Those of them that were compared, by the position of their target."""

    def add(self, place: int, pods: Iterable[RiskPod]) -> None:
        """Pods of a node may be moved, once they are ranked."""
        self._of[place] = list(pods)

    def rank(self, place: int) -> None:
        """Pods of a node wait by what their leaving saves now."""
        cost = float(self._risk.costs[place])
        for pod in self._of[place]:
            pod.saved = cost - self._risk.without_pod(place, pod.figures)
            self._wait(pod)

    def waiting(self) -> list[RiskPod]:
        """Pods that wait to be compared, the one first whose move may gain most."""
        return [pod for *_, turn, pod in sorted(self._heap) if turn == pod.turn]

    def first(self) -> RiskPod | None:
        """Take out the pod that may gain most; none: no pod waits."""
        while self._heap:
            *_, turn, pod = heapq.heappop(self._heap)
            if turn == pod.turn and pod.source in self._of:
                return pod
        return None

    def compared(self, pod: RiskPod, target: int, costs: Costs) -> None:
        """A pod waits with what its move to the best target gains."""
        pod.target, pod.costs = target, costs
        self._targeted.setdefault(target, []).append(pod)
        self._push(pod, costs.gain)

    def drop(self, pod: RiskPod) -> None:
        """A pod stays, or its move is planned."""
        pod.turn += 1
        pod.costs, pod.target = None, None
        if pod.source in self._of:
            self._of[pod.source].remove(pod)

    def close(self, place: int) -> None:
        """No pod leaves a node any more."""
        self._of.pop(place, None)

    def planned(self, source: int, target: int) -> None:
        """A pod leaves a node for another one by the plan."""
        self.rank(source)
        # No pod leaves a node that takes one, and none comes to one that a pod leaves.
        self.close(target)
        for place in (source, target):
            for pod in self._targeted.pop(place, ()):
                if pod.costs is not None and pod.target == place:
                    self._wait(pod)

    def _wait(self, pod: RiskPod) -> None:
        """A pod waits to be compared; it cannot gain more than it saves."""
        pod.turn += 1
        pod.costs, pod.target = None, None
        if pod.saved >= self._gain:
            self._push(pod, pod.saved)

    def _push(self, pod: RiskPod, gain: float) -> None:
        heapq.heappush(self._heap, (-gain, pod.source, pod.held.pod.uid, pod.turn, pod))
