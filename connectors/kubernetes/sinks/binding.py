"""Binds pods: one write that holds the node, the precondition and the decision's id.

The binding carries the pod's uid as precondition and the decision's id as annotation, which the API
server merges into the pod in the same write; and it refuses a pod that has a node. So a pod is
bound at most once, whatever is lost or repeated, and whose binding it was can be read from the pod.
That is done where the answer does not say it: a conflict, a failure of the server, no answer at
all.
"""

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.sinks.answers import absent, again_in_s, sentence
from connectors.kubernetes.sinks.nodes import Nodes
from connectors.kubernetes.sinks.pods import Seen, gone, look, path
from connectors.kubernetes.sinks.throttle import Throttle
from connectors.ports.sink import DONE, Attempt, report_pod_gone
from schemas.messages.decisions import PlacementDecision

#: Annotation of a pod that loadstream has bound: the id of the decision.
DECISION_ANNOTATION = "loadstream/decision"
#: Time that a binding may take, in seconds; after that the pod is looked at.
BIND_S = 15.0


class Binder:
    """Binds pods of one cluster."""

    def __init__(self, server: Throttle) -> None:
        self._server = server
        self._nodes = Nodes(server)

    async def bind(self, decision: PlacementDecision) -> Attempt:
        """One attempt; raises ApiError for names that are none, and AccessError."""
        pod, node = decision.pod, decision.node or ""
        where = path(pod)
        if await self._nodes.missing(node):
            return Attempt("failed", f"there is no node {node}")
        try:
            response = await self._server.send(
                "POST", f"{where}/binding", body=_binding(decision), timeout_s=BIND_S
            )
        except ApiUnreachable as lost:
            return await self._found_out(decision, str(lost))
        if response.ok:
            return DONE
        error = response.error()
        if error.status == 409 or error.status >= 500:
            return await self._found_out(decision, sentence(error))
        if error.status == 429:
            why = f"the API server is overloaded: {sentence(error)}"
            return Attempt("failed", why, again_in_s=again_in_s(error))
        if absent(error):
            return report_pod_gone("failed", f"pod {pod.name} is gone: {sentence(error)}")
        return Attempt("failed", f"binding was not accepted ({error.status}): {sentence(error)}")

    async def _found_out(self, decision: PlacementDecision, why: str) -> Attempt:
        """Whether the pod is bound, and by which decision, is read from the pod."""
        try:
            seen = await look(self._server, decision.pod)
        except (ApiError, ApiUnreachable, AccessError) as error:
            text = f"{why}; whether the pod was bound is not known yet: {error}"
            return Attempt("failed", text, again_in_s=0.0)
        return _judged(decision, seen, why)


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


def _judged(decision: PlacementDecision, seen: Seen | None, why: str) -> Attempt:
    """What a binding that was not answered with success has come to."""
    pod = decision.pod
    missing = gone(pod, seen)
    if missing is not None or seen is None:
        return report_pod_gone("failed", missing or "")
    if seen.node is not None:
        by = seen.annotations.get(DECISION_ANNOTATION)
        if by == decision.decision_id and seen.node == decision.node:
            return DONE
        whose = f"by decision {by}" if by else "by somebody else"
        return Attempt("failed", f"pod {pod.name} is on node {seen.node} already, bound {whose}")
    if seen.terminates:
        return Attempt("failed", f"pod {pod.name} terminates")
    if seen.gates:
        held = ", ".join(seen.gates)
        return Attempt("failed", f"pod {pod.name} is held back by its scheduling gates: {held}")
    return Attempt("failed", why, again_in_s=0.0)
