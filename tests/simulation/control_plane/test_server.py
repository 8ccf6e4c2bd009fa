"""The control plane as a whole: its parts and its users."""

import asyncio
from contextlib import suppress

import pytest

from connectors.kubernetes.api.errors import ApiError, ApiUnreachable
from simulation.control_plane import cluster
from simulation.control_plane.server import ControlPlane
from simulation.control_plane.users import DUTIES

_PODS = "/api/v1/pods"


async def _uids(control_plane: ControlPlane, namespace: str) -> set[str]:
    async with control_plane.api() as server:
        listed = await server.get(f"/api/v1/namespaces/{namespace}/pods")
        return {item["metadata"]["uid"] for item in listed["items"]}


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_restarted_api_server_has_its_port_and_its_data(
    control_plane: ControlPlane, namespace: str, end: str
) -> None:
    async with control_plane.api() as server:
        await cluster.create_pods(server, namespace, [cluster.make_pod("one")])
        before = await _uids(control_plane, namespace)
        url, process = control_plane.url, control_plane.api_server.pid
        await asyncio.to_thread(getattr(control_plane.api_server, end))
        with pytest.raises(ApiUnreachable):
            await server.get(_PODS)
        await asyncio.to_thread(control_plane.api_server.start)
        assert control_plane.url == url
        assert control_plane.api_server.pid != process
        assert await _uids(control_plane, namespace) == before


async def test_a_killed_store_keeps_its_data(control_plane: ControlPlane, namespace: str) -> None:
    async with control_plane.api() as server:
        await cluster.create_pods(server, namespace, [cluster.make_pod(f"p{n}") for n in range(20)])
    before = await _uids(control_plane, namespace)
    await asyncio.to_thread(control_plane.etcd.kill)
    await asyncio.to_thread(control_plane.etcd.start)
    assert await _read_uids(control_plane, namespace) == before
    assert len(before) == 20


async def _read_uids(control_plane: ControlPlane, namespace: str) -> set[str]:
    """Return the uids of the pods once the API server is connected to etcd again."""
    async with asyncio.timeout(200):
        while True:
            with suppress(ApiError, ApiUnreachable):
                return await _uids(control_plane, namespace)
            await asyncio.sleep(0.2)


async def test_the_user_of_a_duty_has_only_the_rights_of_the_duty(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with control_plane.api() as admin:
        await cluster.create_pods(admin, namespace, [cluster.make_pod("one")])
    one = f"/api/v1/namespaces/{namespace}/pods/one"
    binding = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "none"}}
    requests = {
        "list pods": ("GET", "/api/v1/pods", None),
        "read a pod": ("GET", one, None),
        "read secrets": ("GET", "/api/v1/secrets", None),
        "bind": ("POST", f"{one}/binding", binding),
        "evict": ("POST", f"{one}/eviction", {"metadata": {"name": "one", "namespace": namespace}}),
    }
    allowed = {}
    for user in DUTIES:
        async with control_plane.api(user) as server:
            answers = {
                action: await server.send(method, path, body=body, query={"dryRun": "All"} if body else None)
                for action, (method, path, body) in requests.items()
            }  # fmt: skip
        assert {answer.status for answer in answers.values()} <= {200, 201, 403}, answers
        allowed[user] = {action for action, answer in answers.items() if answer.ok}
    assert allowed == {
        "loadstream-watch": {"list pods"},
        "loadstream-collect": {"list pods"},
        "loadstream-bind": {"read a pod", "bind"},
        "loadstream-evict": {"read a pod", "evict"},
    }
