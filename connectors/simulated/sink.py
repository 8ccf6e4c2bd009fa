"""What a simulated cluster answers to eviction commands, as one with Kubernetes behind it would.

Each command is carried out once at most. A dry one is only taken note of; one whose time has run out, whose pod
is gone or on another node, or that a disruption budget forbids, is answered with that. Otherwise the pod
terminates, and its controller makes another one, which whoever gave the command must let ask for a node.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from connectors.simulated.kubelet import Kubelets
from connectors.simulated.owners import Owners
from connectors.simulated.pods import PodPlan
from schemas.evictions import EvictionCommand
from schemas.outcomes import CommandOutcome
from schemas.pods import PodLifecycle, PodRef

Result = Literal["done", "failed", "refused", "expired", "dry"]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that was evicted."""

    command: EvictionCommand
    at_ms: int
    replacement: PodPlan | None
    """The pod that came in its place."""


class Evictor:
    """Carries out the eviction commands of one cluster."""

    def __init__(
        self,
        cluster: str,
        kubelets: Kubelets,
        owners: Owners,
        send: Callable[[str, Any], None],
    ) -> None:
        self.results: Counter[str] = Counter()
        """Outcomes told so far, by result."""
        self.evictions: list[Eviction] = []
        self.repeated: list[EvictionCommand] = []
        """Commands that came twice, or for a pod that is on its way already; the second is not executed."""
        self._cluster = cluster
        self._kubelets = kubelets
        self._owners = owners
        self._send = send
        self._seen: set[str] = set()
        self._evicted: set[str] = set()

    def hear(self, command: EvictionCommand, now_ms: int) -> PodPlan | None:
        """Take in a command; answers with the pod that asks for a node now, if one does."""
        if command.cluster != self._cluster:
            return None
        if command.command_id in self._seen:
            self.repeated.append(command)
            return None
        self._seen.add(command.command_id)
        result, reason = self._judged(command, now_ms)
        replacement = None
        if result == "done" and command.policy != "SoftEviction":
            replacement = self._evict(command, now_ms)
        self.results[result] += 1
        self._send("command-outcomes", self._outcome(command, result, reason, now_ms))
        return replacement

    def _judged(self, command: EvictionCommand, now_ms: int) -> tuple[Result, str]:
        running = self._kubelets.pod(command.pod.uid)
        if command.dry_run:
            return "dry", "dry run: taken note of"
        if now_ms >= command.expires_at_ms:
            return "expired", f"its time ran out {now_ms - command.expires_at_ms} ms ago"
        if command.pod.uid in self._evicted:
            self.repeated.append(command)
            return "failed", "the pod was evicted before"
        if running is None or running.ended:
            return "failed", f"pod {command.pod.name} is gone"
        if running.node != command.node:
            return "failed", f"pod {command.pod.name} is on node {running.node}"
        allowed = self._owners.allowed(running.pod)
        if command.policy == "Eviction" and allowed is not None and allowed < 1:
            return "refused", "Cannot evict pod as it would violate the pod's disruption budget."
        if command.delete_options is not None and command.delete_options.server_dry_run:
            return "dry", "Kubernetes was asked to keep the pod"
        return "done", ""

    def _evict(self, command: EvictionCommand, now_ms: int) -> PodPlan | None:
        running = self._kubelets.pod(command.pod.uid)
        event = self._kubelets.evict(command.pod.uid, now_ms)
        if running is None or event is None:
            return None
        self._evicted.add(command.pod.uid)
        lifecycle = PodLifecycle(cluster=self._cluster, event="changed", pod=event.pod)
        self._send("pod-lifecycle", lifecycle)
        replacement = self._owners.replaced(running, now_ms)
        self.evictions.append(Eviction(command, now_ms, replacement))
        return replacement

    def _outcome(
        self, command: EvictionCommand, result: Result, reason: str, now_ms: int
    ) -> CommandOutcome:
        pod = command.pod
        return CommandOutcome(
            command_id=command.command_id,
            cluster=self._cluster,
            command="evict",
            pod=PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
            node=command.node,
            result=result,
            reason=reason,
            happened_at_ms=now_ms,
        )
