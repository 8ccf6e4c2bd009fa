"""The connections that requests to an API server go over, and what these are made from.

Certificates are read from files, which may change, and a request may need the old connections while
the next one needs new ones. So there is a session for each state of the files; all but the newest
end with their last use.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.client_parts import RESTClientObject

#: Certificates are looked at for changes this often at most, in seconds: a system call for each file.
LOOK_S = 1.0
#: What is read ahead of an answer: objects of a watch may be as large as etcd allows, 1.5 MiB.
_READ_AHEAD_BYTES = 2 * 1024 * 1024


@dataclass(slots=True)
class Session:
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


class Sessions:
    """The sessions of one API server, by what they were made from."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._sessions: dict[tuple[Any, ...], Session] = {}
        self._newest: tuple[Any, ...] = ()
        self._looked: tuple[Any, float] = (None, 0.0)
        """The configuration whose certificates were looked at last, and when."""

    async def close(self) -> None:
        """Close all connections."""
        self._looked = (None, 0.0)
        while self._sessions:
            _, used = self._sessions.popitem()
            await used.http.close()

    @asynccontextmanager
    async def use(self, configuration: Any) -> AsyncIterator[Session]:
        """The session for this configuration's certificates; older ones end with their last use."""
        used = self._current(configuration)
        used.users += 1
        try:
            yield used
        finally:
            used.users -= 1
            if len(self._sessions) > 1:
                await self._close_older()

    def _current(self, configuration: Any) -> Session:
        seen, at_s = self._looked
        now_s = time.monotonic()
        if configuration is not seen or now_s - at_s > LOOK_S:
            try:
                key = _identity(configuration)
            except OSError:
                self._access.expire()  # they may be somewhere else now
                raise
            if key not in self._sessions:
                self._sessions[key] = Session.of(configuration)
            self._newest, self._looked = key, (configuration, now_s)
        return self._sessions[self._newest]

    async def _close_older(self) -> None:
        for each in [k for k, v in self._sessions.items() if k != self._newest and not v.users]:
            await self._sessions.pop(each).http.close()


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
