"""Requests to one API server.

    send     one request and its complete answer, whatever its status
    get      the object at a path; raises ApiError unless the status is 2xx
    pages    a list in pages with one resource version
    lines    the lines of a watch, until it ends

Each request has a timeout, and concurrent requests are limited. A request without an answer raises
`ApiUnreachable`, although the server may have executed the request. If credentials are refused (401),
the request is sent once more with new credentials. No other request is repeated here.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import orjson

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.errors import ApiError, ApiUnreachable, build_error
from connectors.kubernetes.api.session import Sessions

#: Timeout of a request, in seconds: the API server itself gives up after 60 s.
REQUEST_S = 65.0
#: Longest time to connect, in seconds.
CONNECT_S = 10.0
#: Most concurrent requests: more of them would wait in the API server.
IN_FLIGHT_MAX = 64
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
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body's value; raises ApiError for invalid JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise ApiError(
                self.status, "", f"the answer is not JSON: {error}", None, self.body
            ) from error

    def error(self) -> ApiError:
        return build_error(self.status, self.headers, self.body)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Query | None = None
    body: Any = None
    content_type: str = _JSON


class ApiServer:
    """One API server; an asynchronous context manager."""

    def __init__(self, access: Access, *, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self.access = access
        self._slots = asyncio.Semaphore(in_flight_max)
        self._sessions = Sessions(access)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._sessions.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = _JSON,
        timeout_s: float = REQUEST_S,
    ) -> Response:
        """Send a request and return its complete answer.

        Args:
            method: GET, POST, PUT, PATCH, DELETE.
            path: such as `/api/v1/nodes`.
            query: parameters after the path.
            body: JSON value; None: no body.
            content_type: of the body.
            timeout_s: for the complete answer.

        Raises:
            ApiUnreachable: no answer.
            AccessError: the credentials cannot be read.
        """
        request = _Request(method, path, query, body, content_type)
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
        async with self._slots:
            for renewed in (False, True):
                async with self._answer(request, timeout, renewed=renewed) as answer:
                    response = Response(answer.status, answer.headers, await answer.read())
                if response.status != 401:
                    break
        return response

    async def get(self, path: str, query: Query | None = None) -> Any:
        """Return the value at a path; raises ApiError unless the status is 2xx, and as `send`."""
        response = await self.send("GET", path, query=query)
        if not response.ok:
            raise response.error()
        return response.json()

    async def pages(self, path: str, limit: int, after: str = "") -> AsyncIterator[dict[str, Any]]:
        """Yield the pages of a list with one resource version, `limit` objects each.

        With `after` (the `continue` of a page), the list continues after this page. Raises ApiError (410:
        the remaining pages have expired) and ApiUnreachable.
        """
        query: dict[str, str | int] = {"limit": limit}
        if after:
            query["continue"] = after
        while True:
            page = await self.get(path, query)
            yield page
            after = (page.get("metadata") or {}).get("continue") or ""
            if not after:
                return
            query["continue"] = after

    async def lines(
        self,
        path: str,
        query: Query,
        silence_s: float,
        accepted: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch, until the server ends it.

        Close the generator (`contextlib.aclosing`). A watch does not count as a concurrent request.

        Args:
            path: of the collection.
            query: with `watch=1`.
            silence_s: a connection without data for this time is given up.
            accepted: called when the server has accepted the watch, which may be long before the first
                line.

        Raises:
            ApiError: the server refused the watch.
            ApiUnreachable: the connection broke, or was silent for too long.
        """
        request = _Request("GET", path, query)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        for renewed in (False, True):
            async with self._answer(request, timeout, renewed=renewed) as answer:
                if answer.status == 401 and not renewed:
                    continue
                if answer.status != 200:
                    raise build_error(answer.status, answer.headers, await answer.read())
                accepted()
                async with aclosing(_split(answer)) as lines:
                    async for line in lines:
                        yield line
                return

    @asynccontextmanager
    async def _answer(
        self, request: _Request, timeout: aiohttp.ClientTimeout, *, renewed: bool
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer with its unread body; raises ApiUnreachable for broken connections."""
        configuration = await self.access.configuration(renewed=renewed)
        headers = {"Accept": _JSON, "User-Agent": "loadstream"}
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
        except (aiohttp.ClientError, OSError) as error:  # OSError: also unreadable certificates
            why = str(error) or type(error).__name__
            raise ApiUnreachable(
                f"API server {host}: {request.method} {request.path}: {why}"
            ) from error


async def _split(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a body, without a limit of their length."""
    parts: list[bytes] = []
    async for piece in answer.content.iter_any():
        end_of_line, *following = piece.split(b"\n")
        parts.append(end_of_line)
        for start_of_line in following:
            if line := b"".join(parts):
                yield line
            parts = [start_of_line]
    if any(parts):
        raise ApiUnreachable("the watch was cut off within a line")
