"""Pods as Kubernetes writes them, and their records."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kubernetes.api.list_watch import Changed
from connectors.kubernetes.watch.pods import convert_pod as values
from connectors.kubernetes.watch.pods import list_claim_names, strip_pod
from connectors.kubernetes.watch.reporter import Reporter
from connectors.kubernetes.watch.volumes import Claims
from schemas.base.message import EPOCH_MS_MAX, EPOCH_MS_MIN
from schemas.base.refusals import Refusal
from schemas.messages.pods import (
    Container,
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodSelector,
    SelectorRequirement,
    Toleration,
    VolumeClaim,
)
from schemas.topics.codec import decode_as, encode
from streams.pods.kind import compute_demand
from tests.connectors.kubernetes.watch.documents import POD, Object, changed

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def build_pod(*changes: tuple[str, Any], claims: Claims | None = None) -> Pod:
    read = decode_as(Pod, orjson.dumps(values(changed(POD, *changes), claims or Claims())))
    assert isinstance(read, Pod), read
    return read


def test_every_field_of_a_pod_is_read() -> None:
    claims = Claims()
    _put(claims.claims, "data", {"storageClassName": "fast"}, "Pending")
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T10:00:01Z"},
        {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-20T10:00:02Z"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T10:00:03Z"},
    ]
    term = {
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}],
    }
    repelled = {
        "labelSelector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}],
        },
        "namespaceSelector": {},
        "topologyKey": "zone",
    }
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "cache", "emptyDir": {}},
    ]
    pod = build_pod(
        ("metadata/deletionTimestamp", "2026-11-20T11:00:00Z"),
        ("spec/nodeName", "node-1"),
        ("spec/volumes", volumes),
        ("spec/resourceClaims", [{"name": "gpu"}]),
        (
            "spec/affinity",
            {
                "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}},
                "podAntiAffinity": {REQUIRED: [repelled]},
            },
        ),
        ("status/conditions", conditions),
        ("status/phase", "Running"),
        claims=claims,
    )
    assert pod == Pod(
        namespace="shop",
        name="web-6d4cf56db6-x2x7z",
        uid="0b8f6f0a-3a3e-4a6b-9a55-6f2c3c1d7e01",
        node="node-1",
        scheduler="loadstream",
        priority=9500,
        phase="Running",
        qos_class="Burstable",
        labels={"app": "web", "pod-template-hash": "6d4cf56db6"},
        annotations={"scheduling.koordinator.sh/eviction-cost": "7"},
        owners=(
            OwnerReference(kind="ReplicaSet", name="web-6d4cf56db6", uid="b7c1", controller=True),
        ),
        containers=(
            Container(
                requests={"cpu": "500m", "memory": "512Mi"},
                limits={"cpu": "2", "memory": "1Gi"},
                host_ports=(HostPort(port=9100, protocol="TCP"),),
            ),
        ),
        init_containers=(
            Container(requests={"cpu": "50m"}, restart_policy="Always"),
            Container(requests={"cpu": "1"}),
        ),
        overhead={"cpu": "10m"},
        node_selector={"disk": "ssd"},
        required_node_affinity=(
            NodeSelectorTerm(
                match_expressions=(NodeRequirement(key="zone", operator="In", values=("a", "b")),),
                match_fields=(
                    NodeRequirement(key="metadata.name", operator="NotIn", values=("n",)),
                ),
            ),
        ),
        tolerations=(
            Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"),
        ),
        required_anti_affinity=(
            PodAffinityTerm(
                topology_key="zone",
                selector=PodSelector(
                    match_labels={"app": "web"},
                    match_expressions=(SelectorRequirement(key="tier", operator="Exists"),),
                ),
                all_namespaces=True,
            ),
        ),
        unsupported=("required pod anti-affinity", "resource claims", "unbound volume"),
        local_storage=True,
        volume_claims=(
            VolumeClaim(name="data", storage_class="fast"),
            VolumeClaim(name="web-6d4cf56db6-x2x7z-tmp"),
        ),
        resource_claims=True,
        created_at_ms=1_795_168_800_000,
        scheduled_at_ms=1_795_168_801_000,
        initialized_at_ms=1_795_168_802_000,
        deleting_at_ms=1_795_172_400_000,
        ready=True,
    )


def _affinity(kind: str, how: str) -> tuple[str, Any]:
    return ("spec/affinity", {kind: {how: [{"topologyKey": "zone"}]}})


def _mounts(claim: str) -> tuple[str, Any]:
    return ("spec/volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def _claims() -> Claims:
    claims = Claims()
    for name, volume in {"here": "everywhere", "zonal": "zonal", "old": "old", "lost": "?"}.items():
        _put(claims.claims, name, {"volumeName": volume}, "Bound")
    _put(claims.claims, "early", {"volumeName": "everywhere"}, "Pending")
    single = {"volumeName": "everywhere", "accessModes": ["ReadWriteOncePod"]}
    _put(claims.claims, "single", single, "Bound")
    _put(claims.volumes, "everywhere", {})
    _put(claims.volumes, "zonal", {"nodeAffinity": {"required": {"nodeSelectorTerms": [{}]}}})
    _put(claims.volumes, "old", {}, labels={"failure-domain.beta.kubernetes.io/zone": "a"})
    return claims


def _put(kept: Reporter, name: str, spec: Any, phase: str = "", labels: Any = None) -> None:
    namespace = {} if not phase else {"namespace": "shop"}
    document = {
        "metadata": {"name": name, "labels": labels, **namespace},
        "spec": spec,
        "status": {"phase": phase},
    }
    assert list(kept.report(Changed(document), None)) == []


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (_affinity("podAffinity", REQUIRED), ["required pod affinity"]),
        (_affinity("podAffinity", PREFERRED), []),
        (_affinity("podAntiAffinity", REQUIRED), ["required pod anti-affinity"]),
        (_affinity("podAntiAffinity", PREFERRED), []),
        (("spec/topologySpreadConstraints", [{"whenUnsatisfiable": "DoNotSchedule"}]), ["topology spread"]),
        (("spec/topologySpreadConstraints", [{"whenUnsatisfiable": "ScheduleAnyway"}]), []),
        (("spec/resourceClaims", [{"name": "gpu"}]), ["resource claims"]),
        (("spec/schedulingGroup", {"podGroupName": "g"}), ["pod group"]),
        (("spec/volumes", [{"name": "v", "awsElasticBlockStore": {"volumeID": "x"}}]), ["zonal volume"]),
        (("spec/volumes", [{"name": "v", "iscsi": {"iqn": "x"}}]), ["exclusive volume"]),
        (("spec/volumes", [{"name": "v", "configMap": {"name": "x"}}]), []),
        (_mounts("here"), []),
        (_mounts("zonal"), ["zonal volume"]),
        (_mounts("old"), ["zonal volume"]),
        (_mounts("lost"), ["volume of unknown place"]),
        (_mounts("early"), ["unbound volume"]),
        (_mounts("missing"), ["unbound volume"]),
        (_mounts("single"), ["exclusive volume"]),
    ],
)  # fmt: skip
def test_unsupported_requirements_are_named(change: Any, names: list[str]) -> None:
    assert list(build_pod(change, claims=_claims()).unsupported) == names


def test_pod_level_requests_replace_the_sum_of_containers() -> None:
    whole = {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}, "limits": {"cpu": "4"}}
    demand = compute_demand(build_pod(("spec/resources", whole)))
    assert demand.requests == {"cpu": 3_010, "memory": 512 * 2**20, "hugepages-2Mi": 4 * 2**20}
    assert demand.limits["cpu"] == 4_010


@pytest.mark.parametrize(
    ("conditions", "cpu"),
    [([], 4_000), ([{"type": "PodResizePending", "reason": "Infeasible"}], 3_500)],
)
def test_a_pod_resized_as_a_whole_counts_with_the_largest_of_its_amounts(
    conditions: list[Object], cpu: int
) -> None:
    pod = build_pod(
        ("spec/overhead", None),
        ("spec/resources", {"requests": {"cpu": "4"}, "limits": {"cpu": "1"}}),
        ("status/resources", {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}}),
        ("status/allocatedResources", {"cpu": "3500m", "memory": "9Gi"}),
        ("status/conditions", conditions),
    )
    demand = compute_demand(pod)
    assert demand.requests == {"cpu": cpu, "memory": 512 * 2**20}
    assert demand.limits["cpu"] == 2_000


@pytest.mark.parametrize(
    ("conditions", "cpu"), [([], 900), ([{"type": "PodResizePending", "reason": "Infeasible"}], 700)]
)  # fmt: skip
def test_a_resized_container_counts_with_the_largest_of_its_amounts(
    conditions: list[Object], cpu: int
) -> None:
    statuses = [
        {
            "name": "web",
            "resources": {"requests": {"cpu": "700m", "memory": "512Mi"}, "limits": {"cpu": "2"}},
            "allocatedResources": {"cpu": "0.6", "memory": "512Mi"},
        }
    ]
    pod = build_pod(
        ("spec/initContainers", None),
        ("spec/overhead", None),
        ("spec/containers", [{"name": "web", "resources": {"requests": {"cpu": "900m"}}}]),
        ("status/containerStatuses", statuses),
        ("status/conditions", conditions),
    )
    assert compute_demand(pod).requests == {"cpu": cpu, "memory": 512 * 2**20}


@pytest.mark.parametrize(
    ("written_time", "nearest_ms"),
    [("1970-01-01T00:00:09Z", EPOCH_MS_MIN), ("2218-05-01T00:00:00Z", EPOCH_MS_MAX)],
)
def test_a_time_out_of_range_is_replaced_by_the_nearest_valid_time(
    written_time: str, nearest_ms: int
) -> None:
    """For example of a node without a clock at boot, or of a very long grace period."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": written_time}
        for kind in ("PodScheduled", "Initialized")
    ]
    pod = build_pod(("status/conditions", conditions), ("metadata/deletionTimestamp", written_time))
    times = (pod.scheduled_at_ms, pod.initialized_at_ms, pod.deleting_at_ms)
    assert times == (nearest_ms, nearest_ms, nearest_ms)


