"""The chart with each file of values: references exist, and processes have only what they need."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from connectors.kubernetes.sources.registry import list_settings_classes
from connectors.kubernetes.sources.settings import read_sources
from connectors.process.logs import LogSettings
from loadstream.commands import app
from schemas.policy import read_policy
from schemas.settings.connection import KafkaSettings
from streams.placement.registry import KNOWN
from streams.worker.settings import WorkerSettings
from tests.deploy.helm.chart import CHART, VALUES, HelmFailed, find, pods, render, run

_FLEET, _PRODUCTION, _TRIAL = VALUES
_each_values = pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
_DUTIES = ("watch", "collect", "bind", "evict")


def _containers(values: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield containers that run loadstream, each with its pod."""
    for _, pod in pods(render(values)):
        (container,) = pod["spec"]["containers"]
        if container["name"] != "kafka":
            yield container, pod


def _environment(container: dict[str, Any]) -> dict[str, Any]:
    return {env["name"]: env.get("value", env.get("valueFrom")) for env in container["env"]}


@_each_values
def test_helm_finds_no_fault(values: Path) -> None:
    assert "0 chart(s) failed" in run("lint", "--strict", str(CHART), "--values", str(values))


@_each_values
def test_each_command_and_its_options_exist(values: Path) -> None:
    for container, _ in _containers(values):
        command, words = get_command(app), list(container["args"])
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {t for param in command.params for t in (*param.opts, *param.secondary_opts)}
        given_options = {word.split("=")[0] for word in words if word.startswith("--")}
        assert given_options <= options
        required = {e.opts[0] for e in command.params if e.required and e.opts[0].startswith("-")}
        assert required <= given_options


@_each_values
def test_each_variable_is_a_setting(values: Path) -> None:
    settings = {
        f"{group.model_config.get('env_prefix')}{field.upper()}"
        for group in (KafkaSettings, WorkerSettings, LogSettings)
        for field in group.model_fields
    }
    for container, _ in _containers(values):
        assert _environment(container).keys() - {"NODE_NAME"} <= settings


@_each_values
def test_a_process_has_no_privileges_on_its_node(values: Path) -> None:
    for container, pod in _containers(values):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert not {"hostPID", "hostNetwork", "hostIPC"} & spec.keys()
        mounts = {mount["name"]: mount for mount in container.get("volumeMounts", [])}
        assert mounts.keys() == {volume["name"] for volume in spec.get("volumes") or []}
        for volume in spec.get("volumes") or []:
            assert "hostPath" not in volume or container["name"] == "agent"
            assert "emptyDir" in volume or mounts[volume["name"]]["readOnly"] is True
        assert {"requests", "limits"} == container["resources"].keys()


@_each_values
def test_only_processes_that_use_the_api_server_of_their_cluster_have_a_token(values: Path) -> None:
    accounts = {e["metadata"]["name"] for e in render(values) if e["kind"] == "ServiceAccount"}
    used = set()
    for container, pod in _containers(values):
        if "serviceAccountName" in pod["spec"]:
            assert container["name"] in _DUTIES
            assert "--cluster=blue" in container["args"]
            used.add(pod["spec"]["serviceAccountName"])
        else:
            assert pod["spec"]["automountServiceAccountToken"] is False
    assert used == accounts


@_each_values
def test_probes_use_the_port_of_the_process(values: Path) -> None:
    for container, pod in _containers(values):
        if "ports" not in container:
            assert pod["spec"]["restartPolicy"] == "OnFailure", "only a Job answers nobody"
            continue
        (port,) = container["ports"]
        ports = [f"--metrics-port={port['containerPort']}" in container["args"]]
        ports.append(
            _environment(container).get("LOADSTREAM_WORKER_METRICS_PORT")
            == str(port["containerPort"])
        )
        assert any(ports)
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": port["name"]}
        annotations = pod["metadata"].get("annotations", {})
        monitored = any(e["kind"] == "PodMonitor" for e in render(values))
        scraped = None if monitored else str(port["containerPort"])
        assert annotations.get("prometheus.io/port") == scraped


