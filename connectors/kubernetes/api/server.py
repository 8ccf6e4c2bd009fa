"""Requests to one API server: raw JSON in, raw JSON out.

    send     one request and its whole answer, whatever its status
    get      the object at a path; anything but success raises ApiError
    pages    a list in pieces, all of one resource version
    lines    the lines of a watch, until it ends

Every request has a time limit and a number of requests under way at once. A request that was not
answered raises `ApiUnreachable`: it may have been carried out. Only a request that was refused for
its credentials (401) is sent again here, once, with credentials that were read again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.errors import ApiError, ApiUnreachable, api_error
from connectors.kubernetes.api.session import Sessions

#: Time that a request may take, in seconds: the API server gives up after 60 itself.
REQUEST_S = 65.0
#: Time that a connection may take to come about, in seconds.
CONNECT_S = 10.0
#: Requests under way at once: more would wait in the API server instead.
IN_FLIGHT_MAX = 64
#: Largest answer that is read as one: a page of 500 large objects.
BODY_MAX_BYTES = 256 * 1024 * 1024
_JSON = "application/json"

Query = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """It is a success."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body's value; raises ApiError if it is no JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise ApiError(
                self.status, "", f"the answer is no JSON: {error}", None, self.body
            ) from error

    def error(self) -> ApiError:
        """What an answer without success means."""
        return api_error(self.status, self.headers, self.body)


@dataclass(frozen=True, slots=True)
class _Request:
    """What is sent."""

    method: str
    path: str
    query: Query | None = None
    body: Any = None
    content_type: str = _JSON
    accept: str = _JSON


class ApiServer:
    """One API server; an asynchronous context manager."""

    def __init__(self, access: Access, *, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self.access = access
        self._slots = asyncio.Semaphore(in_flight_max)
        self._sessions = Sessions(access)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._sessions.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        timeout_s: float = REQUEST_S,
    ) -> Response:
        """One request and its whole answer.

        Args:
            method: GET, POST, PUT, PATCH, DELETE.
            path: from the server's root on, as `/api/v1/nodes`.
            query: parameters after the path.
            body: JSON value; none: no body.
            content_type: of the body.
            accept: content types of the answer: what a kubelet behind the server says is no JSON.
            timeout_s: raises ApiUnreachable after that time.

        Raises:
            ApiUnreachable: no answer came.
            AccessError: the credentials cannot be read.
        """
        request = _Request(method, path, query, body, content_type, accept)
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        async with self._slots:
            for renewed in (False, True):
                async with self._answer(request, timeout, renewed=renewed) as answer:
                    response = Response(answer.status, answer.headers, await _whole(answer))
                if response.status != 401:
                    break
        return response

    async def get(self, path: str, query: Query | None = None) -> Any:
        """The value at a path; raises ApiError unless that is a success, and ApiUnreachable."""
        response = await self.send("GET", path, query=query)
        if not response.ok:
            raise response.error()
        return response.json()

    async def pages(
        self, path: str, limit: int, query: Query | None = None, after: str = ""
    ) -> AsyncIterator[dict[str, Any]]:
        """The pages of a list, `limit` objects each, all of one resource version.

        `after` is what a page named as its `continue`: those that follow on it, of the same list.

        Raises:
            ApiError: 410 where it took so long that the rest is gone: begin anew.
            ApiUnreachable: no answer came.
        """
        asked: dict[str, str | int] = {**(query or {}), "limit": limit}
        if after:
            asked["continue"] = after
        while True:
            page = await self.get(path, asked)
            yield page
            rest = (page.get("metadata") or {}).get("continue")
            if not rest:
                return
            asked["continue"] = rest

    async def lines(
        self,
        path: str,
        query: Query,
        silence_s: float,
        accepted: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch, until the server ends it.

        Close it (`contextlib.aclosing`) where it is left early. It does not count among the
        requests under way.

        Args:
            path: of the collection.
            query: with `watch=1`.
            silence_s: a connection on which nothing came for so long is given up as half open.
            accepted: is called when the server has accepted the watch: the first line may be late.

        Raises:
            ApiError: the server refused it.
            ApiUnreachable: the connection broke, or nothing came for too long.
        """
        request = _Request("GET", path, query)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        for renewed in (False, True):
            async with self._answer(request, timeout, renewed=renewed) as answer:
                if answer.status == 401 and not renewed:
                    continue
                if answer.status != 200:
                    raise api_error(answer.status, answer.headers, await _whole(answer))
                accepted()
                async with aclosing(_split(answer)) as lines:
                    async for line in lines:
                        yield line
                return

    @asynccontextmanager
    async def _answer(
        self, request: _Request, timeout: aiohttp.ClientTimeout, *, renewed: bool
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, its body unread; what breaks is ApiUnreachable."""
        configuration = await self.access.configuration(renewed=renewed)
        headers = {"Accept": request.accept, "User-Agent": "loadstream"}
        if token := await configuration.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = token
        data = None
        if request.body is not None:
            data = orjson.dumps(request.body)
            headers["Content-Type"] = request.content_type
        host = str(configuration.host).rstrip("/")
        try:
            async with (
                self._sessions.use(configuration) as session,
                session.http.request(
                    request.method,
                    f"{host}{request.path}",
                    params=request.query,
                    data=data,
                    headers=headers,
                    timeout=timeout,
                    proxy=session.proxy,
                    server_hostname=session.server_hostname,
                ) as answer,
            ):
                yield answer
        except ApiUnreachable:
            raise
        except (aiohttp.ClientError, OSError) as error:  # a certificate that cannot be read as well
            why = str(error) or type(error).__name__
            raise ApiUnreachable(
                f"API server {host}: {request.method} {request.path}: {why}"
            ) from error


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """The body; raises ApiUnreachable if it is too large to be read as one."""
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > BODY_MAX_BYTES:
            raise ApiUnreachable(f"the answer to {answer.url.path} is over {BODY_MAX_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


async def _split(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The lines of a body, however long they are."""
    begun: list[bytes] = []
    async for piece in answer.content.iter_any():
        first, *others = piece.split(b"\n")
        begun.append(first)
        for other in others:
            if line := b"".join(begun):
                yield line
            begun = [other]
    if any(begun):
        raise ApiUnreachable("the watch broke off in the middle of a line")
