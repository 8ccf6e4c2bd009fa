"""Requests to kubelets, and their settings.

    via: kubelet     https://ADDRESS:PORT/metrics/resource, with address and port of the node object
    via: apiServer   /api/v1/nodes/NODE/proxy/metrics/resource, if kubelets cannot be reached directly
    url: ...         another address: a template with {node}, {address} and {port}

Requests have the credentials for the API server. The kubelet asks the API server whether they permit
`get nodes/metrics` (through the API server `nodes/proxy`).
"""

import resource
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import quote

import aiohttp
from pydantic import Field

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sources.base import SourceContext
from connectors.kubernetes.sources.directory import KnownNode
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.http import (
    AnswerTimes,
    HttpAnswer,
    build_tls_context,
    convert_server_error,
    fetch,
)
from connectors.kubernetes.sources.kubelet.scraper import IN_FLIGHT_MAX
from connectors.kubernetes.sources.settings import SourceSettings, find_tls_conflicts
from connectors.process import wall_clock
from schemas.policy.durations import PositiveDuration
from schemas.policy.parts import Conflict, Items

PATH = "/metrics/resource"
#: Shortest time between two readings of credentials that kubelets refuse, in ms.
RENEW_MIN_MS = 10_000
#: Advice for kubelets with their own certificates.
_OWN_CERTIFICATES = (
    "both are fields of the file that --sources names. Kubelets of kubeadm sign their own certificates "
    "unless serverTLSBootstrap is on (docs/how-to/kubernetes.md)"
)
#: Fields that apply only to TLS, and only to direct connections to kubelets.
_OF_TLS = ("ca_file", "insecure", "send_credentials")
_OF_CONNECTIONS = ("url", "addresses", *_OF_TLS)


class KubeletSettings(SourceSettings):
    """Settings of requests to kubelets."""

    via: Literal["kubelet", "apiServer"] = "kubelet"
    """`kubelet`: directly. `apiServer`: through the API server's proxy, without `url`, `addresses`,
    `caFile`, `insecure` and `sendCredentials`; needs the role `loadstream-collect-proxy`."""
    url: str | None = None
    """Template of another URL, including the path, with `{node}` or `{address}`, and `{port}`."""
    addresses: Annotated[Items[str], Field(min_length=1)] = ("InternalIP", "ExternalIP", "Hostname")
    """Types of address, by preference."""
    timeout_ms: PositiveDuration = Field(5_000, alias="timeout")
    """Longest time until the complete answer of a node."""
    ca_file: str | None = None
    """PEM file with the CA of kubelets' certificates. None: the API server's CA."""
    insecure: bool = False
    """Trust any certificate, such as self-signed ones of kubelets."""
    send_credentials: bool = True
    """Send the API server's credentials; never without TLS."""

    def conflicts(self) -> Iterable[Conflict]:
        """Yield invalid templates, and fields without effect."""
        if self.via == "apiServer":
            message = "found with via: apiServer; allowed is one of them"
            yield from self.find_ineffective(_OF_CONNECTIONS, message, "via")
        else:
            yield from find_tls_conflicts(self, _OF_TLS)
        if self.via == "kubelet" and self.url is not None and "{address}" not in self.url:
            message = "found with a url without {address}"
            yield from self.find_ineffective(("addresses",), message, "url")
        if self.url is not None and not _is_template(self.url):
            message = "invalid URL template; allowed is http:// or https:// with {node} or {address}, and {port}"
            yield Conflict(("url",), message, ("url",))


def _is_template(url: str) -> bool:
    """Tell whether the URL depends on the node."""
    try:
        first, second = (url.format(node=name, address=name, port="1") for name in ("a", "b"))
    except (KeyError, IndexError, ValueError, AttributeError):
        return False
    return first.startswith(("http://", "https://")) and first != second


