"""Requests use proxies, tokens and certificates from the environment and from files."""

import base64
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration

from connectors.kubernetes.api import access as access_module
from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.errors import AccessError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer

pytestmark = pytest.mark.usefixtures("environment")


class Played:
    """A server that records paths and credentials of its requests."""

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
    """No proxy, and a password for every host in netrc."""
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    passwords = tmp_path / "netrc"
    passwords.write_text("machine 127.0.0.1 login somebody password secret\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("NETRC", str(passwords))


@pytest.fixture
async def played() -> AsyncIterator[Played]:
    played = Played()
    async with played.server:
        yield played


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


async def test_the_proxy_of_the_environment_is_used(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", played.url)
    async with ApiServer(access("http://cluster.invalid:8080")) as api:
        assert (await api.send("GET", "/a")).ok
    assert played.asked == [("http://cluster.invalid:8080/a", None)]


async def test_unreadable_certificates_are_read_again(played: Played, tmp_path: Path) -> None:
    async with ApiServer(access(played.url, tmp_path / "ca.crt")) as api:
        for _ in range(2):
            with pytest.raises(OSError, match=r"No such file"):
                await api.send("GET", "/a")
    assert not played.asked


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(  # noqa: S603
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=a",  # noqa: S607
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def kubeconfig(path: Path, server: str, user: Mapping[str, object], **cluster: object) -> Path:
    """Write a kubeconfig with one cluster and one user."""
    kubeconfig = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": dict(user)}],
    }
    path.write_text(yaml.safe_dump(kubeconfig))
    return path


async def test_a_temporarily_missing_certificate_fails_the_request_only(
    played: Played,
    certificate: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    """For example during a rotation: watches, binders and evictors retry."""
    cert = tmp_path / "ca.crt"
    shutil.copy(certificate[0], cert)
    async with ApiServer(access(played.url, cert)) as api:
        assert (await api.send("GET", "/a")).ok
        cert.unlink()
        with pytest.raises(ApiUnreachable, match=r"GET /b: .*No such file .*ca\.crt"):
            await api.send("GET", "/b")
        shutil.copy(certificate[0], cert)
        assert (await api.send("GET", "/c")).ok
    assert [path for path, _ in played.asked] == ["/a", "/c"]


async def test_certificates_of_a_kubeconfig_are_restored_after_the_temporary_folder_was_cleaned(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    data = base64.b64encode(certificate[0].read_bytes()).decode()
    config = kubeconfig(
        tmp_path / "kubeconfig", "https://127.0.0.1:1", {"token": "a"},
        **{"certificate-authority-data": data},
    )  # fmt: skip
    async with ApiServer(access_module.access(config)) as api:
        written = Path(str((await api.access.configuration()).ssl_ca_cert))
        written.unlink()
        with pytest.raises(ApiUnreachable, match="No such file"):
            await api.send("GET", "/a")
        with pytest.raises(ApiUnreachable, match="Cannot connect"):  # no server listens there
            await api.send("GET", "/a")
        again = Path(str((await api.access.configuration()).ssl_ca_cert))
        assert again.read_bytes() == certificate[0].read_bytes()


async def test_certificates_that_a_plugin_has_replaced_are_removed(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    """A plugin may return another certificate each time, for example every minute."""
    plugin = (
        "import datetime,json,pathlib;"
        "c,k=(pathlib.Path(p).read_text() for p in ({!r},{!r}));"
        "c+='# '+str(datetime.datetime.now());"
        "print(json.dumps({{'apiVersion':'client.authentication.k8s.io/v1','kind':'ExecCredential',"
        "'status':{{'clientCertificateData':c,'clientKeyData':k}}}}))"
    ).format(*map(str, certificate))
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "python3",
            "args": ["-c", plugin],
        }
    }
    config = kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1", user)
    by_plugin = access_module.access(config)
    first = await by_plugin.configuration()
    second = await by_plugin.configuration(renewed=True)
    assert first.cert_file != second.cert_file
    assert not Path(str(first.cert_file)).exists()
    assert Path(str(second.cert_file)).exists()
    assert first.key_file == second.key_file
    assert Path(str(second.key_file)).exists()


@pytest.mark.parametrize("text", ["secret", "secret\n", " secret\r\n"])
async def test_a_token_file_may_end_with_a_line_break(
    played: Played, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    config = kubeconfig(tmp_path / "kubeconfig", played.url, {"tokenFile": str(file)})
    async with ApiServer(access_module.access(config)) as api:
        assert (await api.send("GET", "/a")).ok
    assert [token.split() for _, token in played.asked if token] == [["Bearer", "secret"]]


@pytest.mark.parametrize("text", ["", "\n"])
async def test_no_request_is_sent_while_the_token_file_is_empty(
    played: Played, tmp_path: Path, text: str
) -> None:
    """An anonymous request would be refused permanently instead of temporarily."""
    file = tmp_path / "token"
    file.write_text(text)
    config = kubeconfig(tmp_path / "kubeconfig", played.url, {"tokenFile": str(file)})
    async with ApiServer(access_module.access(config)) as api:
        with pytest.raises(AccessError, match=f"token file {file} is empty; set --kubeconfig"):
            await api.send("GET", "/a")
    assert not played.asked
