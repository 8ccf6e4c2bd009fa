"""A watch of a real API server reports exactly the objects of the server, through restarts."""

import asyncio
from typing import Any

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.watch.kinds import KINDS, PODS
from connectors.kubernetes.watch.state_watch import KubernetesWatch
from simulation.control_plane import cluster
from simulation.control_plane.server import ControlPlane
from tests.connectors.kubernetes.watch.fold import Reader, expected

_MERGE = "application/merge-patch+json"


async def agrees(reader: Reader, server: ApiServer) -> None:
    """Wait until the reported objects equal those of the server, and stay equal."""
    async with asyncio.timeout(90):
        while True:
            listed = {path: (await server.get(path))["items"] for path in (*KINDS, PODS)}
            if reader.fold.summary() == expected(listed):
                return
            await reader.until(lambda: True)
            await asyncio.sleep(0.1)


async def delete(server: ApiServer, path: str) -> None:
    answer = await server.send("DELETE", path, body={"gracePeriodSeconds": 0})
    assert answer.ok, answer.body


async def change_objects(server: ApiServer, namespace: str, letter: str) -> None:
    """Create, bind and delete pods, create a budget and a claim, and delete a node."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await cluster.create_pods(
        server,
        namespace,
        [cluster.make_pod(f"{letter}-{n}", labels={"app": letter}) for n in range(6)],
    )
    gated = [cluster.make_pod(f"{letter}-gated", schedulingGates=[{"name": "x/quota"}])]
    theirs = [cluster.make_pod(f"{letter}-theirs", scheduler="other", node_name="n0")]
    await cluster.create_pods(server, namespace, gated + theirs)
    await cluster.bind(server, namespace, f"{letter}-0", "n0")
    await delete(server, f"{pods}/{letter}-1")
    patched = await server.send(
        "PATCH",
        f"{pods}/{letter}-gated",
        body={"spec": {"schedulingGates": []}, "metadata": {"labels": {"free": "yes"}}},
        content_type=_MERGE,
    )
    assert patched.ok, patched.body
    budget: dict[str, Any] = {
        "metadata": {"name": letter},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": letter}}},
    }
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    await cluster.create(server, budgets, [budget])
    claim: dict[str, Any] = {
        "metadata": {"name": letter},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "none",
        },
    }
    await cluster.create(server, f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", [claim])
    await cluster.create_nodes(server, [cluster.make_node(f"{letter}-node")])


async def test_reported_objects_equal_those_of_the_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    async with control_plane.api() as server, control_plane.api("loadstream-watch") as watched:
        await cluster.create_nodes(server, [cluster.make_node(f"n{n}") for n in range(3)])
        await change_objects(server, namespace, "a")
        watch = KubernetesWatch("east", watched)
        async with Reader(watch) as reader:
            await agrees(reader, server)
            await change_objects(server, namespace, "b")
            await agrees(reader, server)
            # kwok needs a moment to run the pod.
            await reader.until(lambda: reader.fold.events("b-0")[-1:] == ["running"])
            assert reader.fold.full_lists == 1
            # Another scheduler bound a pod; the request of a deleted pod is withdrawn.
            assert reader.fold.events("b-0")[:3] == ["asked", "bound", "withdrawn"]
            assert reader.fold.events("b-1")[0] == "asked"
            assert reader.fold.events("b-1")[-1] == "withdrawn"
            assert reader.fold.events("b-gated") == ["asked"]
            assert reader.fold.events("b-2") == ["asked"]

            await asyncio.to_thread(control_plane.api_server.stop)
            await reader.until(lambda: all(health.failing_s for health in watch.health()))
            await asyncio.to_thread(control_plane.api_server.start)
            await change_objects(server, namespace, "c")
            await agrees(reader, server)
            assert reader.fold.full_lists == 1
            assert reader.fold.events("b-2") == ["asked"]
        await watch.close()

        # Without a watch: objects deleted in this time are missing from the next full list.
        await delete(server, f"{pods}/a-2")
        await delete(server, f"{pods}/a-theirs")
        await cluster.bind(server, namespace, "a-3", "n1")
        for letter in "abc":
            await delete(server, f"{budgets}/{letter}")
        await delete(server, "/api/v1/nodes/n2")
        async with Reader(watch, reader.fold) as again:
            await again.until(lambda: again.fold.full_lists == 2)
            await agrees(again, server)
            budget = (
                "disruption-budget",
                namespace,
            )  # the namespace of an earlier test may be deleted late
            assert not [key for key in again.fold.others if key[:2] == budget]
            assert all(health.failing_s is None for health in watch.health())
        await watch.close()
