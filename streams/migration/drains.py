"""Drains: moves all pods off a node on a user's request.

loadstream places no new pods on a drained node, and migrates every pod that may be evicted. These
migrations are arbitrated like others. The drain is finished when only protected pods are left. The node
stays cordoned until a user requests an undrain, or the node is removed.

If evictions are dry, a new drain is dry too: the node is not cordoned, each pod gets one dry migration, and
then the drain ends. An earlier drain waits until evictions are no longer dry.
"""

from schemas.messages.migrations import PROTECTED_NAMED_MAX, DrainRow
from streams.inventory.node import Node
from streams.migration.lifecycle import MigrationLifecycle
from streams.migration.registry import MIGRATIONS_MAX, Proposal, is_commanded, is_live
from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Gate
from streams.stage.budget import Budget
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows

#: Most nodes of a cluster that are drained at a time.
DRAINS_MAX = 1_000
#: Most migrations that the drains of one tick create.
DRAINED_PER_TICK_MAX = 100
#: Most pods of drained nodes that one tick checks, which takes a fiftieth of a second.
PODS_PER_TICK_MAX = 2_000
_REASON_MAX = 500


class Drains(TrackedRows[str, DrainRow]):
    """The nodes of a cluster that are being drained, by name."""

    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        super().__init__("drains", lambda row: row.node)
        self.lifecycle = lifecycle

    def begin(self, row: DrainRow, cause: Cause) -> str | None:
        """Drain a node; return why it cannot be drained, else None."""
        node = self.lifecycle.inventory.nodes.get(row.node)
        if node is None or node.state is None:
            return f"node {row.node} is not known"
        before = self.rows.get(row.node)
        if before is None and len(self.rows) >= DRAINS_MAX:
            return f"{DRAINS_MAX} nodes are being drained, which is the limit"
        if self.lifecycle.policy.is_dry_for("drain") and (before is None or before.dry_run):
            row = row.model_copy(update={"dry_run": True})
        self.put(row)
        self.lifecycle.inventory.set_cordoned(row.node, cordoned=not row.dry_run)
        leaving, protected = self._split_pods(row, node, cause.now_ms)
        self._report(row, "Draining", len(leaving), protected, cause)
        return None

    def end(self, name: str, cause: Cause) -> str | None:
        """End a drain on request; return why it cannot be ended, else None."""
        row = self.rows.get(name)
        if row is None:
            return f"node {name} is not being drained"
        self._remove(name)
        for migration in self.lifecycle.registry.list_by_node(name):
            if migration.trigger == "drain" and is_live(migration) and not is_commanded(migration):
                text = f"the drain of {name} was cancelled"
                self.lifecycle.finish(migration, cause, "Aborted", "Undrained", text)
        node = self.lifecycle.inventory.nodes.get(name)
        leaving, staying = ([], []) if node is None else self._split_pods(row, node, cause.now_ms)
        self._report(row, "Undrained", len(leaving), staying, cause)
        return None

    def remove_gone(self, cause: Cause) -> None:
        """End the drains of removed nodes; a new node with the same name is not drained."""
        for name in sorted(self.rows):
            node = self.lifecycle.inventory.nodes.get(name)
            if node is None or node.state is None:
                row = self.rows[name]
                self._remove(name)
                if not row.drained:
                    self._report(row, "Drained", 0, [], cause)
                if not row.dry_run:
                    self._report(row, "Undrained", 0, [], cause)

    def tick(self, cause: Cause) -> None:
        """Create missing migrations, and report drained nodes.

        If the nodes have too many pods for one tick, some nodes wait for a later tick.
        """
        created = 0
        self.remove_gone(cause)
        nodes = [self.lifecycle.inventory.nodes[name] for name in sorted(self.rows)]
        costs = [(1 + len(node.held)) * self.lifecycle.gates.check_cost for node in nodes]
        for index in Budget(PODS_PER_TICK_MAX, cause.now_ms).choose(costs):
            node = nodes[index]
            row = self.rows[node.name]
            leaving, staying = self._split_pods(row, node, cause.now_ms)
            if row.dry_run:
                created = self._continue_dry(row, leaving, staying, created, cause)
                continue
            for held in () if self.lifecycle.policy.is_dry_for("drain") else leaving:
                if created < DRAINED_PER_TICK_MAX and len(self.lifecycle.registry) < MIGRATIONS_MAX:
                    created += self._create_migration(row, held, cause)
            if row.drained != (not leaving):
                row = row.model_copy(update={"drained": not leaving})
                self.put(row)
                phase = "Draining" if leaving else "Drained"
                self._report(row, phase, len(leaving), staying, cause)

    def _continue_dry(
        self,
        row: DrainRow,
        leaving: list[HeldPod],
        staying: list[tuple[HeldPod, str]],
        created: int,
        cause: Cause,
    ) -> int:
        """Create further migrations of a dry drain; return the new number of `created` migrations.

        Pods are handled in the order of uids. `row.last_reported_uid` is the uid of the last pod.
        """
        last_uid = row.last_reported_uid or ""
        remaining = [held for held in leaving if held.pod.uid > last_uid]
        for held in sorted(remaining, key=lambda held: held.pod.uid):
            if created >= DRAINED_PER_TICK_MAX or len(self.lifecycle.registry) >= MIGRATIONS_MAX:
                return created
            created += self._create_migration(row, held, cause)
            row = row.model_copy(update={"last_reported_uid": held.pod.uid})
            self.put(row)
        migrations = self.lifecycle.registry.list_by_node(row.node)
        if not any(migration.trigger == "drain" for migration in migrations):
            self._remove(row.node)
            self._report(row, "Drained", len(leaving), staying, cause)
        return created

    def _create_migration(self, row: DrainRow, held: HeldPod, cause: Cause) -> bool:
        is_terminating = held.pod.deleting_at_ms is not None
        if is_terminating or self.lifecycle.registry.find_by_pod(held.pod.uid) is not None:
            return False
        proposal = Proposal(
            pod=held.pod,
            node=row.node,
            reason=f"node {row.node} is being drained{f': {row.reason}' if row.reason else ''}",
            trigger="drain",
            mode=row.mode,
            ttl_ms=row.ttl_ms,
            ignore_windows=row.ignore_windows,
            dry_run=row.dry_run,
        )
        mode = self.lifecycle.gates.choose_mode(held, row.mode)
        if isinstance(mode, Gate):
            return False
        self.lifecycle.create(proposal, mode, cause)
        return True

    def _split_pods(
        self, row: DrainRow, node: Node, now_ms: int
    ) -> tuple[list[HeldPod], list[tuple[HeldPod, str]]]:
        """Return the pods that must leave, and the pods that stay, each with the reason."""
        leaving, staying = [], []
        for held in node.held.values():
            if held.is_placeholder or held.pod.node is None:
                continue
            is_migrating = self.lifecycle.registry.find_by_pod(held.pod.uid) is not None
            gate = None if is_migrating else self._find_protection(row, held, now_ms)
            if gate is None or held.pod.deleting_at_ms is not None:
                leaving.append(held)
            else:
                staying.append((held, gate.text))
        return leaving, staying

    def _find_protection(self, row: DrainRow, held: HeldPod, now_ms: int) -> Gate | None:
        gate = self.lifecycle.gates.check_lasting(held, row.node, now_ms)
        if gate is not None:
            return gate
        mode = self.lifecycle.gates.choose_mode(held, row.mode)
        return mode if isinstance(mode, Gate) else None

    def _report(
        self,
        row: DrainRow,
        phase: str,
        leaving: int,
        staying: list[tuple[HeldPod, str]],
        cause: Cause,
    ) -> None:
        fields = {
            "schema_version": 1,
            "kind": "drain",
            "cluster": row.cluster,
            "node": row.node,
            "phase": phase,
            "pods_left": leaving,
            "pods_protected": len(staying),
            "protected": [
                {"pod": held.pod.ref_fields, "reason": reason[:_REASON_MAX]}
                for held, reason in staying[:PROTECTED_NAMED_MAX]
            ],
            "dry_run": row.dry_run,
            "request_id": row.request_id,
            "happened_at_ms": cause.now_ms,
            "as_of": cause.as_of,
        }
        self.lifecycle.messages.append(OutputMessage("status", fields))

    # --- rows -------------------------------------------------------------------------------------

    def _remove(self, name: str) -> None:
        self.drop(name)
        self.lifecycle.inventory.set_cordoned(name, cordoned=False)

    def restore_row(self, row: DrainRow) -> None:
        self.put(row)
        self.lifecycle.inventory.set_cordoned(row.node, cordoned=not row.dry_run)
