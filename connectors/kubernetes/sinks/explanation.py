"""Explains why a pod has no node: its condition `PodScheduled`, and an Event.

`kubectl describe pod` shows both, in the words of kube-scheduler:

    0/200 nodes are available: 120 Insufficient cpu, 80 node(s) were unschedulable.

Explanations are optional writes, at most one per waiting pod, and a newer explanation replaces an older
one. So 10,000 pods without a node do not overload the API server. The pod is read first. It is not changed
if it has a node, is terminating, or already has this explanation. The write has the resource version as
precondition.
"""

from functools import partial
from typing import Any

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.api.times import format_time
from connectors.kubernetes.sinks.background import Background
from connectors.kubernetes.sinks.events import Events, refer_to_pod
from connectors.kubernetes.sinks.pods import LivePod, find_pod, pod_path
from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import PodRef

#: Pods explained per second, with two requests each: the default limit of kube-scheduler's client.
PER_S = 25.0
#: Most waiting explanations, about 2 KB each.
WAITING_MAX = 20_000
#: Most remembered explanations, which are not written again.
WRITTEN_MAX = 50_000
#: Most attempts if a pod is changed meanwhile.
ATTEMPTS_MAX = 3
#: Longest text of a condition: decisions have at most 20 reasons.
TEXT_MAX = 4_096
#: Timeout of a write, in seconds.
WRITE_S = 15.0


def format_reasons(decision: PlacementDecision) -> str:
    """Return the reasons of a decision without a node in the words of kube-scheduler."""
    if decision.outcome == "expired":
        return f"the pod was placed, but not bound in time: {decision.message}"[:TEXT_MAX]
    counts = [(count.nodes, count.reason) for count in decision.reasons]
    others = sum(decision.refused_by.values()) - sum(nodes for nodes, _ in counts)
    if counts and others > 0:
        counts.append((others, "node(s) for other reasons"))
    if counts:
        why = ", ".join(f"{nodes} {reason}" for nodes, reason in counts)
        return f"0/{decision.nodes} nodes are available: {why}."[:TEXT_MAX]
    return (decision.message or "no nodes available to schedule pods")[:TEXT_MAX]


class Explanations:
    """Explanations for the pods of one cluster."""

    def __init__(self, server: ApiServer, events: Events) -> None:
        self.background = Background(PER_S, WAITING_MAX)
        self._server = server
        self._events = events
        self._written: dict[str, str] = {}
        """Explanations by the uid of the pod."""

    def explain(self, decision: PlacementDecision) -> None:
        """Queue the explanation why a pod has no node, unless it was written already."""
        uid = decision.pod.uid
        if decision.outcome == "withdrawn":
            self.forget(decision.pod)
            return
        text = format_reasons(decision)
        if self._written.pop(uid, None) != text and not self.background.put(
            uid, partial(self._write, decision, text)
        ):
            return
        self._written[uid] = text
        if len(self._written) > WRITTEN_MAX:
            del self._written[next(iter(self._written))]

    def forget(self, pod: PodRef) -> None:
        """Drop the explanation of a pod that needs no explanation any more."""
        self._written.pop(pod.uid, None)
        self.background.forget(pod.uid)

    async def close(self) -> None:
        await self.background.close()

    async def _write(self, decision: PlacementDecision, text: str) -> None:
        pod = decision.pod
        try:
            changed = await self._patch(decision, text)
        except BaseException:
            self._written.pop(pod.uid, None)  # the next decision writes it
            raise
        if changed:
            self._events.record(refer_to_pod(pod), "FailedScheduling", text, type="Warning")

    async def _patch(self, decision: PlacementDecision, text: str) -> bool:
        """Write the condition of a waiting pod; False: the pod has this condition already, or needs none."""
        pod = decision.pod
        for _ in range(ATTEMPTS_MAX):
            live = await find_pod(self._server, pod)
            if isinstance(live, str):
                return False
            condition = _build_condition(decision, text, live)
            if live.node or live.is_terminating or live.gates or condition is None:
                return False
            body = {
                "metadata": {"uid": live.uid, "resourceVersion": live.version},
                "status": {"conditions": [condition]},
            }
            response = await self._server.send(
                "PATCH", f"{pod_path(pod)}/status", body=body,
                content_type="application/strategic-merge-patch+json", timeout_s=WRITE_S,
            )  # fmt: skip
            if response.ok:
                return True
            if response.status != 409:
                break
        raise response.error()


def _build_condition(
    decision: PlacementDecision, text: str, live: LivePod
) -> dict[str, Any] | None:
    """Return the condition with an explanation; None: the pod has this condition already."""
    conditions = live.status.get("conditions") or ()
    current: dict[str, Any] = next(
        (entry for entry in conditions if entry.get("type") == "PodScheduled"), {}
    )
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text,
    }  # fmt: skip
    if all(current.get(name) == value for name, value in condition.items()):
        return None
    if current.get("status") != "False" and decision.decided_at_ms:
        condition["lastTransitionTime"] = format_time(decision.decided_at_ms)
    return condition
