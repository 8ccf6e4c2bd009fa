"""The cluster of the demo: nodes, deployments with budgets, and the usage of their pods.

    create_demo_nodes   creates nodes, which are measured before there are pods
    create_demo_pods    creates deployments, whose pods have loadstream as scheduler
    heat_nodes          raises the usage of all pods of some nodes
    list_pods           returns all pods and their nodes

The budget of one deployment allows no disruption: its pods stay on their nodes, even on hot nodes. All
requests have the user of the administrator.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.api.errors import ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from simulation.control_plane.cluster import (
    CPU_USAGE,
    MEMORY_USAGE,
    annotate_pod,
    create,
    create_namespace,
    create_nodes,
    make_node,
)

NAMESPACE = "shop"
#: Deployment whose pods may not be evicted.
PROTECTED = "checkout"
ALLOCATABLE = {"cpu": "8", "memory": "32Gi", "pods": "110"}
NODE_MILLICORES = 8_000
#: Requests and initial usage of a pod.
REQUESTS = {"cpu": "500m", "memory": "1Gi"}
USAGE = {CPU_USAGE: "400m", MEMORY_USAGE: "700Mi"}
#: Usage of all pods of a heated node, as a share of the node.
HOT_SHARE = 0.85
_REPLICAS_PER_DEPLOYMENT = 50
_PAGE = 1_000
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class DemoPod:
    """A pod in the API server."""

    name: str
    uid: str
    workload: str
    node: str
    """Empty if the pod waits."""
    running: bool
    millicores: int
    """Its CPU usage."""


async def create_demo_nodes(server: ApiServer, count: int) -> None:
    nodes = (
        make_node(f"node-{number:03}", allocatable=ALLOCATABLE, labels={"pool": "shop"})
        for number in range(count)
    )
    await create_nodes(server, nodes)


async def create_demo_pods(server: ApiServer, count: int) -> None:
    """Create deployments with `count` pods in total, of 50 pods each except the last, and budgets."""
    await create_namespace(server, NAMESPACE)
    starts = range(0, count, _REPLICAS_PER_DEPLOYMENT)
    names = [PROTECTED, *(f"service-{number:02}" for number in range(1, len(starts)))]
    objects = [
        _make_deployment(name, min(_REPLICAS_PER_DEPLOYMENT, count - start))
        for name, start in zip(names, starts, strict=True)
    ]
    budgets = [_make_budget(name) for name in names]
    await create(server, f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets", budgets)
    await create(server, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", objects)


async def list_pods(server: ApiServer) -> list[DemoPod]:
    """Return all pods of the demo that are not being deleted."""
    demo_pods = []
    async for page in server.pages(f"/api/v1/namespaces/{NAMESPACE}/pods", _PAGE):
        for item in page["items"]:
            meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
            if meta.get("deletionTimestamp") is None:
                demo_pods.append(
                    DemoPod(
                        meta["name"],
                        meta["uid"],
                        meta["labels"]["app"],
                        spec.get("nodeName") or "",
                        status.get("phase") == "Running",
                        int(meta["annotations"][CPU_USAGE].removesuffix("m")),
                    )
                )
    return demo_pods


def sum_cpu(demo_pods: Iterable[DemoPod]) -> dict[str, int]:
    """Return the CPU that the pods of each node use, in millicores, without empty nodes."""
    used: dict[str, int] = defaultdict(int)
    for pod in demo_pods:
        if pod.node:
            used[pod.node] += pod.millicores
    return used


async def heat_nodes(server: ApiServer, demo_pods: Iterable[DemoPod], count: int) -> list[str]:
    """Raise the usage of all pods of `count` nodes; return the names of the nodes.

    Half of the nodes have a pod that may not be evicted, if enough such nodes exist. Nodes with most pods
    are preferred.
    """
    by_node: dict[str, list[DemoPod]] = defaultdict(list)
    for pod in demo_pods:
        if pod.node:
            by_node[pod.node].append(pod)
    nodes_by_pods = sorted(by_node, key=lambda name: (-len(by_node[name]), name))
    protected = [
        name for name in nodes_by_pods if any(pod.workload == PROTECTED for pod in by_node[name])
    ][: count // 2]
    hot = [*protected, *(name for name in nodes_by_pods if name not in protected)][:count]
    changes = []
    for name in hot:
        millicores = round(HOT_SHARE * NODE_MILLICORES / len(by_node[name]))
        changes += [_set_usage(server, pod.name, millicores) for pod in by_node[name]]
    await asyncio.gather(*changes)
    return hot


async def _set_usage(server: ApiServer, pod: str, millicores: int) -> None:
    """Set the usage of a pod; retry while the API server is unreachable."""
    while True:
        try:
            return await annotate_pod(server, NAMESPACE, pod, {CPU_USAGE: f"{millicores}m"})
        except ApiUnreachable:
            await asyncio.sleep(_RETRY_S)


def _make_deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": dict(REQUESTS)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": dict(USAGE)},
                "spec": {
                    "schedulerName": "loadstream",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                },
            },
        },
    }


def _make_budget(name: str) -> dict[str, Any]:
    limit = {"maxUnavailable": 0} if name == PROTECTED else {"maxUnavailable": "20%"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **limit},
    }