def test_the_requests_of_a_pod_with_a_thousand_host_ports_are_counted() -> None:
    """Media servers list every port that they may use."""
    ports = [{"containerPort": number, "hostPort": number} for number in range(10_000, 11_000)]
    one = {"name": "calls", "resources": {"requests": {"cpu": "7"}}, "ports": ports}
    record = values(changed(POD, ("spec/containers", [one])), Claims())
    assert isinstance(decode_as(Pod, orjson.dumps(record)), Refusal)
    pod = decode_as(Pod, orjson.dumps(strip_pod(record)))
    assert isinstance(pod, Pod), pod
    assert compute_demand(pod).requests["cpu"] == 7_060
    assert len(compute_demand(pod).host_ports) == 256


def test_equal_pods_have_equal_digests_whatever_else_has_changed() -> None:
    one, other = (
        POD,
        changed(POD, ("metadata/resourceVersion", "9"), ("metadata/managedFields", [])),
    )
    assert orjson.dumps(values(one, Claims())) == orjson.dumps(values(other, Claims()))


_text = st.text(max_size=12)
_quantity = st.sampled_from(["1", "250m", "1.5Gi", "", "-1", "much", "1e3"])
_resources = st.fixed_dictionaries(
    {},
    optional={
        "requests": st.dictionaries(st.sampled_from(["cpu", "memory", "a b", ""]), _quantity),
        "limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), _quantity),
    },
)
_container = st.fixed_dictionaries(
    {"name": _text},
    optional={
        "resources": _resources,
        "restartPolicy": st.sampled_from(["Always", "Never"]),
        "ports": st.lists(st.fixed_dictionaries({"hostPort": st.integers(0, 70_000)}), max_size=2),
    },
)
_pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": _text, "namespace": _text, "uid": _text},
            optional={
                "labels": st.dictionaries(_text, _text, max_size=3),
                "annotations": st.dictionaries(
                    st.sampled_from(["scheduling.koordinator.sh/x", "of/others"]), _text
                ),
                "creationTimestamp": st.sampled_from(["2026-11-20T10:00:00Z", "1999-01-01T00:00:00Z", "?"]),
                "ownerReferences": st.lists(st.fixed_dictionaries({"kind": _text}), max_size=2),
            },
        )
    },
    optional={
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(_container, max_size=3)},
            optional={
                "initContainers": st.lists(_container, max_size=2),
                "nodeName": _text,
                "priority": st.integers(-(2**33), 2**33),
                "resources": _resources,
                "tolerations": st.lists(
                    st.fixed_dictionaries(
                        {}, optional={"key": _text, "operator": st.sampled_from(["Exists", "Lt"])}
                    ),
                    max_size=2,
                ),
            },
        ),
        "status": st.fixed_dictionaries(
            {}, optional={"phase": st.sampled_from(["Running", "Pending", "Odd"])}
        ),
    },
)  # fmt: skip


@given(_pods)
def test_every_created_record_can_be_decoded(document: Object) -> None:
    read = decode_as(Pod, orjson.dumps(values(document, Claims())))
    if isinstance(read, Refusal):
        assert read.reason
        small = decode_as(Pod, orjson.dumps(strip_pod(values(document, Claims()))))
        assert isinstance(small, Refusal) or not small.labels
    else:
        assert Pod.model_validate_json(encode(read)) == read
        assert list_claim_names(document) == []
