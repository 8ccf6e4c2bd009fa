"""How many pods may move at once: globally, from a node, in a namespace, of a workload.

Counted are migrations that have passed arbitration, those whose command may still be carried out, and,
before a new one is taken in, those that wait as well. A limit of 0 is off, as upstream. Source: features.md
1.7 (retryable set) and G10.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from schemas.migrations import MigrationRow
from schemas.pods import Pod
from schemas.policy import Policy
from streams.cluster.owners import Owners
from streams.migration.book import Book, moving
from streams.migration.workloads import Replicas
from streams.rebalance.outcome import EndOfNode, EndOfRound


@dataclass(frozen=True, slots=True)
class Gate:
    """What holds a migration back: the name of the gate, and a sentence with numbers."""

    name: str
    text: str
    """`EndOfNode` where it would hold back every pod of the node, `EndOfRound` where all."""


def share_of(value: int | str | None, replicas: int) -> int:
    """How many of a workload's pods a number or percentage is, at least 1 and at most all.

    Percentages are rounded down. By default: 10 % of more than ten replicas, two of four to ten, else one.
    """
    if value is None:
        value = "10%" if replicas > 10 else 2 if replicas >= 4 else 1
    count = value if isinstance(value, int) else replicas * int(value[:-1]) // 100
    return min(max(count, 1), max(replicas, 1))


class Limits:
    """The limits of one policy over the migrations of one cluster."""

    def __init__(self, policy: Policy, book: Book, owners: Owners) -> None:
        self.book = book
        self.owners = owners
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Count by another policy."""
        self.args = policy.migration
        self._skipped = frozenset(policy.migration.skip_eviction_gates)

    def gate(
        self, pod: Pod, node: str, replicas: Replicas | None, *, waiting_too: bool
    ) -> Gate | None:
        """The first limit that one more migration would exceed; None: there is room for it.

        Args:
            pod: the pod that would move; its own migration does not count.
            node: the node that it would leave.
            replicas: those of its owner; None: it has none, and no limit per workload.
            waiting_too: count migrations that have not passed arbitration as well.
        """
        args, book = self.args, self.book
        own = book.of_pod(pod.uid)
        counted = own is not None and (waiting_too or moving(own))
        counts: tuple[tuple[str, int | None, Callable[[], int], str], ...] = (
            ("MaxMigratingGlobally", args.max_migrating_globally,
             lambda: (len(book) if waiting_too else book.moving) - counted, "in the cluster"),
            ("MaxMigratingPerNode", args.max_migrating_per_node,
             lambda: _others(book.at_node(node), pod.uid, waiting_too), f"from node {node}"),
            ("MaxMigratingPerNamespace", args.max_migrating_per_namespace,
             lambda: _others(book.in_namespace(pod.namespace), pod.uid, waiting_too),
             f"in namespace {pod.namespace}"),
        )  # fmt: skip
        for name, limit, count_of, where in counts:
            if not limit or name in self._skipped:
                continue
            count = count_of()
            if count >= limit:
                text = f"{count} migrations are under way {where}; {_argument(name)} is {limit}"
                return Gate(name, _END.get(name, str)(text))
        return None if replicas is None else self._workload(pod, replicas, waiting_too=waiting_too)

    def _workload(self, pod: Pod, replicas: Replicas, *, waiting_too: bool) -> Gate | None:
        others = [
            row
            for row in self.book.of_owner(replicas.owner_uid)
            if row.pod.uid != pod.uid and (waiting_too or moving(row))
        ]
        most = share_of(self.args.max_migrating_per_workload, replicas.count)
        if len(others) >= most and "MaxMigratingPerWorkload" not in self._skipped:
            text = f"{len(others)} migrations of {replicas} are under way; at most {most} may be"
            return Gate("MaxMigratingPerWorkload", text)
        if "MaxUnavailablePerWorkload" in self._skipped:
            return None
        unavailable = self._unavailable(replicas, others)
        most = share_of(self.args.max_unavailable_per_workload, replicas.count)
        if unavailable >= most:
            text = f"{unavailable} pods of {replicas} are unavailable; at most {most} may be"
            return Gate("MaxUnavailablePerWorkload", text)
        return None

    def _unavailable(self, replicas: Replicas, others: list[MigrationRow]) -> int:
        """Pods that are not ready, on the move, or, where the owner's number is known, missing."""
        unready = self.owners.unready(replicas.owner_uid)
        gone = {row.pod.uid for row in others}
        count = len(unready) + sum(uid not in unready for uid in gone)
        if replicas.inferred:
            return count
        pods = self.owners.pods(replicas.owner_uid)
        ready = len(pods) - len(unready) - sum(uid in pods and uid not in unready for uid in gone)
        return max(count, replicas.count - ready)

    def too_few(self, replicas: Replicas | None) -> Gate | None:
        """Why a workload is too small to be touched; None: it is not."""
        skipped = "ExpectedReplicas" in self._skipped or self.args.skip_check_expected_replicas
        if replicas is None or skipped:
            return None
        migrating = share_of(self.args.max_migrating_per_workload, replicas.count)
        unavailable = share_of(self.args.max_unavailable_per_workload, replicas.count)
        if replicas.count > 1 and replicas.count not in (migrating, unavailable):
            return None
        text = (
            f"{replicas} is too small: {migrating} may migrate and {unavailable} be unavailable at "
            "once, which is all of it; skipCheckExpectedReplicas is false"
        )
        return Gate("ExpectedReplicas", text)


_END: dict[str, type[str]] = {
    "MaxMigratingGlobally": EndOfRound,
    "MaxMigratingPerNode": EndOfNode,
}


def _argument(gate: str) -> str:
    return gate[0].lower() + gate[1:]


def _others(rows: Iterable[MigrationRow], uid: str, waiting_too: bool) -> int:
    return sum(row.pod.uid != uid and (waiting_too or moving(row)) for row in rows)
