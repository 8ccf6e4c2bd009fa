"""The chart's processes on a real control plane and a real Kafka, each with the command, environment and token
of its manifest. They first observe and then relieve hot nodes, while an upgrade and a rollback replace them
one by one.
"""

import asyncio
import itertools
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.brokers.server import KafkaServer
from connectors.kafka.client import connect
from connectors.kubernetes.api.server import ApiServer
from connectors.process.local_ports import find_free_port
from simulation.control_plane import cluster
from simulation.control_plane.audit import find_duplicates, read_audit_log
from simulation.control_plane.server import ControlPlane
from simulation.control_plane.users import write_kubeconfig
from simulation.kubernetes_demo.runner import make_policy_record, write_sources
from simulation.kubernetes_demo.steps import (
    READ_TOPICS,
    DemoRun,
    Observations,
    Size,
    Snapshot,
    TopicClient,
)
from simulation.processes import LoadstreamProcess
from tests import conftest
from tests.deploy.helm.chart import NAMESPACE, find, render
from tests.deploy.test_installed_chart import Installation, make_token

_CLUSTER = "kwok"
_RELEASE = "rollout"
_SIZE = Size(nodes=40, pods=300, step_s=300.0)
_STARTED_S = 90.0
#: Longest wait until the last created pod has a node.
_BOUND_S = 120.0
_PODS = "meanwhile"
#: Components in the order of their replacement.
_ORDER = ("worker", "watch", "collect", "bind", "evict")


