"""Requests to kubelets: addresses, TLS, credentials, and the proxy of the API server."""

import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from connectors.kubernetes.sources.directory import Directory, KnownNode
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.kubelet import requests as kubelet
from connectors.kubernetes.sources.kubelet.requests import Kubelets, KubeletSettings
from schemas.policy.errors import PolicyError
from schemas.policy.validation import build_model
from tests.connectors.kubernetes.sources.harness import TOKEN, api_server, context, playing, text


def _settings(**fields: object) -> KubeletSettings:
    return build_model(KubeletSettings, {"source": "kubelet_resource", **fields})


def _directory(port: int = 10250, **addresses: str) -> Directory:
    return _directory_of(addresses, port)


def _directory_of(addresses: dict[str, str], port: int = 10250) -> Directory:
    directory = Directory()
    directory.set_nodes([KnownNode("n1", addresses, port, {})])
    return directory


@asynccontextmanager
async def _kubelets(
    directory: Directory, server: str = "http://nowhere.invalid", **settings: object
) -> AsyncIterator[Kubelets]:
    async with api_server(server) as api:
        kubelets = Kubelets(_settings(**settings), context(api, directory))
        try:
            yield kubelets
        finally:
            await kubelets.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(  # noqa: S603
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kubelet",  # noqa: S607
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@asynccontextmanager
async def _serve_tls(certificate: tuple[Path, Path]) -> AsyncIterator[tuple[int, list[str]]]:
    tokens: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("Authorization", ""))
        assert request.path == "/metrics/resource"
        return text(b"up 1\n")

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    async with playing(answer, tls) as url:
        yield urlsplit(url).port or 0, tokens


async def test_a_kubelet_is_queried_at_its_address_with_the_token(
    certificate: tuple[Path, Path],
) -> None:
    async with _serve_tls(certificate) as (port, tokens):
        directory = _directory(port, Hostname="nowhere.invalid", InternalIP="127.0.0.1")
        async with _kubelets(directory, caFile=str(certificate[0])) as kubelets:
            answer = await kubelets.get("n1")
    assert answer.body == b"up 1\n"
    times = answer.times
    assert times.date_ms is not None
    # The date is in whole seconds.
    assert times.requested_at_ms - 1_000 <= times.date_ms <= times.answered_at_ms
    assert tokens == [TOKEN]


async def test_an_untrusted_certificate_is_an_error_with_advice(
    certificate: tuple[Path, Path],
) -> None:
    async with _serve_tls(certificate) as (port, tokens):
        directory = _directory(port, InternalIP="127.0.0.1")
        async with _kubelets(directory) as kubelets:
            with pytest.raises(
                SourceFailed, match="insecure: true; both are fields of the file that --sources"
            ) as f:
                await kubelets.get("n1")
        assert f.value.cause == "certificate"
        assert tokens == []
        async with _kubelets(directory, insecure=True, sendCredentials=False) as kubelets:
            await kubelets.get("n1")
    assert tokens == [""]


async def test_without_tls_no_credentials_are_sent() -> None:
    headers = []

    async def answer(request: web.Request) -> web.Response:
        headers.append(request.headers)
        return text(b"up 1\n")

    async with (
        playing(answer) as url,
        _kubelets(_directory(), url=f"{url}/{{node}}") as kubelets,
    ):
        await kubelets.get("n1")
    assert "Authorization" not in headers[0]


async def test_refused_credentials_are_read_again_once(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubelet, "RENEW_MIN_MS", 600_000)  # longer than the test runs
    requests = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal requests
        requests += 1
        return web.Response(status=401, text="Unauthorized")

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    loads: list[str] = []
    async with (
        playing(answer, tls) as url,
        api_server("http://nowhere.invalid", loads=loads) as api,
    ):
        settings = _settings(url=f"{url}/{{node}}", insecure=True)
        kubelets = Kubelets(settings, context(api, _directory()))
        for _ in range(3):
            with pytest.raises(SourceFailed, match="status 401: Unauthorized") as failed:
                await kubelets.get("n1")
            assert failed.value.cause == "credentials"
        await kubelets.close()
    assert (requests, len(loads)) == (4, 2)


async def test_kubelets_can_be_queried_through_the_api_server() -> None:
    paths = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        if len(paths) > 1:
            return web.json_response(
                {"kind": "Status", "reason": "ServiceUnavailable", "message": "dial: refused"},
                status=503,
            )
        return text(b"up 1\n")

    async with (
        playing(answer) as url,
        _kubelets(_directory(), url, via="apiServer") as kubelets,
    ):
        assert (await kubelets.get("n1")).body == b"up 1\n"
        with pytest.raises(SourceFailed, match="dial: refused") as failed:
            await kubelets.get("n1")
    assert failed.value.cause == "server_error"
    assert paths == ["/api/v1/nodes/n1/proxy/metrics/resource"] * 2


@pytest.mark.parametrize(
    ("addresses", "settings", "expected"),
    [
        ({"InternalIP": "10.1.2.3"}, {}, "https://10.1.2.3:10250/metrics/resource"),
        ({"InternalIP": "fd00::1"}, {}, "https://[fd00::1]:10250/metrics/resource"),
        ({"InternalIP": "10.1.2.3", "Hostname": "h"}, {"addresses": ["Hostname"]}, "https://h:10250/metrics/resource"),
        ({}, {"url": "http://kwok:10247/metrics/nodes/{node}/metrics/resource"}, "http://kwok:10247/metrics/nodes/n1/metrics/resource"),
    ],
)  # fmt: skip
async def test_urls_are_built_from_addresses(
    addresses: dict[str, str], settings: dict[str, object], expected: str
) -> None:
    directory = _directory_of(addresses)
    async with api_server("http://nowhere.invalid") as api:
        kubelets = Kubelets(_settings(**settings), context(api, directory))
        assert kubelets._url(directory.nodes["n1"]) == expected


async def test_an_error_lists_the_addresses_of_a_node_without_the_configured_one() -> None:
    async with _kubelets(_directory(InternalDNS="n1.internal")) as kubelets:
        with pytest.raises(SourceFailed, match="has addresses of type InternalDNS") as failed:
            await kubelets.get("n1")
        assert failed.value.cause == "no_address"
        with pytest.raises(SourceFailed, match="node n2 is unknown"):
            await kubelets.get("n2")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"url": "kwok"}, "url: invalid URL template; allowed is http:// or https://"),
        ({"url": "http://x/{who}"}, "url: invalid URL template"),
        ({"url": "http://x/", "via": "apiServer"}, "url: found with via: apiServer"),
        ({"interval": "1ms"}, "interval: found .*; allowed is a duration from 100ms to 1h"),
        ({"timeout": 5}, "timeout: found 5; allowed is a duration"),
    ],
)
def test_invalid_settings_are_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        _settings(**fields)
