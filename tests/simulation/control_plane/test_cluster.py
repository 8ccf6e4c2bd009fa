"""A cluster whose kubelets kwok plays: what nodes and pods do, and what is written down of it."""

import asyncio
from collections.abc import Awaitable, Callable

from simulation.control_plane import cluster
from simulation.control_plane.audit import judge, read
from simulation.control_plane.server import ControlPlane


async def _until(holds: Callable[[], Awaitable[bool]], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await holds():
            await asyncio.sleep(0.05)


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
