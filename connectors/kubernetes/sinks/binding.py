"""Binds pods with one write, which has the node, the precondition and the decision's id.

A binding has the pod's uid as precondition, and the decision's id as annotation, which the API server adds
to the pod in the same write. The server refuses to bind a pod that has a node. So a pod is bound at most
once, even if answers are lost or commands are repeated. After a conflict, an error of the server or a
lost answer, the pod is read to find out whether it was bound, and by which decision.

The API server accepts bindings to missing nodes. Such a pod would wait forever, or be deleted by Kubernetes'
garbage collection, so the node is checked first. An existing node is not checked again for `SEEN_S`. If the
node is deleted within this time, garbage collection deletes the new pods, as with kube-scheduler.
"""

import time

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.answers import is_not_found, retry_pause_s
from connectors.kubernetes.sinks.pods import NAME, LivePod, find_pod, pod_path
from connectors.ports.sink import DONE, Attempt
from schemas.messages.decisions import PlacementDecision

#: Annotation with the id of the decision on pods that loadstream has bound.
DECISION_ANNOTATION = "loadstream/decision"
#: Timeout of a binding, in seconds; then the pod is read.
BIND_S = 15.0
#: How long an existing node is not checked again, in seconds.
SEEN_S = 60.0
#: Most remembered nodes: more than Kubernetes supports in one cluster.
NODES_MAX = 20_000
#: Timeout of a check, in seconds; without an answer the node counts as existing.
ASK_S = 5.0


class Nodes:
    """Remembers existing nodes."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._seen_at_s: dict[str, float] = {}

    async def is_missing(self, name: str) -> bool:
        """Tell whether the API server answers that there is no such node."""
        seen_at_s = self._seen_at_s.get(name)
        if seen_at_s is not None and time.monotonic() - seen_at_s < SEEN_S:
            return False
        if not NAME.fullmatch(name):
            return True
        try:
            # The server answers any version from its memory.
            response = await self._server.send(
                "GET", f"/api/v1/nodes/{name}", query={"resourceVersion": "0"}, timeout_s=ASK_S
            )
        except ApiUnreachable:
            return False
        self._seen_at_s.pop(name, None)
        if is_not_found(error := response.error()):
            return True
        if error.status in (404, 429) or error.status >= 500:
            return False  # unknown: the server is overloaded, or a proxy answered
        self._seen_at_s[name] = time.monotonic()
        if len(self._seen_at_s) > NODES_MAX:
            del self._seen_at_s[next(iter(self._seen_at_s))]
        return False


class Binder:
    """Binds pods of one cluster."""

    def __init__(self, server: ApiServer) -> None:
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
            return await self._resolve(decision, error.message)
        if error.status == 429:
            why = f"the API server is overloaded: {error.message}"
            return Attempt("failed", why, again_in_s=retry_pause_s(error))
        if is_not_found(error):
            return Attempt("failed", f"pod {pod.name} is gone: {error.message}", pod_gone=True)
        return Attempt("failed", f"binding was refused ({error.status}): {error.message}")

    async def _resolve(self, decision: PlacementDecision, why: str) -> Attempt:
        """Read the pod to find out whether it was bound, and by which decision."""
        try:
            live = await find_pod(self._server, decision.pod)
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


def _judge(decision: PlacementDecision, live: LivePod | str, why: str) -> Attempt:
    """Return the result of a binding without a successful answer."""
    pod = decision.pod
    if isinstance(live, str):
        return Attempt("failed", live, pod_gone=True)
    if live.node is not None:
        decision_id = live.annotations.get(DECISION_ANNOTATION)
        if decision_id == decision.decision_id and live.node == decision.node:
            return DONE
        binder = f"by decision {decision_id}" if decision_id else "without a decision"
        return Attempt("failed", f"pod {pod.name} is already on node {live.node}, bound {binder}")
    if live.is_terminating:
        return Attempt("failed", f"pod {pod.name} is terminating")
    if live.gates:
        return Attempt("failed", f"pod {pod.name} has scheduling gates: {', '.join(live.gates)}")
    return Attempt("failed", why, again_in_s=0.0)
