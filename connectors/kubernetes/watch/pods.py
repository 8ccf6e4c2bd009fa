"""Convert pods to the values of `Pod`, and find their requirements that loadstream does not support.

A pod with such a requirement is refused with its name. Preferences are not requirements.

    required pod affinity, required pod anti-affinity
    topology spread      a constraint with DoNotSchedule
    resource claims      devices of dynamic resource allocation
    pod group            gang scheduling
    unbound volume       a claim that does not exist, or has no volume yet
    zonal volume         a volume that is not reachable from every node
    volume of unknown place   a claim whose volume is unknown, for example without permission to read volumes
    exclusive volume     a volume for one pod or node only, such as ReadWriteOncePod
"""

from collections.abc import Sequence
from typing import Any

from connectors.kubernetes.watch.containers import convert_containers
from connectors.kubernetes.watch.conversions import convert_anti_affinity, convert_node_selector
from connectors.kubernetes.watch.metadata import (
    Json,
    drop_empty,
    parse_time_ms,
    select,
    select_pod_annotations,
)
from connectors.kubernetes.watch.volumes import Claims
from schemas.messages.pods import HOST_PORTS_MAX

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: Types of inline volumes in one zone.
_ZONAL = ("awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "vsphereVolume")
#: Types of inline volumes that only one node can mount for writing.
_EXCLUSIVE = ("iscsi", "rbd")
#: Supported operators of tolerations; a toleration with another operator has no effect.
_OPERATORS = (None, "", "Exists", "Equal")
#: Fields that count on the pod's node.
_NODE_FIELDS = (
    "namespace", "name", "uid", "node", "nominated_node", "scheduler", "priority", "phase",
    "qos_class", "owners", "containers", "init_containers", "overhead", "created_at_ms",
    "scheduled_at_ms", "initialized_at_ms", "deleting_at_ms", "ready",
)  # fmt: skip


def convert_pod(pod: Json, claims: Claims) -> Json:
    """Convert a pod.

    Args:
        pod: the pod as JSON of the API server.
        claims: the volumes of its claims.
    """
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    regular, init = convert_containers(spec, status)
    namespace, mounted = meta["namespace"], list_claim_names(pod)
    values = drop_empty(
        namespace=namespace,
        name=meta["name"],
        uid=meta["uid"],
        node=spec.get("nodeName"),
        nominated_node=None if spec.get("nodeName") else status.get("nominatedNodeName"),
        scheduler=spec.get("schedulerName"),
        failure=status.get("reason") if status.get("phase") == "Failed" else None,
        labels=meta.get("labels"),
        annotations=select_pod_annotations(meta),
        owners=_convert_owners(meta),
        containers=regular,
        init_containers=init,
        tolerations=_convert_tolerations(spec),
        unsupported=find_unsupported(spec, namespace, mounted, claims),
        local_storage=_has_local_storage(spec),
        volume_claims=[
            drop_empty(name=name, storage_class=claims.find_storage_class(namespace, name))
            for name in mounted
        ],
        resource_claims=bool(spec.get("resourceClaims")),
        created_at_ms=parse_time_ms(meta.get("creationTimestamp")),
        deleting_at_ms=parse_time_ms(meta.get("deletionTimestamp")),
        **select(spec, "priority", "overhead", "nodeSelector"),
        **select(status, "phase", "qosClass"),
        **_read_conditions(status),
    )
    if affinity := spec.get("affinity"):
        values |= drop_empty(required_anti_affinity=convert_anti_affinity(affinity))
        if (required := (affinity.get("nodeAffinity") or {}).get(_REQUIRED)) is not None:
            values["required_node_affinity"] = convert_node_selector(required)
    return values


def list_claim_names(pod: Json) -> list[str]:
    """Return the names of the pod's volume claims, each once, in order."""
    names: dict[str, None] = {}
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names[volume["persistentVolumeClaim"]["claimName"]] = None
        elif "ephemeral" in volume:  # its claim has this name
            names[f"{pod['metadata']['name']}-{volume['name']}"] = None
    return list(names)


def strip_pod(values: Json) -> Json:
    """Return only the fields that count on the pod's node, for a pod that does not fit into a record.

    Such a pod counts on its node and is not moved; if it waits, it is refused with the given requirement.
    Excess host ports are dropped.
    """
    kept: Json = {name: values[name] for name in _NODE_FIELDS if name in values}
    for name in ("containers", "init_containers"):
        if name in kept:
            kept[name] = [_limit_ports(container) for container in kept[name]]
    return {**kept, "unsupported": ["more than its record can hold"]}


def _limit_ports(container: Json) -> Json:
    ports = container.get("host_ports", ())
    return {**container, "host_ports": ports[:HOST_PORTS_MAX]} if ports else container


def _convert_owners(meta: Json) -> list[Json]:
    owners = meta.get("ownerReferences") or ()
    return [select(owner, "kind", "name", "uid", "controller") for owner in owners]


def _convert_tolerations(spec: Json) -> list[Json]:
    return [
        select(toleration, "key", "operator", "value", "effect")
        for toleration in spec.get("tolerations") or ()
        if toleration.get("operator") in _OPERATORS
    ]


def _has_local_storage(spec: Json) -> bool:
    return any("emptyDir" in volume or "hostPath" in volume for volume in spec.get("volumes") or ())


def _read_conditions(status: Json) -> dict[str, Any]:
    """Return the fields that come from true conditions."""
    fields: dict[str, Any] = {}
    for condition in status.get("conditions") or ():
        if condition.get("status") != "True":
            continue
        kind = condition.get("type")
        if kind == "Ready":
            fields["ready"] = True
        elif kind == "PodScheduled":
            fields["scheduled_at_ms"] = parse_time_ms(condition.get("lastTransitionTime"))
        elif kind == "Initialized":
            fields["initialized_at_ms"] = parse_time_ms(condition.get("lastTransitionTime"))
    return fields


# --- unsupported requirements -------------------------------------------------------------------


def find_unsupported(
    spec: Json, namespace: str, mounted: Sequence[str], claims: Claims
) -> list[str]:
    """Return the names of unsupported requirements, each once; `mounted` are names of claims."""
    names: list[str] = []
    if affinity := spec.get("affinity"):
        if (affinity.get("podAffinity") or {}).get(_REQUIRED):
            names.append("required pod affinity")
        if (affinity.get("podAntiAffinity") or {}).get(_REQUIRED):
            names.append("required pod anti-affinity")
    if any(
        constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        for constraint in spec.get("topologySpreadConstraints") or ()
    ):
        names.append("topology spread")
    if spec.get("resourceClaims"):
        names.append("resource claims")
    if spec.get("workloadRef") or spec.get("schedulingGroup"):
        names.append("pod group")
    volumes = spec.get("volumes") or ()
    by_claim = [claims.find_requirement(namespace, name) for name in mounted]
    inside = [name for name in map(_check_inline_volume, volumes) if name]
    return [*names, *sorted({name for name in (*by_claim, *inside) if name})]


def _check_inline_volume(volume: dict[str, Any]) -> str | None:
    if any(kind in volume for kind in _ZONAL):
        return "zonal volume"
    return "exclusive volume" if any(kind in volume for kind in _EXCLUSIVE) else None
