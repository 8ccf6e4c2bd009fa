"""Credentials that change while a process runs, and wrong credentials, on a real server."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.kubernetes.api.access import access
from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from simulation.control_plane.server import ControlPlane
from simulation.control_plane.users import write_kubeconfig


def _kubeconfig(control_plane: ControlPlane, path: Path, token: str) -> Path:
    write_kubeconfig(path, control_plane.url, control_plane.certificate, token)
    return path


async def test_a_wrong_token_is_an_error_with_the_message_of_the_server(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = _kubeconfig(control_plane, tmp_path / "kubeconfig", "wrong")
    async with ApiServer(access(kubeconfig)) as server:
        with pytest.raises(ApiError, match="401 Unauthorized: Unauthorized") as caught:
            await server.get("/api/v1/nodes")
        assert caught.value.status == 401
        with pytest.raises(ApiError, match="401 Unauthorized"):
            async for _ in server.lines("/api/v1/nodes", {"watch": "1"}, 60.0):
                pass


async def test_a_replaced_token_file_is_read_when_the_old_token_is_refused(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = _kubeconfig(control_plane, tmp_path / "kubeconfig", "worn out")
    async with ApiServer(access(kubeconfig)) as server:
        await server.access.configuration()
        kubeconfig.write_bytes(control_plane.kubeconfig().read_bytes())
        assert (await server.get("/version"))["gitVersion"] == "v1.36.3"
        nodes = await server.get("/api/v1/nodes")
        assert nodes["kind"] == "NodeList"


async def test_a_watch_is_opened_with_a_replaced_token(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = _kubeconfig(control_plane, tmp_path / "kubeconfig", "worn out")
    async with ApiServer(access(kubeconfig)) as server:
        await server.access.configuration()
        kubeconfig.write_bytes(control_plane.kubeconfig().read_bytes())
        query = {"watch": "1", "timeoutSeconds": "1"}
        lines = [line async for line in server.lines("/api/v1/namespaces", query, 60.0)]
        assert any(b'"name":"default"' in line for line in lines)


async def test_a_certificate_that_does_not_match_the_server_is_refused(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    certificate = control_plane.certificate.read_text()
    first = certificate.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    other = tmp_path / "other.crt"
    other.write_text(first)
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, control_plane.url.replace("127.0.0.1", "localhost"), other, "any")
    async with ApiServer(access(kubeconfig)) as server:
        with pytest.raises(ApiUnreachable, match=r"(?i)certificate"):
            await server.get("/version")


async def test_an_unreadable_kubeconfig_is_an_error(tmp_path: Path) -> None:
    text = tmp_path / "latin"
    text.write_bytes(b"\xff")
    for file, words in ((tmp_path, "cannot be read: Is a directory;"), (text, "the byte 0xff")):
        with pytest.raises(AccessError, match=words) as caught:
            await access(file).configuration()
        assert "Errno" not in str(caught.value)
        assert "codec" not in str(caught.value)


def _write_kubeconfig(path: Path, name: str, current: bool) -> Path:
    """Write a kubeconfig with a context, cluster and user of this name."""
    config = {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443"}}],
        "users": [{"name": name, "user": {"token": name}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.write_text(yaml.safe_dump(config | ({"current-context": name} if current else {})))
    return path


@pytest.mark.parametrize(
    ("current", "context", "expected"),
    [
        ((False, True, True), None, "two"),
        ((True, True, True), None, "one"),
        ((True, False, True), "three", "three"),
    ],
)
async def test_several_kubeconfigs_are_merged_and_the_first_wins(
    current: tuple[bool, ...],
    context: str | None,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("one", "two", "three")
    files = [
        str(_write_kubeconfig(tmp_path / name, name, set_there))
        for name, set_there in zip(names, current, strict=True)
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "none"), *files]))
    configuration = await access(None, context).configuration()
    assert configuration.host == f"https://{expected}.example:6443"
    assert configuration.api_key["BearerToken"] == f"Bearer {expected}"


_CLUSTERS = "clusters: [{name: a, cluster: {server: 'https://a.example'}}]\ncurrent-context: a\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; expected a map with clusters, contexts and users"),
        ("[1]", "found a list in .*; expected a map with clusters, contexts and users"),
        ("s3cr3t", "found a single value in .*; expected a map with clusters, contexts and users"),
        ("contexts: [{name: a}, {name: b}]", "there is no current-context; contexts are a, b"),
        (
            f"{_CLUSTERS}contexts: [{{name: a, context: {{cluster: a}}}}]",
            "context a has no user; users are none",
        ),
        (
            f"{_CLUSTERS}contexts: [{{name: a, context: {{cluster: a, user: x}}}}]\n"
            "users: [{name: y, user: {token: t}}]",
            "context a has the unknown user x; users are y",
        ),
    ],
)
async def test_an_error_names_missing_parts_of_a_kubeconfig(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(AccessError, match=f"kubeconfig: {message}; set --kubeconfig") as caught:
        await access(path).configuration()
    assert "s3cr3t" not in str(caught.value)


_PLUGIN = """\
echo run >> {runs}
until test -e {may_answer}; do sleep 0.02; done
test -e {broken} && exit 1
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
 "status": {{"token": "secret"}}}}'
"""


def _plugin_kubeconfig(plugin: dict[str, Any]) -> str:
    """Return a kubeconfig with the credentials of a plugin."""
    kubeconfig = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }
    return yaml.safe_dump(kubeconfig)


async def test_a_plugin_runs_once_for_all_requests_that_wait_for_it(tmp_path: Path) -> None:
    names = ("runs", "may-answer", "broken", "kubeconfig")
    runs, may_answer, broken, kubeconfig = (tmp_path / name for name in names)
    may_answer.touch()
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", _PLUGIN.format(runs=runs, may_answer=may_answer, broken=broken)],
    }  # fmt: skip
    kubeconfig.write_text(_plugin_kubeconfig(plugin))
    by_plugin = access(kubeconfig)
    for renewed in (False, True):
        configurations = [by_plugin.configuration(renewed=renewed) for _ in range(20)]
        read = await asyncio.gather(*configurations)
        assert {
            await configuration.get_api_key_with_prefix("BearerToken") for configuration in read
        } == {"Bearer secret"}
    assert runs.read_text() == 2 * "run\n"

    may_answer.unlink()
    impatient = asyncio.create_task(by_plugin.configuration(renewed=True))
    async with asyncio.timeout(60):
        while runs.read_text() != 3 * "run\n":
            await asyncio.sleep(0.01)
    impatient.cancel()
    another = asyncio.create_task(
        by_plugin.configuration(renewed=True)
    )  # waits for the same run of the plugin
    await asyncio.sleep(0)
    may_answer.touch()
    await another
    assert runs.read_text() == 3 * "run\n"

    broken.touch()
    configurations = [by_plugin.configuration(renewed=True) for _ in range(20)]
    failed = await asyncio.gather(*configurations, return_exceptions=True)
    assert all(isinstance(error, AccessError) for error in failed)
    assert runs.read_text() == 4 * "run\n"
    broken.unlink()
    await by_plugin.configuration(renewed=True)
