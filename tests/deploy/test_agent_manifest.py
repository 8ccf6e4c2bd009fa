"""The agent's DaemonSet, as far as it can be judged without a cluster that runs it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from loadstream.commands import app
from schemas.settings.connection import KafkaSettings

_FILE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "agent.yaml"
_SET: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
_POD: dict[str, Any] = _SET["spec"]["template"]["spec"]
_AGENT: dict[str, Any] = _POD["containers"][0]


def _options() -> dict[str, str]:
    pairs = [each.removeprefix("--").split("=", 1) for each in _AGENT["args"][1:]]
    return dict(pairs)


def test_the_command_has_the_options_that_it_is_given() -> None:
    command = get_command(app).commands[_AGENT["args"][0]]  # type: ignore[attr-defined]  # a group
    known = {text for each in command.params for text in each.opts}
    assert {f"--{name}" for name in _options()} <= known
    required = {each.opts[0] for each in command.params if each.required}
    assert required <= {f"--{name}" for name in _options()}


def test_it_may_do_nothing_at_the_api_server_and_little_on_the_node() -> None:
    assert _POD["automountServiceAccountToken"] is False
    assert _POD["securityContext"]["runAsNonRoot"] is True
    assert _AGENT["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert _AGENT["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"hostPID", "hostNetwork", "hostIPC"} & _POD.keys()


@pytest.mark.parametrize(
    ("option", "path"),
    [("proc", "/proc"), ("cgroup", "/sys/fs/cgroup"), ("pod-logs", "/var/log/pods")],
)
def test_it_reads_the_node_s_files_where_they_are_mounted(option: str, path: str) -> None:
    (mount,) = (each for each in _AGENT["volumeMounts"] if each["mountPath"] == _options()[option])
    (volume,) = (each for each in _POD["volumes"] if each["name"] == mount["name"])
    assert mount["readOnly"] is True
    assert volume["hostPath"]["path"] == path


def test_all_mounts_are_those_and_no_other_is_of_the_node() -> None:
    assert len(_AGENT["volumeMounts"]) == len(_POD["volumes"]) == 3


def test_where_its_namespace_comes_from_is_said() -> None:
    page = (_FILE.parents[2] / "docs" / "reference" / "agent.md").read_text(encoding="utf-8")
    assert f"kubectl create namespace {_SET['metadata']['namespace']}`" in " ".join(page.split())


def test_the_name_of_the_node_is_the_cluster_s() -> None:
    assert _options()["node"] == "$(NODE_NAME)"
    fields = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in _AGENT["env"]
        if "valueFrom" in each
    }
    assert fields == {"NODE_NAME": "spec.nodeName"}


def test_its_settings_are_settings() -> None:
    known = {f"LOADSTREAM_KAFKA_{field.upper()}" for field in KafkaSettings.model_fields}
    given = {each["name"] for each in _AGENT["env"]} - {"NODE_NAME"}
    assert given
    assert given <= known


def test_the_probe_asks_where_metrics_answer() -> None:
    assert _options()["metrics-port"] == str(_AGENT["ports"][0]["containerPort"])
    assert _SET["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == "9101"
    assert _AGENT["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}


def test_its_labels_select_it() -> None:
    labels = _SET["spec"]["template"]["metadata"]["labels"]
    assert _SET["spec"]["selector"]["matchLabels"].items() <= labels.items()
