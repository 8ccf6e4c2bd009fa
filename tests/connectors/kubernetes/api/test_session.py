"""What requests take from the environment: proxies, once, and no passwords."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.client_parts import Configuration
from connectors.kubernetes.api.server import ApiServer

pytestmark = pytest.mark.usefixtures("environment")


class Played:
    """A server that keeps what it was asked: path as it was written, credentials."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.server = TestServer(self._application())

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    def _application(self) -> web.Application:
        async def answer(request: web.Request) -> web.Response:
            self.asked.append((request.raw_path, request.headers.get("Authorization")))
            return web.json_response({})

        application = web.Application()
        application.router.add_route("*", "/{path:.*}", answer)
        return application


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No proxy, and a password for everything on this machine."""
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    passwords = tmp_path / "netrc"
    passwords.write_text("machine 127.0.0.1 login somebody password secret\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("NETRC", str(passwords))


@pytest.fixture
async def played() -> AsyncIterator[Played]:
    found = Played()
    async with found.server:
        yield found


def access(host: str, certificate: Path | None = None) -> Access:
    """Access without credentials."""

    async def load(configuration: Configuration) -> None:
        configuration.host = host
        configuration.ssl_ca_cert = None if certificate is None else str(certificate)

    return Access(load, "played")


async def test_passwords_of_netrc_are_not_sent(played: Played) -> None:
    async with ApiServer(access(played.url)) as api:
        assert (await api.send("GET", "/a")).ok
    assert played.asked == [("/a", None)]


async def test_the_environments_proxy_is_used(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", played.url)
    async with ApiServer(access("http://cluster.invalid:8080")) as api:
        assert (await api.send("GET", "/a")).ok
    assert played.asked == [("http://cluster.invalid:8080/a", None)]


async def test_an_address_that_needs_no_proxy_is_asked_itself(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with ApiServer(access(played.url)) as api:
        assert (await api.send("GET", "/a")).ok


async def test_certificates_that_cannot_be_read_are_tried_again(
    played: Played, tmp_path: Path
) -> None:
    async with ApiServer(access(played.url, tmp_path / "ca.crt")) as api:
        for _ in range(2):
            with pytest.raises(OSError, match=r"No such file"):
                await api.send("GET", "/a")
    assert not played.asked


async def test_a_server_that_was_closed_can_be_asked_again(played: Played) -> None:
    api = ApiServer(access(played.url))
    assert (await api.send("GET", "/a")).ok
    await api.close()
    assert (await api.send("GET", "/b")).ok
    await api.close()
