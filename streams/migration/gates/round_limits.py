"""How many pods one round may evict: per node, per namespace, in all (docs/reference/upstream.md D1).

A round happens within one record, so what is counted here need not survive one.
"""

from collections import Counter

from schemas.policy import Policy
from schemas.policy.sections.descheduling import DeschedulingLimits
from streams.rebalance.candidates import Gate

#: Most pods that one round lets leave, whatever the policy says: each is a migration, a command and
#: their rows.
PODS_PER_ROUND_MAX = 250


class RoundLimits:
    """What has been let through since the round began."""

    def __init__(self, policy: Policy) -> None:
        self.limits: DeschedulingLimits = policy.descheduling
        self.begin()

    def begin(self) -> None:
        """A round begins."""
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._total = 0

    def gate(self, node: str, namespace: str) -> Gate | None:
        """Which limit one more pod would exceed; None: none."""
        limits = self.limits
        if self._total >= PODS_PER_ROUND_MAX:
            text = f"{self._total} pods leave in this round; no round lets more leave"
            return Gate("PodsPerRoundMax", text, "round")
        total = limits.max_no_of_pods_to_evict_total
        if total is not None and self._total >= total:
            text = f"{self._total} pods leave in this round; maxNoOfPodsToEvictTotal is {total}"
            return Gate("MaxNoOfPodsToEvictTotal", text, "round")
        most = limits.max_no_of_pods_to_evict_per_node
        count = self._nodes[node]
        if most is not None and count >= most:
            text = f"{count} pods leave {node} in this round; maxNoOfPodsToEvictPerNode is {most}"
            return Gate("MaxNoOfPodsToEvictPerNode", text, "node")
        most = limits.max_no_of_pods_to_evict_per_namespace
        count = self._namespaces[namespace]
        if most is not None and count >= most:
            text = (
                f"{count} pods of namespace {namespace} leave in this round; "
                f"maxNoOfPodsToEvictPerNamespace is {most}"
            )
            return Gate("MaxNoOfPodsToEvictPerNamespace", text)
        return None

    def let_through(self, node: str, namespace: str) -> None:
        """A pod leaves."""
        self._nodes[node] += 1
        self._namespaces[namespace] += 1
        self._total += 1
