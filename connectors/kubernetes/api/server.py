"""Requests to one API server: raw JSON in, raw JSON out.

    send     one request and its whole answer, whatever its status
    get      the object at a path; anything but success raises ApiError
    pages    a list in pieces, all of one resource version
    lines    the lines of a watch, until it ends

Every request has a time limit and a number of requests under way at once. A request that was not
answered raises `ApiUnreachable`: it may have been carried out. Nothing is sent again here but a
request that was refused for its credentials (401), once, with credentials that were read anew.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.client_parts import RESTClientObject
from connectors.kubernetes.api.errors import ApiError, ApiUnreachable, api_error

#: Time that a request may take, in seconds: the API server gives up after 60 itself.
REQUEST_S = 65.0
#: Time that a connection may take to come about, in seconds.
CONNECT_S = 10.0
#: Requests under way at once: more would wait in the API server instead.
IN_FLIGHT_MAX = 64
#: Largest answer that is read as one: a page of 500 large objects.
BODY_MAX_BYTES = 256 * 1024 * 1024
#: Certificates are looked at for changes this often at most, in seconds: a system call for each file.
LOOK_S = 1.0
#: What is read ahead of an answer: objects of a watch may be as large as etcd allows, 1.5 MiB.
_READ_AHEAD_BYTES = 2 * 1024 * 1024
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


class ApiServer:
    """One API server; an asynchronous context manager."""

    def __init__(self, access: Access, *, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        self.access = access
        self._slots = asyncio.Semaphore(in_flight_max)
        self._sessions: dict[tuple[Any, ...], _Session] = {}
        """By what they were made from; all but the newest end with their last use."""
        self._newest: tuple[Any, ...] = ()
        self._looked: tuple[Any, float] = (None, 0.0)
        """The configuration whose certificates were looked at last, and when."""

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
        self._looked = (None, 0.0)
        while self._sessions:
            _, used = self._sessions.popitem()
            await used.http.close()

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
        async with self._slots:
            for renewed in (False, True):
                timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S)
                async with self._asked(
                    method, path, query, body, content_type, timeout, accept, renewed=renewed
                ) as answer:
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
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        for renewed in (False, True):
            async with self._asked(
                "GET", path, query, None, _JSON, timeout, _JSON, renewed=renewed
            ) as answer:
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
    async def _asked(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Any,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
        accept: str,
        *,
        renewed: bool,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, its body unread; what breaks is ApiUnreachable."""
        configuration = await self.access.configuration(renewed=renewed)
        headers = {"Accept": accept, "User-Agent": "loadstream"}
        if token := await configuration.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = token
        data = None
        if body is not None:
            data = orjson.dumps(body)
            headers["Content-Type"] = content_type
        host = str(configuration.host).rstrip("/")
        try:
            async with (
                self._session(configuration) as session,
                session.http.request(
                    method,
                    f"{host}{path}",
                    params=query,
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
            raise ApiUnreachable(f"API server {host}: {method} {path}: {why}") from error

    @asynccontextmanager
    async def _session(self, configuration: Any) -> AsyncIterator["_Session"]:
        """The session for this configuration's certificates; older ones end with their last use."""
        used = self._current(configuration)
        used.users += 1
        try:
            yield used
        finally:
            used.users -= 1
            if len(self._sessions) > 1:
                await self._close_older()

    def _current(self, configuration: Any) -> "_Session":
        seen, at_s = self._looked
        now_s = time.monotonic()
        if configuration is not seen or now_s - at_s > LOOK_S:
            try:
                key = _identity(configuration)
            except OSError:
                self.access.expire()  # they may be somewhere else now
                raise
            if key not in self._sessions:
                self._sessions[key] = _Session.of(configuration)
            self._newest, self._looked = key, (configuration, now_s)
        return self._sessions[self._newest]

    async def _close_older(self) -> None:
        for each in [k for k, v in self._sessions.items() if k != self._newest and not v.users]:
            await self._sessions.pop(each).http.close()


@dataclass(slots=True)
class _Session:
    """Connections with one set of certificates, and how many requests use them now."""

    http: aiohttp.ClientSession
    proxy: str | None
    server_hostname: str | None
    users: int = 0

    @classmethod
    def of(cls, configuration: Any) -> Self:
        """Connections as kubernetes-asyncio makes them, in a session that asks the environment once.

        Its own session asks for proxies and reads ~/.netrc, in another thread, with every request:
        a third of what a request costs. A password for the API server in ~/.netrc is not used.
        """
        # Watches hold a connection each, so connections are limited by the caller alone.
        made = RESTClientObject(configuration, maxsize=0)
        connector = made.pool_manager.connector
        made.pool_manager.detach()
        return cls(
            aiohttp.ClientSession(connector=connector, read_bufsize=_READ_AHEAD_BYTES),
            made.proxy or _proxy_of_environment(str(configuration.host)),
            made.server_hostname,
        )


def _proxy_of_environment(host: str) -> str | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for this address; none: no proxy."""
    found, proxies = urlsplit(host), getproxies()
    if proxy_bypass(found.netloc) or _in_ranges(found.hostname or "", proxies.get("no", "")):
        return None
    return proxies.get(found.scheme)


def _in_ranges(host: str, no_proxy: str) -> bool:
    """NO_PROXY names a range with this address, as kubectl reads it and Python does not."""
    for each in no_proxy.split(","):
        with suppress(ValueError):  # names, on one side or the other
            if ip_address(host) in ip_network(each.strip(), strict=False):
                return True
    return False


def _identity(configuration: Any) -> tuple[Any, ...]:
    """What a session is made from; certificates by path and time of change."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (
        configuration.host,
        configuration.verify_ssl,
        configuration.tls_server_name,
        configuration.proxy,
        *((name, Path(name).stat().st_mtime_ns) if name else None for name in files),
    )


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
