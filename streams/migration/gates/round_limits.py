"""How many pods one round may evict: per node, per namespace, in total (docs/reference/upstream.md D1).

A round happens within one record, so these counts need no rows.
"""

from collections import Counter

from schemas.policy import Policy
from schemas.policy.sections.descheduling import DeschedulingLimits
from streams.rebalance.candidates import Gate

#: Most pods of one round for any policy: each pod needs a migration, a command and their rows.
PODS_PER_ROUND_MAX = 250


class RoundLimits:
    def __init__(self, policy: Policy) -> None:
        self.limits: DeschedulingLimits = policy.descheduling
        self.begin()

    def begin(self) -> None:
        """Reset the counts for a new round."""
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._total = 0

    def check(self, node: str, namespace: str) -> Gate | None:
        """Return the limit that one more pod would exceed; None if there is none."""
        limits = self.limits
        if self._total >= PODS_PER_ROUND_MAX:
            text = f"{self._total} pods leave in this round, which is the limit of every round"
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

    def count(self, node: str, namespace: str) -> None:
        self._nodes[node] += 1
        self._namespaces[namespace] += 1
        self._total += 1
