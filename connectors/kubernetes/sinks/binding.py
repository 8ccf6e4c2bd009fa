"""Binds pods with one write, which has the node, the precondition and the decision's id.

A binding has the pod's uid as precondition, and the decision's id as annotation, which the API server adds
to the pod in the same write. The server refuses to bind a pod that has a node. So a pod is bound at most
once, even if answers are lost or commands are repeated. After a conflict, an error of the server or a
lost answer, the pod tells whether it was bound, and by which decision.
"""

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.sinks.answers import format_error, is_not_found, retry_pause_s
from connectors.kubernetes.sinks.nodes import Nodes
from connectors.kubernetes.sinks.pods import LivePod, explain_missing, pod_path, read_pod
from connectors.kubernetes.sinks.throttle import Throttle
from connectors.ports.sink import DONE, Attempt, report_pod_gone
from schemas.messages.decisions import PlacementDecision

#: Annotation with the id of the decision on pods that loadstream has bound.
DECISION_ANNOTATION = "loadstream/decision"
#: Timeout of a binding, in seconds; then the pod is read.
BIND_S = 15.0


class Binder:
    """Binds pods of one cluster."""

    def __init__(self, server: Throttle) -> None:
        self._server = server
        self._nodes = Nodes(server)

    async def bind(self, decision: PlacementDecision) -> Attempt:
        """Make one attempt; raises ApiError for invalid names, and AccessError."""
        pod, node = decision.pod, decision.node or ""
        path = pod_path(pod)
        if await self._nodes.is_missing(node):
            return Attempt("failed", f"there is no node {node}")
        try:
            response = await self._server.send(
                "POST", f"{path}/binding", body=_binding(decision), timeout_s=BIND_S
            )
        except ApiUnreachable as lost:
            return await self._resolve(decision, str(lost))
        if response.ok:
            return DONE
        error = response.error()
        if error.status == 409 or error.status >= 500:
            return await self._resolve(decision, format_error(error))
        if error.status == 429:
            why = f"the API server is overloaded: {format_error(error)}"
            return Attempt("failed", why, again_in_s=retry_pause_s(error))
        if is_not_found(error):
            return report_pod_gone("failed", f"pod {pod.name} is gone: {format_error(error)}")
        return Attempt("failed", f"binding was refused ({error.status}): {format_error(error)}")

    async def _resolve(self, decision: PlacementDecision, why: str) -> Attempt:
        """Read the pod to find out whether it was bound, and by which decision."""
        try:
            live = await read_pod(self._server, decision.pod)
        except (ApiError, ApiUnreachable, AccessError) as error:
            text = f"{why}; whether the pod was bound is unknown: {error}"
            return Attempt("failed", text, again_in_s=0.0)
        return _judge(decision, live, why)


def _binding(decision: PlacementDecision) -> dict[str, object]:
    pod = decision.pod
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "annotations": {DECISION_ANNOTATION: decision.decision_id},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
    }


def _judge(decision: PlacementDecision, live: LivePod | None, why: str) -> Attempt:
    """Return the result of a binding without a successful answer."""
    pod = decision.pod
    missing = explain_missing(pod, live)
    if missing is not None or live is None:
        return report_pod_gone("failed", missing or "")
    if live.node is not None:
        by = live.annotations.get(DECISION_ANNOTATION)
        if by == decision.decision_id and live.node == decision.node:
            return DONE
        binder = f"by decision {by}" if by else "without a decision"
        return Attempt("failed", f"pod {pod.name} is already on node {live.node}, bound {binder}")
    if live.is_terminating:
        return Attempt("failed", f"pod {pod.name} is terminating")
    if live.gates:
        return Attempt("failed", f"pod {pod.name} has scheduling gates: {', '.join(live.gates)}")
    return Attempt("failed", why, again_in_s=0.0)