@dataclass
class _Manifests:
    """The chart rendered for this control plane and this Kafka, and the processes of its manifests."""

    directory: Path
    plane: ControlPlane
    values: Path
    started: int = 0

    async def apply_rights(self, server: ApiServer) -> None:
        """Create the service accounts with their rights and a kubeconfig with the token of each."""
        await cluster.create_namespace(server, NAMESPACE)
        installation = Installation(server)
        for document in render(self.values, release=_RELEASE):
            if document["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
                status, body = await installation.apply(document, dry=False)
                assert status in (200, 201), body
                if document["kind"] == "ServiceAccount":
                    account = document["metadata"]["name"]
                    token = await make_token(server, account)
                    path = self.directory / account
                    write_kubeconfig(path, self.plane.url, self.plane.certificate, token)

    def process(self, kind: str, name: str, *arguments: str) -> tuple[LoadstreamProcess, int]:
        """Return the process of an object, not yet started, and its port; `arguments` are for Helm."""
        objects = render(self.values, *arguments, release=_RELEASE)
        (name,) = (e["metadata"]["name"] for e in objects if _matches(e, kind, name))
        pod = find(objects, kind, name)["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        self.started += 1
        home, port = self.directory / f"{name}-{self.started}", find_free_port()
        home.mkdir()
        settings = {variable["name"]: variable["value"] for variable in container["env"]}
        if "LOADSTREAM_WORKER_METRICS_PORT" in settings:
            settings["LOADSTREAM_WORKER_METRICS_PORT"] = str(port)
            settings["LOADSTREAM_WORKER_DATA_DIR"] = str(home / "data")
        if "serviceAccountName" in pod:
            settings["KUBECONFIG"] = str(self.directory / pod["serviceAccountName"])
        words = [
            _replace_mount(word, pod, container, objects, home).replace("=9102", f"={port}")
            for word in container["args"]
        ]
        return LoadstreamProcess(home, tuple(words), settings), port

    async def run_job(self, name: str, *arguments: str) -> None:
        """Run a Job to its end."""
        job, _ = self.process("Job", name, *arguments)
        job.start()
        await asyncio.to_thread(job.wait_for_end, _STARTED_S)
        assert job.ended_with == 0, job.describe_log()

    async def start(self, component: str, *arguments: str) -> LoadstreamProcess:
        """Start the process of a component and wait until its probes succeed."""
        process, port = self.process("Deployment", component, *arguments)
        process.start()
        path = "/readyz" if component == "worker" else "/healthz"
        async with asyncio.timeout(_STARTED_S):
            while not await asyncio.to_thread(_answers, port, path):
                process.check()
                await asyncio.sleep(0.2)
        return process


def _matches(document: dict[str, Any], kind: str, component: str) -> bool:
    name: str = document["metadata"]["name"]
    return document["kind"] == kind and name.startswith(f"{_RELEASE}-{component}")


def _replace_mount(
    word: str,
    pod: dict[str, Any],
    container: dict[str, Any],
    objects: Sequence[dict[str, Any]],
    home: Path,
) -> str:
    """Replace the path of a mounted ConfigMap in an argument by a local file."""
    volumes = {volume["name"]: volume for volume in pod.get("volumes") or []}
    for mount in container.get("volumeMounts", []):
        before, mount_path, name = word.partition(f"{mount['mountPath']}/")
        if mount_path and "configMap" in volumes[mount["name"]]:
            config = find(objects, "ConfigMap", volumes[mount["name"]]["configMap"]["name"])
            (home / name).write_text(config["data"][name], encoding="utf-8")
            return f"{before}{home / name}"
    return word


def _kill(processes: Sequence[LoadstreamProcess]) -> None:
    for process in processes:
        process.kill()


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False


async def _create_pods(server: ApiServer) -> None:
    """Create a pod per second until the task is cancelled."""
    await cluster.create_namespace(server, _PODS)
    for number in itertools.count():
        requests = {"cpu": "10m", "memory": "16Mi"}
        pod = cluster.make_pod(f"pod-{number}", requests=requests)
        await cluster.create_pods(server, _PODS, [pod])
        await asyncio.sleep(1)


async def _wait_until_bound(server: ApiServer) -> None:
    async with asyncio.timeout(_BOUND_S):
        while True:
            pods = (await server.get(f"/api/v1/namespaces/{_PODS}/pods"))["items"]
            if pods and all(pod["spec"].get("nodeName") for pod in pods):
                return
            await asyncio.sleep(1)


def _write_values(path: Path, plane: ControlPlane, kafka: KafkaServer) -> Path:
    values = {
        "kafka": {
            "bootstrapServers": kafka.settings.bootstrap_servers,
            "partitions": kafka.settings.partitions,
        },
        "clusters": {
            _CLUSTER: {
                "bind": True,
                "evict": True,
                "policy": make_policy_record().document.replace("mode: enforce", "mode: observe"),
                "sources": write_sources(path.with_name("sources"), plane).read_text("utf-8"),
            }
        },
    }
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.control_plane
@pytest.mark.timeout(1_200)
async def test_hot_nodes_are_relieved_when_the_policy_enforces_and_a_rollout_repeats_no_action(
    control_plane_binary: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        plane = ControlPlane(control_plane_binary, tmp_path / "plane")
        await asyncio.to_thread(plane.start)
        stack.callback(plane.stop)
        kafka = stack.enter_context(conftest.running(KafkaServer(tmp_path / "kafka")))
        values = _write_values(tmp_path / "values.yaml", plane, kafka)
        manifests = _Manifests(tmp_path, plane, values)
        server = plane.api()
        processes: list[LoadstreamProcess] = []
        stack.callback(_kill, processes)
        try:
            await manifests.apply_rights(server)
            await manifests.run_job("topics")
            await manifests.run_job("policy")
            for component in _ORDER:
                processes.append(await manifests.start(component))
            replaced: list[str] = []

            async def replace_all(*arguments: str) -> None:
                for component in _ORDER:
                    before = processes.pop(0)
                    processes.append(await manifests.start(component, *arguments))
                    before.ask_to_stop()
                    await asyncio.to_thread(before.wait_for_end, 90.0)
                    assert before.ended_with == 0, before.describe_log()
                    replaced.append(component)

            async def upgrade_and_roll_back() -> None:
                creating = asyncio.create_task(_create_pods(server))
                await replace_all("--set", "image.tag=next,worker.env.LOADSTREAM_LOG_LEVEL=info")
                await replace_all()
                creating.cancel()
                await _wait_until_bound(server)

            rollout: list[asyncio.Task[None]] = []
            enforced: list[asyncio.Task[None]] = []
            enforcing = tmp_path / "enforce.yaml"
            enforcing.write_text(make_policy_record().document, encoding="utf-8")

            def show(snapshot: Snapshot, observed: Observations) -> None:
                print(
                    f"{snapshot.at_s:4.0f} s {snapshot.step}: {snapshot.bound_pods} bound, {dict(observed.outcomes)}"
                )
                if snapshot.bound_pods and not rollout:
                    rollout.append(asyncio.create_task(upgrade_and_roll_back()))
                if observed.dry_run_commands and not enforced:
                    assert observed.eviction_commands == 0
                    change = ("--set-file", f"clusters.{_CLUSTER}.policy={enforcing}")
                    enforced.append(asyncio.create_task(manifests.run_job("policy", *change)))

            client = stack.enter_context(TopicClient(connect(kafka.settings), READ_TOPICS))
            demo_run = DemoRun(server, client, processes, _SIZE, show)
            await demo_run.run()
            await asyncio.gather(*rollout, *enforced)
        finally:
            await server.close()
        log = read_audit_log(plane.audit_log)
    assert replaced == [*_ORDER, *_ORDER]
    assert demo_run.problems == []
    assert len(enforced) == 1
    assert find_duplicates(log.pods) == []
    assert demo_run.snapshots[-1].bound_pods == _SIZE.pods
    account = f"system:serviceaccount:{NAMESPACE}:{_RELEASE}"
    assert log.count_by_user("bindings").keys() == {f"{account}-bind"}
    assert log.count_by_user("evictions").keys() == {f"{account}-evict"}
