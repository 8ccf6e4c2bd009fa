"""Binds and evicts pods of a simulated cluster; refuses the same commands as an API server.

The kubelet checks each binding, so a binding to a node without enough room fails. An evicted pod
terminates, and its controller creates a replacement.
"""

from connectors.ports.sink import DONE, Attempt, Sink
from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision
from simulation.cluster.cluster import SimulatedCluster


class SimulatedSink(Sink):
    """A sink that answers immediately."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def bind(self, decision: PlacementDecision) -> Attempt:
        uid, name, kubelets = decision.pod.uid, decision.pod.name, self._cluster.kubelets
        if (running := kubelets.find_pod(uid)) is not None:
            return Attempt("failed", f"pod {name} is already on node {running.node}")
        plan = self._cluster.waiting_pods.get(uid)
        if plan is None:
            return Attempt("failed", f"pod {name} with uid {uid} does not exist", pod_gone=True)
        reason = self._cluster.place(plan, decision.node or "")
        return DONE if reason is None else Attempt("failed", reason)

    async def evict(self, command: EvictionCommand) -> Attempt:
        """Evict a pod; for a soft eviction, only annotate it."""
        uid, name = command.pod.uid, command.pod.name
        running = self._cluster.kubelets.find_pod(uid)
        if running is None:
            return Attempt("refused", f"pod {name} is gone", pod_gone=True)
        if running.node != command.node:
            return Attempt("refused", f"pod {name} is on node {running.node}")
        if running.terminating:
            return Attempt("refused", f"pod {name} is already terminating")
        allowed = self._cluster.owners.count_allowed_disruptions(running.pod)
        if command.policy == "Eviction" and allowed is not None and allowed < 1:
            return Attempt(
                "refused", "Cannot evict pod as it would violate the pod's disruption budget."
            )
        if command.policy == "SoftEviction":
            self._cluster.annotate(uid, command.annotations)
        else:
            self._cluster.evict(uid)
        return DONE
