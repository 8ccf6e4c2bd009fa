"""A fake API server with prepared answers, which records its requests.

It gives answers that a real server does not give on demand.
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
from kubernetes_asyncio.client import Configuration

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.server import ApiServer


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    lost: bool = False
    """The connection is closed instead."""


@dataclass(frozen=True)
class ReceivedRequest:
    method: str
    path: str
    body: Any
    query: Mapping[str, str]
    content_type: str


def failure(
    status: int, reason: str, message: str, *causes: str, retry_after: int | None = None
) -> Answer:
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
    return Answer(status, body, headers)


LOST = Answer(lost=True)
OVERLOADED = failure(
    429, "TooManyRequests", "too many requests, please try again later", retry_after=1
)
UNAVAILABLE = failure(503, "ServiceUnavailable", "etcd has no leader")


class FakeServer:
    """Answers by method and path, in their order; the last one is repeated."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.concurrent = 0
        self.concurrent_max = 0
        self._answers: dict[tuple[str, str], deque[Answer]] = {}

    def set_answers(self, method: str, path: str, *answers: Answer) -> None:
        self._answers[method, path] = deque(answers)

    def list_requests(self, method: str, path: str | None = None) -> list[ReceivedRequest]:
        requests = [request for request in self.requests if request.method == method]
        return [request for request in requests if path in (None, request.path)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(
            ReceivedRequest(
                request.method, request.path, orjson.loads(body) if body else None,
                dict(request.query), request.headers.get("Content-Type", ""),
            )
        )  # fmt: skip
        answers = self._answers.get((request.method, request.path))
        answer = failure(404, "NotFound", f"{request.path} not found")
        if answers:
            answer = answers.popleft() if len(answers) > 1 else answers[0]
        self.concurrent += 1
        self.concurrent_max = max(self.concurrent_max, self.concurrent)
        try:
            await asyncio.sleep(answer.after_s)
        finally:
            self.concurrent -= 1
        if answer.lost:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(
            status=answer.status, body=orjson.dumps(answer.body), headers=answer.headers,
            content_type="application/json",
        )  # fmt: skip

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[ApiServer]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with TestServer(app) as server:

            async def load(configuration: Configuration) -> None:
                configuration.host = f"http://{server.host}:{server.port}"

            async with ApiServer(Access(load, "a test")) as client:
                yield client
