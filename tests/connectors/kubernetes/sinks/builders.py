"""Commands and objects as Kubernetes writes them."""

from typing import Any

from connectors.kubernetes.sinks.binding import DECISION_ANNOTATION
from schemas.messages.pods import PodRef
from tests.connectors.kubernetes.sinks.fake_server import Answer, failure

POD = PodRef(namespace="shop", name="web-1", uid="uid-1")
POD_PATH = "/api/v1/namespaces/shop/pods/web-1"
BINDING = f"{POD_PATH}/binding"
EVICTION = f"{POD_PATH}/eviction"
EVENTS = "/api/v1/namespaces/shop/events"
NODE = "node-1"
DECISION_ID = f"bind-{POD.uid}"

CREATED = Answer(201, {"kind": "Status", "status": "Success"})
GONE = failure(404, "NotFound", 'pods "web-1" not found')
OWNER = {
    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-rs",
    "controller": True,
}  # fmt: skip


def pod(
    node: str | None = None,
    *,
    uid: str = POD.uid,
    decision: str | None = None,
    terminates: bool = False,
    phase: str = "Pending",
    gates: tuple[str, ...] = (),
    annotations: dict[str, str] | None = None,
    conditions: list[dict[str, Any]] | None = None,
) -> Answer:
    """An answer with a pod."""
    metadata: dict[str, Any] = {
        "name": POD.name, "namespace": POD.namespace, "uid": uid, "resourceVersion": "7",
        "annotations": dict(annotations or {}), "ownerReferences": [OWNER],
    }  # fmt: skip
    if decision is not None:
        metadata["annotations"][DECISION_ANNOTATION] = decision
    if terminates:
        metadata["deletionTimestamp"] = "2026-03-02T00:00:00Z"
    spec: dict[str, Any] = {"nodeName": node} if node else {}
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    status: dict[str, Any] = {"phase": phase}
    if conditions is not None:
        status["conditions"] = conditions
    return Answer(200, {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
