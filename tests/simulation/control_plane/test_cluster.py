"""A cluster with kwok kubelets, and its audit log."""

import asyncio
from collections.abc import Awaitable, Callable

from simulation.control_plane import cluster
from simulation.control_plane.audit import find_duplicates, read_audit_log
from simulation.control_plane.server import ControlPlane


async def _until(holds: Callable[[], Awaitable[bool]], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await holds():
            await asyncio.sleep(0.05)


async def test_the_audit_log_has_the_actions_on_each_pod(
    control_plane: ControlPlane, namespace: str
) -> None:
    """The pods belong to a deployment, and the API server restarts in between."""
    budget = {
        "metadata": {"name": "shop"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "shop"}}},
    }
    template = cluster.make_pod("", labels={"app": "shop"})
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
    # An earlier test may have killed the server in the middle of a line.
    unreadable = read_audit_log(control_plane.audit_log).unreadable
    async with control_plane.api() as server, control_plane.api("loadstream-evict") as evictor:
        await cluster.create_nodes(server, [cluster.make_node("n1")])
        await cluster.create(
            server, f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", [budget]
        )
        await cluster.create(
            server, f"/apis/apps/v1/namespaces/{namespace}/deployments", [deployment]
        )

        uids: set[str] = set()

        async def bind_all() -> bool:
            items = (await server.get(pods))["items"]
            uids.clear()
            uids.update(item["metadata"]["uid"] for item in items)
            for item in items:
                if not item["spec"].get("nodeName"):
                    await cluster.bind(server, namespace, item["metadata"]["name"], "n1")
            return [item["status"]["phase"] for item in items] == ["Running"] * 3

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

        async def is_replaced() -> bool:
            """Two pods run; the evicted pod also runs until its deletion."""
            return await bind_all() and uid not in uids

        await _until(is_replaced)

    log = read_audit_log(control_plane.audit_log)
    records = [record for record in log.pods if record.namespace == namespace]
    assert {record.uid for record in records} == uids | {uid}
    assert [len(record.bindings) for record in records] == [1] * 4
    assert {
        record.uid: [act.user for act in record.evictions] for record in records if record.evictions
    } == {uid: ["loadstream-evict"]}
    assert {act.user for record in records for act in record.bindings} == {"admin"}
    assert find_duplicates(records) == []
    assert log.unreadable == unreadable
