"""Requests to a real API server: answers, pages, refusals."""

import asyncio

import pytest

from connectors.kubernetes.api.errors import ApiError, ApiUnreachable
from simulation.control_plane import cluster
from simulation.control_plane.server import ControlPlane


async def test_a_missing_object_is_an_error_with_the_message_of_the_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with control_plane.api() as server:
        assert (await server.get(f"/api/v1/namespaces/{namespace}"))["metadata"][
            "name"
        ] == namespace
        with pytest.raises(ApiError, match=r'404 NotFound: nodes "none" not found') as caught:
            await server.get("/api/v1/nodes/none")
        assert (caught.value.status, caught.value.reason) == (404, "NotFound")


async def test_a_missing_permission_is_named_in_the_error(
    control_plane: ControlPlane,
) -> None:
    async with control_plane.api("loadstream-watch") as server:
        with pytest.raises(ApiError, match=r'403 Forbidden: .*cannot list resource "secrets"'):
            await server.get("/api/v1/secrets")


async def test_all_pages_of_a_list_show_the_same_moment(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    before = {f"p{number:02}" for number in range(25)}
    async with control_plane.api() as server:
        await cluster.create_pods(server, namespace, [cluster.make_pod(name) for name in before])
        names, versions, sizes = [], set(), []
        async for page in server.pages(path, 10):
            names += [item["metadata"]["name"] for item in page["items"]]
            versions.add(page["metadata"]["resourceVersion"])
            sizes.append(len(page["items"]))
            await cluster.create_pods(server, namespace, [cluster.make_pod(f"p{len(sizes)}-later")])
            await server.send("DELETE", f"{path}/p24", query={"gracePeriodSeconds": "0"})
        assert sizes == [10, 10, 5]
        assert sorted(names) == sorted(before)
        assert len(versions) == 1


async def test_an_unavailable_server_is_unreachable_until_it_returns(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with control_plane.api() as server:
        await asyncio.to_thread(control_plane.api_server.kill)
        with pytest.raises(ApiUnreachable, match=r"GET /version: .*127\.0\.0\.1"):
            await server.get("/version")
        await asyncio.to_thread(control_plane.api_server.start)
        assert (await server.get("/version"))["gitVersion"] == "v1.36.3"


async def test_a_watch_ends_when_the_server_is_killed(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with control_plane.api() as server:
        lines = server.lines("/api/v1/namespaces", {"watch": "1"}, 30.0)
        await anext(lines)
        await asyncio.to_thread(control_plane.api_server.kill)
        with pytest.raises(ApiUnreachable):
            async for _ in lines:
                pass
        await asyncio.to_thread(control_plane.api_server.start)
