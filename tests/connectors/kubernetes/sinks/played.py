"""The other side of a sink: a server that plays an API server's answers, and keeps what it was asked.

For answers that a real server does not give on demand.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.client_parts import Configuration
from connectors.kubernetes.api.server import ApiServer


@dataclass(frozen=True)
class Said:
    """One answer."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    lost: bool = False
    """The connection is closed instead."""


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    body: Any
    query: Mapping[str, str]
    content_type: str


def failure(
    status: int, reason: str, message: str, *causes: str, retry_after: int | None = None
) -> Said:
    """A Status object, as an API server writes it."""
    body: dict[str, Any] = {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
        "reason": reason, "message": message, "details": {},
    }  # fmt: skip
    if causes:
        body["details"]["causes"] = [
            {"reason": "DisruptionBudget", "message": cause} for cause in causes
        ]
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Said(status, body, headers)


LOST = Said(lost=True)
OVERLOADED = failure(
    429, "TooManyRequests", "too many requests, please try again later", retry_after=1
)
UNAVAILABLE = failure(503, "ServiceUnavailable", "etcd has no leader")


class Played:
    """Answers by method and path, in their order; the last one is repeated."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.at_once = 0
        self.most = 0
        self._answers: dict[tuple[str, str], deque[Said]] = {}

    def says(self, method: str, path: str, *answers: Said) -> None:
        """What it answers from now on."""
        self._answers[method, path] = deque(answers)

    def of(self, method: str, path: str | None = None) -> list[Asked]:
        """What it was asked."""
        asked = [each for each in self.asked if each.method == method]
        return [each for each in asked if path in (None, each.path)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(
            Asked(
                request.method, request.path, orjson.loads(body) if body else None,
                dict(request.query), request.headers.get("Content-Type", ""),
            )
        )  # fmt: skip
        answers = self._answers.get((request.method, request.path))
        said = failure(404, "NotFound", f"{request.path} not found")
        if answers:
            said = answers.popleft() if len(answers) > 1 else answers[0]
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(said.after_s)
        finally:
            self.at_once -= 1
        if said.lost:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(
            status=said.status, body=orjson.dumps(said.body), headers=said.headers,
            content_type="application/json",
        )  # fmt: skip

    @asynccontextmanager
    async def served(self) -> AsyncIterator[ApiServer]:
        """A client of it."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with TestServer(app) as server:

            async def load(configuration: Configuration) -> None:
                configuration.host = f"http://{server.host}:{server.port}"

            async with ApiServer(Access(load, "a test")) as client:
                yield client