class Kubelets:
    """Requests `/metrics/resource` from kubelets."""

    def __init__(self, settings: KubeletSettings, context: SourceContext) -> None:
        self._settings = settings
        self._context = context
        # A separate limit, so that requests to dead nodes do not delay lists of nodes and pods.
        self._proxy = ApiServer(context.server.access, in_flight_max=IN_FLIGHT_MAX)
        self._session: aiohttp.ClientSession | None = None
        self._renewed_at_ms = 0

    async def get(self, name: str) -> HttpAnswer:
        """Return a node's document; raises SourceFailed."""
        settings = self._settings
        node = self._context.directory.nodes.get(name)
        if node is None:
            raise SourceFailed("no_address", f"node {name} is unknown")
        if settings.via == "apiServer":
            return await self._through_server(name)
        url = self._url(node)
        try:
            return await self._fetch(url, renewed=False)
        except SourceFailed as failed:
            now_ms = wall_clock.now_ms()
            if failed.cause != "credentials" or now_ms - self._renewed_at_ms < RENEW_MIN_MS:
                raise
            self._renewed_at_ms = now_ms
            return await self._fetch(url, renewed=True)

    async def close(self) -> None:
        await self._proxy.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _through_server(self, name: str) -> HttpAnswer:
        path = f"/api/v1/nodes/{quote(name)}/proxy{PATH}"
        requested_at_ms = wall_clock.now_ms()
        try:
            response = await self._proxy.send(
                "GET", path, timeout_s=self._settings.timeout_ms / 1_000
            )
            if not response.ok:
                raise response.error()
        except (ApiError, ApiUnreachable, AccessError) as error:
            failed = convert_server_error(error)
            raise SourceFailed(failed.cause, f"{path}: {failed}") from error
        # `Date` may be the kubelet's or a proxy's.
        return HttpAnswer(response.body, AnswerTimes(requested_at_ms, wall_clock.now_ms(), None))

    def _url(self, node: KnownNode) -> str:
        settings = self._settings
        address = next((a for t in settings.addresses if (a := node.addresses.get(t))), None)
        template = settings.url or "https://{address}:{port}" + PATH
        if address is None and "{address}" in template:
            expected, existing = ", ".join(settings.addresses), ", ".join(node.addresses) or "none"
            why = f"node {node.name} has addresses of type {existing}; expected one of {expected}"
            raise SourceFailed("no_address", why)
        if address is not None and ":" in address:
            address = f"[{address}]"
        return template.format(node=quote(node.name), address=address, port=node.kubelet_port)

    async def _fetch(self, url: str, *, renewed: bool) -> HttpAnswer:
        token, tls = None, False
        if url.startswith("https:"):
            token, tls = await self._credentials(renewed=renewed)
        if self._session is None:
            _allow_files()
            # Connections are kept between scrapes; the scraper limits their number.
            connector = aiohttp.TCPConnector(
                limit=0, keepalive_timeout=2.5 * self._settings.interval_ms / 1_000
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            )
        timeout_s = self._settings.timeout_ms / 1_000
        try:
            return await fetch(self._session, url, tls=tls, token=token, timeout_s=timeout_s)
        except SourceFailed as failed:
            if failed.cause != "certificate":
                raise
            raise SourceFailed("certificate", f"{failed}; {_OWN_CERTIFICATES}") from failed

    async def _credentials(self, *, renewed: bool) -> tuple[str | None, Any]:
        """Return the current token and TLS context."""
        settings = self._settings
        try:
            access = await self._context.server.access.configuration(renewed=renewed)
        except AccessError as error:
            raise convert_server_error(error) from error
        certificate, token = None, None
        if settings.send_credentials:
            token = await access.get_api_key_with_prefix("BearerToken")
            if access.cert_file:
                certificate = (access.cert_file, access.key_file)
        ca_file = settings.ca_file or access.ssl_ca_cert
        return token, build_tls_context(
            ca_file, insecure=settings.insecure, certificate=certificate
        )


def _allow_files() -> None:
    """Raise the limit of open files, because each kubelet needs a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
