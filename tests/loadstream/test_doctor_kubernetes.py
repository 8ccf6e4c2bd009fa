"""`loadstream doctor` with a fake API server: rights, clock, credentials and pods."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from connectors.kubernetes.api.server import ApiServer
from connectors.process import wall_clock
from loadstream.doctor.kubernetes import check_rights, check_server, scan_pods
from tests.connectors.kubernetes.sources.harness import api_server, playing

_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "1"}
    whole = {"containers": [{"name": "main"}], "nodeName": "n1", **spec}
    return {"metadata": meta, "spec": whole, "status": {"phase": "Running"}}


class _Server:
    """An API server with two pods that denies the resource attributes matched by `denied`."""

    def __init__(self, denied: Callable[[dict[str, str]], bool] = lambda _: False) -> None:
        self.denied = denied
        self.users: set[str | None] = set()
        self.status = 200

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("accessreviews"):
            spec = (await request.json())["spec"]
            self.users.add(spec.get("user"))
            allowed = not self.denied(spec["resourceAttributes"])
            return web.json_response({"status": {"allowed": allowed}})
        pods = [_pod("a"), _pod("b", topologySpreadConstraints=[_SPREAD])]
        items = pods if request.path == "/api/v1/pods" else []
        whole = {"metadata": {"resourceVersion": "1"}, "items": items}
        return web.json_response(whole, status=self.status)


@asynccontextmanager
async def _serve(played: _Server) -> AsyncIterator[ApiServer]:
    async with playing(played) as url, api_server(url) as server:
        yield server


async def test_a_missing_right_of_a_process_is_reported() -> None:
    played = _Server(lambda review: review["subresource"] == "eviction")
    async with _serve(played) as server:
        bind, evict = await check_rights(server, ["bind", "evict"], None, required=True)
    assert (bind.grade, evict.grade) == ("ok", "error")
    assert "lacks for evict: create pods/eviction" in evict.text
    assert played.users == {None}


async def test_rights_of_a_release_are_those_of_its_service_accounts() -> None:
    played = _Server(lambda review: review["group"] == "scheduling.koordinator.sh")
    async with _serve(played) as server:
        (evict,) = await check_rights(server, ["evict"], ("ops", "ls"), required=True)
    assert evict.grade == "warning"
    assert played.users == {"system:serviceaccount:ops:ls-evict"}


async def test_a_wrong_clock_and_refused_credentials_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = _Server()
    async with _serve(played) as server:
        assert [finding.grade for finding in await check_server(server)] == ["ok"]
        now_ms = wall_clock.now_ms()
        monkeypatch.setattr(wall_clock, "now_ms", lambda: now_ms - 630_000)
        (finding,) = await check_server(server)
        assert finding.text.startswith("the API server's clock is 10m")
        played.status = 401
        (finding,) = await check_server(server)
        assert "the credentials are refused" in finding.text


async def test_pods_are_counted_without_running_processes() -> None:
    async with _serve(_Server()) as server:
        (finding,) = await scan_pods(server, "blue")
    assert finding.text == "1 of 2 pods would be refused: topology spread 1"