def test_standbys_are_on_other_nodes_and_have_a_disruption_budget() -> None:
    objects = render(_PRODUCTION)
    for duty in _DUTIES:
        deployment = find(objects, "Deployment", f"loadstream-{duty}-blue")
        assert deployment["spec"]["replicas"] == 2
        pod = deployment["spec"]["template"]
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert pod["spec"]["terminationGracePeriodSeconds"] > 75
        (spread,) = pod["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == pod["metadata"]["labels"]
        budget = find(objects, "PodDisruptionBudget", f"loadstream-{duty}-blue")
        assert budget["spec"]["maxUnavailable"] == 1


def test_a_cluster_has_the_configured_processes() -> None:
    names = {name for name, _ in pods(render(_FLEET))}
    assert names == {
        "loadstream-worker",
        *(f"loadstream-{duty}-blue" for duty in _DUTIES),
        "loadstream-watch-green", "loadstream-collect-green", "loadstream-evict-green",
        "loadstream-watch-red",
        *(name for name in names if name.startswith("loadstream-policy-blue-")),
    }  # fmt: skip


def test_nothing_is_bound_or_evicted_by_default() -> None:
    names = {container["name"] for container, _ in _containers(_TRIAL)}
    assert names == {"topics", "worker", "watch", "collect"}
    rights = {e["metadata"]["name"] for e in render(_TRIAL) if e["kind"] == "ClusterRole"}
    assert rights == {"loadstream-watch", "loadstream-collect"}


def test_another_cluster_is_reached_by_its_kubeconfig() -> None:
    spec = find(render(_FLEET), "Deployment", "loadstream-evict-green")["spec"]["template"]["spec"]
    assert "--kubeconfig=/etc/loadstream/kubeconfig/kubeconfig" in spec["containers"][0]["args"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = {e["mountPath"]: volumes[e["name"]] for e in spec["containers"][0]["volumeMounts"]}
    assert mounts["/etc/loadstream/kubeconfig"]["secret"] == {"secretName": "green"}
    assert "emptyDir" in mounts["/tmp"], "certificates inside of a kubeconfig are written to files"  # noqa: S108


def test_an_evictor_of_some_namespaces_cordons_no_nodes() -> None:
    for values, cordons in ((_PRODUCTION, False), (_FLEET, True)):
        deployment = find(render(values), "Deployment", "loadstream-evict-blue")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert ("--no-cordon" not in container["args"]) is cordons


def test_the_rights_of_another_cluster_can_be_rendered_for_it() -> None:
    """As in docs/how-to/install.md."""
    other = "clusters.blue.kubeconfigSecret=blue,clusters.green.kubeconfigSecret="
    accounts = {
        item["metadata"]["name"]
        for item in render(_FLEET, "--set", other, "--show-only", "templates/rights.yaml")
        if item["kind"] == "ServiceAccount"
    }
    assert accounts == {"loadstream-watch", "loadstream-collect", "loadstream-evict"}


def test_each_process_has_its_kafka_identity_and_passwords_are_files() -> None:
    identities = {}
    for container, pod in _containers(_PRODUCTION):
        environment = _environment(container)
        assert environment["LOADSTREAM_KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
        assert "LOADSTREAM_KAFKA_SASL_PASSWORD" not in environment
        (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "kafka")
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "kafka")
        sources = [source["secret"] for source in volume["projected"]["sources"]]
        files = {f"{mount['mountPath']}/{i['path']}" for source in sources for i in source["items"]}
        assert {value for name, value in environment.items() if name.endswith("_FILE")} == files
        assert sources[0]["name"] == "kafka-ca"
        user = environment["LOADSTREAM_KAFKA_SASL_USERNAME"]["secretKeyRef"]
        assert user == {"name": sources[1]["name"], "key": "username"}
        identities[container["name"]] = sources[1]["name"]
    assert identities.pop("worker") == "loadstream-kafka-worker"
    assert set(identities.values()) == {"loadstream-kafka"}
    assert identities.keys() == {"topics", "policies", *_DUTIES, "agent"}


def test_a_changed_policy_changes_only_its_job_and_its_config_map() -> None:
    before = render(_PRODUCTION)
    after = render(_PRODUCTION, "--set", "clusters.blue.policy=mode: observe")
    changed = [item for item in after if item not in before]
    assert sorted(item["kind"] for item in changed) == ["ConfigMap", "Job"]
    (config, job) = sorted(changed, key=lambda item: str(item["kind"]))
    assert read_policy(config["data"]["policy.yaml"], KNOWN).mode == "observe"
    assert job["metadata"]["name"] not in {item["metadata"]["name"] for item in before}
    spec = job["spec"]["template"]["spec"]
    group, verb, cluster, file, *options = spec["containers"][0]["args"]
    assert (group, verb, cluster) == ("policy", "apply", "blue")
    assert options[options.index("--by") + 1] == "Helm release loadstream/loadstream"
    (mount,) = (e for e in spec["containers"][0]["volumeMounts"] if e["name"] == "policy")
    assert file == f"{mount['mountPath']}/policy.yaml"
    assert {"name": "policy", "configMap": {"name": config["metadata"]["name"]}} in spec["volumes"]


def test_links_of_alerts_use_the_url_of_the_values() -> None:
    groups = find(render(_PRODUCTION), "PrometheusRule", "loadstream")["spec"]["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert alerts
    for alert in alerts:
        link = f"https://git.example/loadstream/docs/how-to/alerts.md#{alert['alert'].lower()}"
        assert alert["annotations"]["runbook_url"] == link


def test_sources_are_valid_and_read_from_their_mount() -> None:
    objects = render(_PRODUCTION)
    text = find(objects, "ConfigMap", "loadstream-sources-blue")["data"]["sources.yaml"]
    assert read_sources(text, list_settings_classes(), "sources.yaml")
    spec = find(objects, "Deployment", "loadstream-collect-blue")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "sources")
    assert f"--sources={mount['mountPath']}/sources.yaml" in container["args"]


def test_the_agent_reads_the_files_of_the_node_from_their_mounts() -> None:
    spec = find(render(_PRODUCTION), "DaemonSet", "loadstream-agent")["spec"]["template"]["spec"]
    (agent,) = spec["containers"]
    options = dict(argument.removeprefix("--").split("=", 1) for argument in agent["args"][1:])
    assert options["node"] == "$(NODE_NAME)"
    assert _environment(agent)["NODE_NAME"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    mounted = {mount["mountPath"]: mount["name"] for mount in agent["volumeMounts"]}
    paths = {
        mount["name"]: mount["hostPath"]["path"] for mount in spec["volumes"] if "hostPath" in mount
    }
    read = {name: paths[mounted[options[name]]] for name in ("proc", "cgroup", "pod-logs")}
    assert read == {"proc": "/proc", "cgroup": "/sys/fs/cgroup", "pod-logs": "/var/log/pods"}


def test_network_policies_allow_metrics_in_and_only_needed_connections_out() -> None:
    policies = {
        item["metadata"]["name"]: item["spec"]
        for item in render(_PRODUCTION)
        if item["kind"] == "NetworkPolicy"
    }
    everything = policies["loadstream"]
    (entry,) = everything["ingress"]
    assert entry["ports"] == [{"port": "metrics"}]
    assert "monitoring" in str(entry["from"])

    def list_ports(name: str) -> set[int]:
        (rule,) = policies[name]["egress"]
        return {port["port"] for port in rule["ports"]}

    assert list_ports("loadstream") == {53, 5353, 9094, 9095}
    assert list_ports("loadstream-clusters") == {443, 6443}
    assert list_ports("loadstream-sources") == {10250}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "kafka.trial.enabled=false"), "kafka.bootstrapServers is required"),
        (("--set", "clusters.green.bind=true"), "clusters blue, green have no kubeconfigSecret"),
        (("--set", "clusters.blue.bnd=true"), "bnd"),
        (("--set", "clusters.Blue.bind=true"), "Blue"),
        (("--set", "kafka.sasl.mechanism=PLAIN"), "kafka.secret is required"),
        (
            ("--set", "clusters.green.agent=true,clusters.green.kubeconfigSecret=green"),
            "clusters.green.agent",
        ),
    ],
)
def test_invalid_values_are_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(HelmFailed, match=re.escape(message)):
        render(_TRIAL, *arguments)
