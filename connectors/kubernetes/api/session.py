"""Connections to an API server.

Certificate files may change while requests use old connections. So each state of the files has its own
session. An older session is closed after its last request.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes_asyncio.client.rest import RESTClientObject

from connectors.kubernetes.api.access import Access

#: Buffer of an answer: etcd limits objects to 1.5 MiB.
_READ_AHEAD_BYTES = 2 * 1024 * 1024


@dataclass(slots=True)
class Session:
    """Connections with one set of certificates, and the number of requests that use them."""

    http: aiohttp.ClientSession
    proxy: str | None
    server_hostname: str | None
    users: int = 0

    @classmethod
    def of(cls, configuration: Any) -> Self:
        """Create connections like kubernetes-asyncio, in a session that reads the environment once.

        The library's session looks for proxies and reads ~/.netrc in another thread with every request,
        which is a third of the cost of a request. A password in ~/.netrc is not used.
        """
        # No limit of connections: each watch needs one, and `ApiServer` limits other requests.
        client = RESTClientObject(configuration, maxsize=0)
        connector = client.pool_manager.connector
        client.pool_manager.detach()
        return cls(
            aiohttp.ClientSession(connector=connector, read_bufsize=_READ_AHEAD_BYTES),
            client.proxy or _proxy_of_environment(str(configuration.host)),
            client.server_hostname,
        )


class Sessions:
    """The sessions of one API server, by address and certificates."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._sessions: dict[tuple[Any, ...], Session] = {}

    async def close(self) -> None:
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.http.close()

    @asynccontextmanager
    async def use(self, configuration: Any) -> AsyncIterator[Session]:
        """Yield the session with this configuration's current certificates."""
        try:
            key = _build_key(configuration)
        except OSError:
            self._access.expire()  # the files may have moved
            raise
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session.of(configuration)
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            older = [k for k, v in list(self._sessions.items())[:-1] if not v.users]
            for unused in [self._sessions.pop(key) for key in older]:
                await unused.http.close()


def _proxy_of_environment(host: str) -> str | None:
    """Return the proxy by HTTPS_PROXY, HTTP_PROXY and NO_PROXY; None: no proxy."""
    url, proxies = urlsplit(host), getproxies()
    if proxy_bypass(url.netloc) or _in_ranges(url.hostname or "", proxies.get("no", "")):
        return None
    return proxies.get(url.scheme)


def _in_ranges(host: str, no_proxy: str) -> bool:
    """Tell whether a range in NO_PROXY contains this address; Python does not support ranges."""
    for entry in no_proxy.split(","):
        with suppress(ValueError):  # the host or the entry is a name
            if ip_address(host) in ip_network(entry.strip(), strict=False):
                return True
    return False


def _build_key(configuration: Any) -> tuple[Any, ...]:
    """Return the key of a session: address, TLS settings, and times of the files."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (
        configuration.host,
        configuration.verify_ssl,
        configuration.tls_server_name,
        configuration.proxy,
        *((name, Path(name).stat().st_mtime_ns) if name else None for name in files),
    )
