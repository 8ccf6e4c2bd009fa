"""The manifests of a cluster: what they name is there, and a real API server takes them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sources.known import known_settings
from connectors.kubernetes.sources.settings import read_sources
from loadstream.commands import app
from schemas.settings.connection import KafkaSettings
from simulation.control_plane import cluster
from simulation.control_plane.server import ControlPlane
from simulation.control_plane.users import DUTIES

_ROOT = Path(__file__).parents[2]
_DEPLOY = _ROOT / "deploy" / "kubernetes"
_NAMESPACE = "loadstream"
#: Forced: the roles are bound to users of the fixture already.
_APPLY = {"fieldManager": "test", "dryRun": "All", "fieldValidation": "Strict", "force": "true"}
#: Where objects of a kind are, by API version and kind.
_PATHS = {
    "v1 Namespace": "/api/v1/namespaces",
    "v1 ConfigMap": f"/api/v1/namespaces/{_NAMESPACE}/configmaps",
    "v1 ServiceAccount": f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts",
    "apps/v1 Deployment": f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments",
    "apps/v1 DaemonSet": f"/apis/apps/v1/namespaces/{_NAMESPACE}/daemonsets",
    "rbac.authorization.k8s.io/v1 ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    ),
}


def _documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((_DEPLOY / name).read_text(encoding="utf-8")))


def _named(kind: str) -> dict[str, dict[str, Any]]:
    """Objects of a kind in connectors.yaml, by name."""
    found = _documents("connectors.yaml")
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


_DEPLOYMENTS = _named("Deployment")


def _pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = _DEPLOYMENTS[name]["spec"]["template"]["spec"]
    return found


async def _apply(server: ApiServer, document: dict[str, Any]) -> tuple[int, bytes]:
    path = _PATHS[f"{document['apiVersion']} {document['kind']}"]
    answer = await server.send(
        "PATCH", f"{path}/{document['metadata']['name']}", query=_APPLY, body=document,
        content_type="application/apply-patch+yaml",
    )  # fmt: skip
    return answer.status, answer.body


@pytest.mark.control_plane
async def test_a_real_api_server_takes_every_document(control_plane: ControlPlane) -> None:
    async with control_plane.api() as server:
        await cluster.create_namespace(server, _NAMESPACE)
        try:
            for name in ("rights.yaml", "connectors.yaml", "agent.yaml"):
                for document in _documents(name):
                    status, body = await _apply(server, document)
                    assert status in (200, 201), (name, document["metadata"]["name"], body)
            mistyped = {**_DEPLOYMENTS["loadstream-bind"], "specs": {}}
            status, body = await _apply(server, mistyped)
            assert status >= 400
            assert b"specs" in body
        finally:
            await cluster.delete_namespace(server, _NAMESPACE)


def test_the_rights_that_users_apply_are_those_that_are_tested() -> None:
    tested = (_ROOT / "connectors" / "kubernetes" / "rights.yaml").read_text(encoding="utf-8")
    assert (_DEPLOY / "rights.yaml").read_text(encoding="utf-8") == tested


def test_each_duty_has_its_account_its_role_and_its_processes() -> None:
    roles = {each["metadata"]["name"] for each in _documents("rights.yaml")}
    assert set(DUTIES) == set(_DEPLOYMENTS) == set(_named("ServiceAccount"))
    for name, binding in _named("ClusterRoleBinding").items():
        assert name in roles
        assert binding["roleRef"]["name"] == name
        account = {"kind": "ServiceAccount", "name": name, "namespace": _NAMESPACE}
        assert binding["subjects"] == [account]
        assert _pod(name)["serviceAccountName"] == name
    assert set(_named("ClusterRoleBinding")) == set(DUTIES)


@pytest.mark.parametrize("name", sorted(_DEPLOYMENTS))
def test_the_command_has_the_options_that_it_is_given(name: str) -> None:
    (container,) = _pod(name)["containers"]
    group, duty, *options = container["args"]
    assert (group, f"loadstream-{duty}", container["name"]) == ("kubernetes", name, duty)
    command = get_command(app).commands[group].commands[duty]  # type: ignore[attr-defined]  # a group
    known = {text for each in command.params for text in each.opts}
    given = {each.split("=")[0] for each in options}
    assert given <= known
    assert "--cluster" in given


@pytest.mark.parametrize("name", sorted(_DEPLOYMENTS))
def test_one_process_is_active_and_one_stands_by(name: str) -> None:
    deployment, pod = _DEPLOYMENTS[name], _pod(name)
    assert deployment["spec"]["replicas"] == 2
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    assert labels["loadstream/duty"] == name.removeprefix("loadstream-")
    assert pod["schedulerName"] == "default-scheduler"


@pytest.mark.parametrize("name", sorted(_DEPLOYMENTS))
def test_it_is_probed_where_it_answers_and_may_do_nothing_on_its_node(name: str) -> None:
    pod = _pod(name)
    (container,) = pod["containers"]
    (port,) = container["ports"]
    assert f"--metrics-port={port['containerPort']}" in container["args"]
    probe = {"path": "/healthz", "port": port["name"]}
    assert container["livenessProbe"]["httpGet"] == probe
    annotations = _DEPLOYMENTS[name]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    assert pod["securityContext"]["runAsNonRoot"] is True
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["readOnlyRootFilesystem"] is True
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()
    assert {"requests", "limits"} == container["resources"].keys()


def test_settings_are_settings_and_sources_are_sources() -> None:
    maps = _named("ConfigMap")
    known = {f"LOADSTREAM_KAFKA_{field.upper()}" for field in KafkaSettings.model_fields}
    assert maps["loadstream-kafka"]["data"].keys() <= known
    text = maps["loadstream-sources"]["data"]["sources.yaml"]
    assert read_sources(text, known_settings(), "sources.yaml")
    pod = _pod("loadstream-collect")
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert f"--sources={mount['mountPath']}/sources.yaml" in pod["containers"][0]["args"]
    assert [each["configMap"]["name"] for each in pod["volumes"]] == ["loadstream-sources"]
    for name in _DEPLOYMENTS:
        (given,) = _pod(name)["containers"][0]["envFrom"]
        assert given["configMapRef"]["name"] in maps
