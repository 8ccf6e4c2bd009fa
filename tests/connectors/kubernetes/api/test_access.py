"""Credentials that change while a process runs, and credentials that are wrong: on a real server."""

from pathlib import Path

import pytest

from connectors.kubernetes.api.access import access
from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.control_plane.server import ControlPlane
from connectors.kubernetes.control_plane.users import write_kubeconfig


def _kubeconfig(control_plane: ControlPlane, path: Path, token: str) -> Path:
    write_kubeconfig(path, control_plane.url, control_plane.certificate, token)
    return path


async def test_a_wrong_token_is_refused_in_the_servers_words(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = _kubeconfig(control_plane, tmp_path / "kubeconfig", "wrong")
    async with ApiServer(access(kubeconfig)) as server:
        with pytest.raises(ApiError, match="401 Unauthorized: Unauthorized") as caught:
            await server.get("/api/v1/nodes")
        assert caught.value.status == 401
        with pytest.raises(ApiError, match="401 Unauthorized"):
            async for _ in server.lines("/api/v1/nodes", {"watch": "1"}, 10.0):
                pass


async def test_a_token_that_was_replaced_on_disk_is_read_when_the_old_one_is_refused(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = _kubeconfig(control_plane, tmp_path / "kubeconfig", "worn out")
    async with ApiServer(access(kubeconfig)) as server:
        await server.access.configuration()
        kubeconfig.write_bytes(control_plane.kubeconfig().read_bytes())
        assert (await server.get("/version"))["gitVersion"] == "v1.36.3"
        nodes = await server.get("/api/v1/nodes")
        assert nodes["kind"] == "NodeList"


async def test_a_watch_is_opened_with_a_token_that_was_replaced_on_disk(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = _kubeconfig(control_plane, tmp_path / "kubeconfig", "worn out")
    async with ApiServer(access(kubeconfig)) as server:
        await server.access.configuration()
        kubeconfig.write_bytes(control_plane.kubeconfig().read_bytes())
        query = {"watch": "1", "timeoutSeconds": "1"}
        lines = [line async for line in server.lines("/api/v1/namespaces", query, 10.0)]
        assert any(b'"name":"default"' in line for line in lines)


async def test_a_certificate_that_does_not_vouch_for_the_server_is_not_accepted(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    own = control_plane.certificate.read_text()
    first = own.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    other = tmp_path / "other.crt"
    other.write_text(first)
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, control_plane.url.replace("127.0.0.1", "localhost"), other, "any")
    async with ApiServer(access(kubeconfig)) as server:
        with pytest.raises(ApiUnreachable, match=r"(?i)certificate"):
            await server.get("/version")


async def test_a_kubeconfig_that_goes_is_named_with_what_to_do(tmp_path: Path) -> None:
    found = access(tmp_path / "none")
    with pytest.raises(AccessError, match="none: there is no such file; name a kubeconfig with"):
        await found.configuration()
