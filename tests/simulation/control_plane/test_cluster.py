"""A cluster whose kubelets kwok plays: what nodes and pods do, and what is written down of it."""

import asyncio
from collections.abc import Awaitable, Callable

from connectors.kubernetes.api.server import ApiServer
from simulation.control_plane import cluster
from simulation.control_plane.audit import judge, read
from simulation.control_plane.server import ControlPlane
from simulation.control_plane.users import RBAC, binding


async def _until(holds: Callable[[], Awaitable[bool]], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await holds():
            await asyncio.sleep(0.05)


async def _phase(server: ApiServer, namespace: str, name: str) -> str:
    """Phase of a pod; empty: there is none."""
    answer = await server.send("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    return str(answer.json()["status"]["phase"]) if answer.ok else ""


async def test_nodes_become_ready_and_lose_their_taint(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with control_plane.api() as server:
        nodes = [cluster.node(f"n{n}") for n in range(20)]
        nodes += [cluster.node("unready", ready=False)]
        await cluster.create_nodes(server, nodes)

        async def ready() -> bool:
            found = (await server.get("/api/v1/nodes"))["items"]
            conditions = {
                each["metadata"]["name"]: {
                    c["type"]: c["status"] for c in each["status"].get("conditions", ())
                }
                for each in found
                if "taints" not in each["spec"]
            }
            assert "unready" not in conditions
            return [each.get("Ready") for each in conditions.values()] == ["True"] * 20

        await _until(ready)


async def test_a_bound_pod_runs_ends_and_goes_as_its_annotations_say(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with control_plane.api() as server:
        await cluster.create_nodes(server, [cluster.node("n1")])
        names = ("runs", "succeeds", "lingers")
        await cluster.create_pods(server, namespace, [cluster.pod(name) for name in names])
        for name in names:
            assert await _phase(server, namespace, name) == "Pending"
            await cluster.bind(server, namespace, name, "n1")

        async def phase_is(name: str, phase: str) -> None:
            async def holds() -> bool:
                return await _phase(server, namespace, name) == phase

            await _until(holds)

        for name in names:
            await phase_is(name, "Running")
        await cluster.annotate_pod(server, namespace, "succeeds", {cluster.SUCCEED: "yes"})
        await phase_is("succeeds", "Succeeded")
        await cluster.annotate_pod(server, namespace, "lingers", {cluster.LINGER: "yes"})
        for name in ("runs", "lingers"):
            await server.send(
                "DELETE",
                f"/api/v1/namespaces/{namespace}/pods/{name}",
                body={"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 30},
            )
        await phase_is("runs", "")
        assert await _phase(server, namespace, "lingers") == "Running"
        await cluster.annotate_pod(server, namespace, "lingers", {cluster.LINGER: None})
        await phase_is("lingers", "")


async def test_usage_is_what_annotations_say_asked_through_the_api_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = "/api/v1/nodes/n1/proxy/metrics/nodes/n1/metrics/resource"
    busy = f'pod_memory_working_set_bytes{{namespace="{namespace}",pod="busy"}}'
    async with control_plane.api() as admin, control_plane.api("loadstream-collect") as server:
        await cluster.create_nodes(admin, [cluster.node("n1")])
        assert (await server.send("GET", path, accept="*/*")).status == 403
        used = {cluster.CPU_USAGE: "1500m", cluster.MEMORY_USAGE: "3Gi"}
        await cluster.create_pods(
            admin, namespace, [cluster.pod("busy", node_name="n1", annotations=used)]
        )
        values: dict[str, float] = {}

        async def measured() -> bool:
            answer = await server.send("GET", path, accept="*/*")
            if answer.status == 403:  # the API server goes by new rights a moment later
                return False
            if b"no preferred addresses" in answer.body:  # and the node has its address then
                return False
            assert answer.ok, answer.body
            lines = [line for line in answer.body.decode().splitlines() if line[:1] != "#"]
            pairs = (line.rsplit(" ", 1) for line in lines)
            values.update((name, float(value)) for name, value in pairs)
            return values.get(busy) == 3 * 1024**3

        given = binding("loadstream-collect-proxy", "loadstream-collect")
        await cluster.create(admin, f"{RBAC}/clusterrolebindings", [given])
        try:
            await _until(measured)
        finally:
            name = given["metadata"]["name"]
            await admin.send("DELETE", f"{RBAC}/clusterrolebindings/{name}")
    of = f'container="main",namespace="{namespace}",pod="busy"'
    assert values[f"container_memory_working_set_bytes{{{of}}}"] == 3 * 1024**3
    assert {"node_cpu_usage_seconds_total", "node_memory_working_set_bytes"} <= set(values)


async def test_the_audit_log_knows_what_was_done_to_each_pod(
    control_plane: ControlPlane, namespace: str
) -> None:
    """Of the pods of a deployment, whose names the server makes; across an API server's restart."""
    budget = {
        "metadata": {"name": "shop"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "shop"}}},
    }
    template = cluster.pod("", labels={"app": "shop"})
    del template["metadata"]["name"]
    deployment = {
        "metadata": {"name": "shop"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "shop"}},
            "template": {key: template[key] for key in ("metadata", "spec")},
        },
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    # A test before this one may have killed the server in the middle of a line.
    unreadable = read(control_plane.audit_log).unreadable
    async with control_plane.api() as server, control_plane.api("loadstream-evict") as evictor:
        await cluster.create_nodes(server, [cluster.node("n1")])
        await cluster.create(
            server, f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", [budget]
        )
        await cluster.create(
            server, f"/apis/apps/v1/namespaces/{namespace}/deployments", [deployment]
        )

        there: set[str] = set()

        async def bind_all() -> bool:
            found = (await server.get(pods))["items"]
            there.clear()
            there.update(each["metadata"]["uid"] for each in found)
            for each in found:
                if not each["spec"].get("nodeName"):
                    await cluster.bind(server, namespace, each["metadata"]["name"], "n1")
            return [each["status"]["phase"] for each in found] == ["Running"] * 3

        await _until(bind_all)
        first = (await server.get(pods))["items"][0]["metadata"]
        uid = first["uid"]
        body = {
            "metadata": {"name": first["name"], "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }

        async def evicted() -> bool:
            answer = await evictor.send("POST", f"{pods}/{first['name']}/eviction", body=body)
            assert answer.status in (201, 429), answer.body
            return answer.ok

        await _until(evicted)
        await asyncio.to_thread(control_plane.api_server.stop)
        await asyncio.to_thread(control_plane.api_server.start)

        async def replaced() -> bool:
            """Until it is gone the evicted one runs, too."""
            return await bind_all() and uid not in there

        await _until(replaced)

    log = read(control_plane.audit_log)
    records = [each for each in log.pods if each.namespace == namespace]
    assert {each.uid for each in records} == there | {uid}
    assert [len(each.bindings) for each in records] == [1] * 4
    assert {
        each.uid: [act.user for act in each.evictions] for each in records if each.evictions
    } == {uid: ["loadstream-evict"]}
    assert {act.user for each in records for act in each.bindings} == {"admin"}
    assert judge(records) == []
    assert log.unreadable == unreadable
