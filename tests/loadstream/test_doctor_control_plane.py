"""`loadstream doctor` on a real API server: rights, certificates, clocks and pods."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from connectors.process import wall_clock
from schemas.settings.connection import KafkaSettings
from simulation.control_plane import cluster, users
from simulation.control_plane.server import ControlPlane
from tests.conftest import RunningBroker
from tests.loadstream.test_doctor import errors, examine


@pytest.fixture
def kafka_settings(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaSettings:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    return embedded.settings


@pytest.mark.usefixtures("kafka_settings")
async def test_missing_rights_and_requirements_of_pods_are_reported(
    control_plane: ControlPlane, namespace: str
) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    pods = [cluster.make_pod("a"), cluster.make_pod("b", topologySpreadConstraints=[spread])]
    async with control_plane.api() as server:
        await cluster.create_pods(server, namespace, pods)
    binder = str(control_plane.kubeconfig("loadstream-bind"))
    assert not await asyncio.to_thread(errors, "--kubeconfig", binder, "--duty", "bind")
    error_texts = await asyncio.to_thread(errors, "--kubeconfig", binder, "--duty", "evict")
    assert "lacks for evict: delete pods, patch pods, create pods/eviction" in error_texts["rights"]
    admin = ["--kubeconfig", str(control_plane.kubeconfig())]
    _, findings = await asyncio.to_thread(examine, *admin, "--release", "ops/loadstream")
    watch, *others = (finding["text"] for finding in findings if finding["check"] == "rights")
    assert "system:serviceaccount:ops:loadstream-watch lacks for watch" in watch
    assert [text for text in others if "the release does not run" not in text] == []
    counted = [finding["text"] for finding in findings if finding["check"] == "pods"]
    assert counted == ["1 of 2 pods would be refused: topology spread 1"]


@pytest.mark.usefixtures("kafka_settings", "namespace")
async def test_a_wrong_certificate_authority_and_a_wrong_clock_are_reported(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ed25519", "-noenc", "-subj", "/CN=stranger"]
    subprocess.run([*make, "-keyout", str(tmp_path / "key"), "-out", str(other)], check=True)  # noqa: S603
    kubeconfig = tmp_path / "kubeconfig"
    users.write_kubeconfig(kubeconfig, control_plane.url, other, "token")
    error_texts = await asyncio.to_thread(errors, "--kubeconfig", str(kubeconfig))
    assert "certificate verify failed" in error_texts["API server"]
    users.write_kubeconfig(kubeconfig, control_plane.url, control_plane.certificate, "token")
    error_texts = await asyncio.to_thread(errors, "--kubeconfig", str(kubeconfig))
    assert "the credentials are refused" in error_texts["API server"]
    now_ms = wall_clock.now_ms()
    monkeypatch.setattr(wall_clock, "now_ms", lambda: now_ms - 630_000)
    sound = str(control_plane.kubeconfig())
    error_texts = await asyncio.to_thread(errors, "--kubeconfig", sound)
    assert error_texts["clock"].startswith("the API server's clock is 10m")
