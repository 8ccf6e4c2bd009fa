"""Creates many nodes and pods in a cluster whose kubelets are simulated by kwok.

Objects are plain JSON, and are created concurrently within the limits of `ApiServer`. The annotations
`CPU_USAGE` and `MEMORY_USAGE` set the usage of each container of a pod (`configuration/kwok.yaml`).
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from connectors.kubernetes.api.server import ApiServer

CPU_USAGE = "kwok.x-k8s.io/usage-cpu"
MEMORY_USAGE = "kwok.x-k8s.io/usage-memory"

ALLOCATABLE = {"cpu": "32", "memory": "128Gi", "pods": "110"}
#: Requests of each container.
REQUESTS = {"cpu": "500m", "memory": "1Gi"}
_NODES = "/api/v1/nodes"
_MERGE = "application/merge-patch+json"
#: Longest wait for kwok to make nodes ready, and time between two checks, in seconds.
READY_S = 120.0
_READY_POLL_S = 0.05


def make_node(
    name: str,
    *,
    allocatable: Mapping[str, str] = ALLOCATABLE,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a node as JSON, which kwok makes ready."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "status": {"capacity": dict(allocatable), "allocatable": dict(allocatable)},
    }


def make_pod(
    name: str,
    *,
    scheduler: str = "loadstream",
    node_name: str | None = None,
    requests: Mapping[str, str] = REQUESTS,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod with one container as JSON; `spec` has further fields of the pod's spec."""
    placed = {} if node_name is None else {"nodeName": node_name}
    container = {"name": "main", "image": "none", "resources": {"requests": dict(requests)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **placed,
            **spec,
        },
    }


async def create(server: ApiServer, path: str, objects: Iterable[dict[str, Any]]) -> list[Any]:
    """Create objects in the collection at `path`; return the created objects.

    Raises ApiError for the first object that is refused, and ApiUnreachable.
    """

    async def create_object(body: dict[str, Any]) -> Any:
        answer = await server.send("POST", path, body=body)
        if not answer.ok:
            raise answer.error()
        return answer.json()

    return await asyncio.gather(*(create_object(body) for body in objects))


async def create_nodes(server: ApiServer, nodes: Iterable[dict[str, Any]]) -> list[Any]:
    """Create nodes; return when they are ready.

    Create pods later: kwok sometimes misses pods that are bound to a node before kwok watches the node.

    Raises ApiError, ApiUnreachable, and TimeoutError if the nodes do not become ready.
    """
    created = await create(server, _NODES, nodes)
    unready = {node["metadata"]["name"] for node in created}
    async with asyncio.timeout(READY_S):
        while unready:
            items = (await server.get(_NODES, {"resourceVersion": "0"}))["items"]
            unready -= {item["metadata"]["name"] for item in items if _is_ready(item)}
            if unready:
                await asyncio.sleep(_READY_POLL_S)
    return created


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or ()
    return ("Ready", "True") in ((item["type"], item["status"]) for item in conditions)


async def create_pods(
    server: ApiServer, namespace: str, pods: Iterable[dict[str, Any]]
) -> list[Any]:
    return await create(server, f"/api/v1/namespaces/{namespace}/pods", pods)


async def bind(server: ApiServer, namespace: str, name: str, node_name: str) -> None:
    """Bind a pod like a scheduler. Raises ApiError if the binding is refused."""
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node_name}}
    await create(server, f"/api/v1/namespaces/{namespace}/pods/{name}/binding", [body])


async def annotate_pod(
    server: ApiServer, namespace: str, name: str, annotations: Mapping[str, str | None]
) -> None:
    """Set annotations of a pod, such as its usage; None removes an annotation."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    body = {"metadata": {"annotations": dict(annotations)}}
    answer = await server.send("PATCH", path, body=body, content_type=_MERGE)
    if not answer.ok:
        raise answer.error()


async def create_namespace(server: ApiServer, name: str) -> None:
    await create(server, "/api/v1/namespaces", [{"metadata": {"name": name}}])


async def delete_all(server: ApiServer, path: str) -> None:
    """Delete all objects of a collection in one request."""
    answer = await server.send("DELETE", path, query={"gracePeriodSeconds": "0"})
    if not answer.ok:
        raise answer.error()


async def delete_namespace(server: ApiServer, name: str) -> None:
    """Delete a namespace with its pods; return before the deletion is complete."""
    await delete_all(server, f"/api/v1/namespaces/{name}/pods")
    answer = await server.send("DELETE", f"/api/v1/namespaces/{name}")
    if not answer.ok:
        raise answer.error()
