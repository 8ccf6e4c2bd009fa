"""`python -m benchmarks.fake_cluster NODES PODS_PER_NODE`: a fake cluster for `watch` and `collect`.

One server prints its port, and imitates an API server whose nodes and pods never change, and all kubelets.
To save CPU, objects are templates with replaced names, and metrics of kubelets change only four times per
second. A pod has 4.5 KB, a node 1.7 KB, and the metrics of a kubelet with 30 pods of two containers 22 KB:
CPU and memory, without start times and swap.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from functools import cache

import orjson
import uvloop
from aiohttp import web

from benchmarks.messages import node_name

#: Time between two measurements of a kubelet, in seconds.
_MEASUREMENT_S = 0.25
_PAGE = 500
#: Placeholders in templates: number of a pod, name of a node, CPU counter and time of metrics.
_POD, _NODE, _COUNTER, _TIME = "%pod", "%node", "%counter", "%time"
_CONTAINERS = ("app", "proxy")
_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
_CREATED_AT = "2026-11-20T10:00:00Z"


def main(nodes: int, pods_per_node: int) -> None:
    """Serve until the process ends."""
    uvloop.run(_serve(FakeCluster(nodes, pods_per_node)))


class FakeCluster:
    """A cluster without changes. Pod n is on node n modulo the number of nodes."""

    def __init__(self, nodes: int, pods_per_node: int) -> None:
        self._nodes = nodes
        self._pods_per_node = pods_per_node
        self._counts = {"/api/v1/nodes": nodes, "/api/v1/pods": nodes * pods_per_node}
        self._templates = {"/api/v1/nodes": _make_node(), "/api/v1/pods": _make_pod()}
        self._cached_metrics = cache(self._make_metrics)

    async def serve_list(self, request: web.Request) -> web.StreamResponse:
        """Serve a page of a collection, or a watch without events."""
        if request.query.get("watch"):
            silent = web.StreamResponse()
            await silent.prepare(request)
            await asyncio.sleep(float(request.query["timeoutSeconds"]))
            return silent
        first = int(request.query.get("continue", "0"))
        last = min(self._counts.get(request.path, 0), first + _PAGE)
        head = {"resourceVersion": "1000"}
        if last < self._counts.get(request.path, 0):
            head["continue"] = str(last)
        body = b'{"kind":"List","apiVersion":"v1","metadata":%b,"items":[%b]}' % (
            orjson.dumps(head),
            b",".join(self._render_objects(request.path, first, last)),
        )
        return web.Response(body=body, content_type="application/json")

    async def serve_metrics(self, request: web.Request) -> web.Response:
        """Serve the newest metrics of a kubelet."""
        now_s = time.time() // _MEASUREMENT_S * _MEASUREMENT_S
        body = self.render_metrics(request.match_info["node"], now_s)
        return web.Response(body=body, content_type="text/plain")

    def render_metrics(self, node: str, now_s: float) -> bytes:
        """Return `/metrics/resource` of a node whose containers use one core each."""
        counter, stamp = f"{now_s % 100_000:.2f}".encode(), f"{now_s * 1_000:.0f}".encode()
        body = self._cached_metrics(node)
        return body.replace(_COUNTER.encode(), counter).replace(_TIME.encode(), stamp)

    def _render_objects(self, path: str, first: int, last: int) -> Iterator[bytes]:
        template = self._templates.get(path, b"")
        for number in range(first, last):
            node = node_name(number % self._nodes).encode()
            text = template.replace(_NODE.encode(), node)
            yield text.replace(_POD.encode(), b"%08d" % number)

    def _make_metrics(self, node: str) -> bytes:
        number = int(node.rpartition("-")[2])
        pods = [
            _make_pod_name(f"{number + n * self._nodes:08d}") for n in range(self._pods_per_node)
        ]
        return "".join(_format_metrics(pods)).encode()


async def _serve(fake_cluster: FakeCluster) -> None:
    application = web.Application()
    application.router.add_get("/kubelet/{node}", fake_cluster.serve_metrics)
    application.router.add_get("/{path:.*}", fake_cluster.serve_list)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def _format_metrics(pods: list[str]) -> Iterator[str]:
    """Yield the lines of `/metrics/resource`, with families ordered by name."""
    cpu = ("cpu_usage_seconds_total", "counter", _COUNTER)
    memory = ("memory_working_set_bytes", "gauge", "2.68435456e+08")
    pod_labels = [f'namespace="shop",pod="{pod}"' for pod in pods]
    container_labels = [
        f'container="{name}",{labels}' for labels in pod_labels for name in _CONTAINERS
    ]
    for scope, label_sets in (("container", container_labels), ("node", [""]), ("pod", pod_labels)):
        for metric, kind, value in (cpu, memory):
            name = f"{scope}_{metric}"
            yield f"# HELP {name} [STABLE] What a {scope} uses\n# TYPE {name} {kind}\n"
            for labels in label_sets:
                label_text = f"{{{labels}}}" if labels else ""
                yield f"{name}{label_text} {value} {_TIME}\n"
    yield "# TYPE resource_scrape_error gauge\nresource_scrape_error 0\n"


def _make_pod_name(number: str) -> str:
    return f"app-6d4cf56db6-{number}"


def _make_node() -> bytes:
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    images = [{"names": [f"registry.example/image-{n}:1.2.3"], "sizeBytes": n} for n in range(20)]
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": _CREATED_AT}
    labels = {"kubernetes.io/hostname": _NODE, "topology.kubernetes.io/zone": "eu-1a"}
    return orjson.dumps(
        {
            "metadata": {"name": _NODE, "uid": f"uid-of-{_NODE}", "resourceVersion": "7",
                         "labels": labels, "creationTimestamp": _CREATED_AT},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready],
                       "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                       "images": images},
        }
    )  # fmt: skip


def _make_pod() -> bytes:
    """Return a running pod with two containers, and with fields of controllers and kubelet."""
    labels = {"app": "web", "pod-template-hash": "6d4cf56db6", "app.kubernetes.io/part-of": "shop"}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "app-6d4cf56db6",
        "uid": "uid-of-app-6d4cf56db6",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    conditions = [
        {"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": _CREATED_AT}
        for name in _CONDITIONS
    ]
    return orjson.dumps(
        {
            "metadata": {"name": _make_pod_name(_POD), "namespace": "shop", "resourceVersion": "9",
                         "uid": f"0b8f6f0a-3a3e-4a6b-9a55-0000{_POD}", "labels": labels,
                         "creationTimestamp": _CREATED_AT, "ownerReferences": [owner],
                         "managedFields": _make_managed_fields()},
            "spec": {"nodeName": _NODE, "schedulerName": "default-scheduler",
                     "restartPolicy": "Always", "priority": 0,
                     "containers": [_make_container(name) for name in _CONTAINERS]},
            "status": {"phase": "Running", "qosClass": "Burstable", "hostIP": "10.0.0.1",
                       "podIP": "10.1.1.1", "startTime": _CREATED_AT, "conditions": conditions,
                       "containerStatuses": [_make_status(name) for name in _CONTAINERS]},
        }
    )  # fmt: skip


def _make_container(name: str) -> dict[str, object]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    return {
        "name": name,
        "image": "registry.example/web:1.2.3",
        "env": [{"name": f"VARIABLE_{n}", "value": "x" * 20} for n in range(10)],
        "resources": {
            "requests": {"cpu": "250m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "readinessProbe": probe,
        "livenessProbe": probe,
    }


def _make_status(name: str) -> dict[str, object]:
    return {
        "name": name,
        "state": {"running": {"startedAt": _CREATED_AT}},
        "ready": True,
        "restartCount": 0,
        "image": "registry.example/web:1.2.3",
        "imageID": "registry.example/web@sha256:" + 64 * "a",
        "containerID": "containerd://" + 64 * "b",
    }


def _make_managed_fields() -> list[dict[str, object]]:
    fields: dict[str, object] = {
        f"f:{condition}": {".": {}, "f:status": {}, "f:type": {}} for condition in _CONDITIONS
    }
    return [
        {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _CREATED_AT,
         "fieldsType": "FieldsV1", "fieldsV1": {"f:status": fields}}
        for manager in ("kube-controller-manager", "kubelet")
    ]  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
