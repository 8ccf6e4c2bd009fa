"""A namespace of a real cluster for tests of sinks."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from connectors.kubernetes.api.server import ApiServer
from schemas.messages.pods import PodRef
from simulation.control_plane import cluster

#: Longest wait for a controller or kwok, in seconds.
WAIT_S = 60.0
_numbers = itertools.count(1)


class Environment:
    """A namespace with a node of kwok."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self.node = f"node-of-{namespace}"

    async def prepared(self) -> "Environment":
        """Create the node."""
        allocatable = {"cpu": "1000", "memory": "4000Gi", "pods": "1000"}
        await cluster.create_nodes(
            self.server, [cluster.make_node(self.node, allocatable=allocatable)]
        )
        return self

    async def waiting_pod(self, **more: Any) -> PodRef:
        """Create a pod without a node."""
        return await self._created(cluster.make_pod(f"pod-{next(_numbers)}", **more))

    async def running_pod(self, *, labels: dict[str, str] | None = None) -> PodRef:
        """Create a pod that runs on the node."""
        body = cluster.make_pod(f"pod-{next(_numbers)}", node_name=self.node, labels=labels)
        pod = await self._created(body)

        async def runs() -> bool:
            return bool((await self.get(pod))["status"]["phase"] == "Running")

        await until(runs)
        return pod

    async def budget(self, name: str, app: str, *, at_least: int = 1) -> None:
        """Create a disruption budget of the pods with this label, and wait for its status."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec = {"minAvailable": at_least, "selector": {"matchLabels": {"app": app}}}
        body = {"metadata": {"name": name}, "spec": spec}
        await cluster.create(self.server, path, [body])

        async def counted() -> bool:
            status = (await self.server.get(f"{path}/{name}")).get("status") or {}
            if status.get("observedGeneration") != 1:
                return False
            # The controller may see a pod before the pod is ready.
            return bool(0 < status.get("expectedPods", 0) == status.get("currentHealthy"))

        await until(counted)

    async def allowed(self, name: str) -> int:
        """Return the disruptions that a budget allows now."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}"
        return int((await self.server.get(path))["status"]["disruptionsAllowed"])

    async def get(self, pod: PodRef) -> Any:
        """Return the pod, or None if it was deleted."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        response = await self.server.send("GET", path)
        if response.status == 404:
            return None
        assert response.ok, response.error()
        return response.json()

    async def events(self, uid: str) -> list[tuple[str, str]]:
        """Return reason and message of the events about an object."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        items = (await self.server.get(path))["items"]
        return sorted(
            (item["reason"], item["message"])
            for item in items
            if item["involvedObject"].get("uid") == uid
            and item["source"].get("component") == "loadstream"
        )

    async def _created(self, body: dict[str, Any]) -> PodRef:
        (created,) = await cluster.create_pods(self.server, self.namespace, [body])
        metadata = created["metadata"]
        return PodRef(namespace=self.namespace, name=metadata["name"], uid=metadata["uid"])


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition is true; fails after `WAIT_S`."""
    async with asyncio.timeout(WAIT_S):
        while not await holds():
            await asyncio.sleep(0.02)
