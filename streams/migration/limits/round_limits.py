"""How many pods one round may evict: per node, per namespace, in total (docs/reference/upstream.md D1).

A round happens within one record, so these counts need no rows.
"""

from collections import Counter

from schemas.policy import Policy
from schemas.policy.sections.descheduling import DeschedulingLimits
from streams.rebalance.candidates import Gate, Scope

#: Most pods of one round under any policy. Each pod needs a migration, a command and rows.
EVICTIONS_PER_ROUND_MAX = 250


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
        """Return the gate of the limit that one more pod would exceed; None if there is none."""
        limits, total = self.limits, self._total
        if total >= EVICTIONS_PER_ROUND_MAX:
            text = f"{total} pods leave in this round, which is the limit of every round"
            return Gate("PodsPerRoundMax", text, "round")
        counts: tuple[tuple[str, Scope, int | None, int, str], ...] = (
            ("MaxNoOfPodsToEvictTotal", "round",
             limits.max_no_of_pods_to_evict_total, total, "pods leave"),
            ("MaxNoOfPodsToEvictPerNode", "node",
             limits.max_no_of_pods_to_evict_per_node, self._nodes[node], f"pods leave {node}"),
            ("MaxNoOfPodsToEvictPerNamespace", "pod",
             limits.max_no_of_pods_to_evict_per_namespace, self._namespaces[namespace],
             f"pods of namespace {namespace} leave"),
        )  # fmt: skip
        for name, scope, most, count, subject in counts:
            if most is not None and count >= most:
                text = f"{count} {subject} in this round; {name[0].lower()}{name[1:]} is {most}"
                return Gate(name, text, scope)
        return None

    def count(self, node: str, namespace: str) -> None:
        self._nodes[node] += 1
        self._namespaces[namespace] += 1
        self._total += 1
