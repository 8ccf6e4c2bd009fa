"""Fake servers for usage sources: kubelets, API servers and Prometheus."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web
from kubernetes_asyncio.client import Configuration

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sources.base import KubernetesSource, SourceContext
from connectors.kubernetes.sources.directory import Directory, KnownNode, NodePods, PodIdentity
from connectors.process.wall_clock import now_ms

CLUSTER = "c"
TOKEN = "Bearer of-the-test"  # noqa: S105

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def playing(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run a server that passes every path to `handler`; returns its URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def api_server(url: str, *, loads: list[str] | None = None) -> ApiServer:
    """Return an API server at a URL; `loads` records each time credentials are read."""

    async def load(configuration: Configuration) -> None:
        configuration.host = url
        configuration.api_key["BearerToken"] = TOKEN
        if loads is not None:
            loads.append(url)

    return ApiServer(Access(load, "the test"))


def context(
    server: ApiServer, directory: Directory, clock: Callable[[], int] = now_ms
) -> SourceContext:
    """Return the context of a source."""
    return SourceContext(CLUSTER, server, directory, clock)


def directory_of(nodes: dict[str, dict[str, str]], address: str = "127.0.0.1") -> Directory:
    """Return a directory with these nodes, and by node the uids of pods in namespace `shop`."""
    directory = Directory()
    directory.set_nodes(
        KnownNode(
            name, {"InternalIP": address if len(nodes) == 1 else f"10.0.0.{index}"}, 10250, {}
        )
        for index, name in enumerate(nodes)
    )
    for name, pods in nodes.items():
        set_pods(directory, name, pods)
    directory.pods_listed = True
    return directory


def set_pods(directory: Directory, node: str, pods: dict[str, str], created_at_ms: int = 0) -> None:
    """Set the uids by name of all pods on a node."""
    node_pods = directory._pods.setdefault(node, NodePods())
    node_pods.pods = {("shop", name): PodIdentity(uid, created_at_ms) for name, uid in pods.items()}
    node_pods.version += 1


async def until(true: Callable[[], object], limit_s: float = 60.0) -> None:
    """Wait until the condition is true, or fail after a long time."""
    async with asyncio.timeout(limit_s):
        while not true():
            await asyncio.sleep(0.01)


def text(body: bytes, **headers: str) -> web.Response:
    """Return an answer of a kubelet."""
    return web.Response(body=body, content_type="text/plain", headers=headers)


async def read_all(source: KubernetesSource[Any]) -> list[Any]:
    """Return the messages of one reading."""
    return [message async for message in source.read()]


@asynccontextmanager
async def at_work(source: KubernetesSource[Any]) -> AsyncIterator[None]:
    """Run the task of a source during the block."""
    task = asyncio.create_task(source.run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
