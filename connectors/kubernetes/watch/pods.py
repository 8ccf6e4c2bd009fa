"""Pods to the plain values of `Pod`."""

from typing import Any

from connectors.kubernetes.watch.affinity import anti_affinity_terms, node_selector_terms
from connectors.kubernetes.watch.claims import Claims
from connectors.kubernetes.watch.containers import containers
from connectors.kubernetes.watch.metadata import Json, given, pod_annotations, time_ms
from connectors.kubernetes.watch.requirements import unsupported
from schemas.messages.pods import HOST_PORTS_MAX

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: Operators of tolerations that decisions know; a toleration with another one tolerates nothing.
_OPERATORS = (None, "", "Exists", "Equal")
#: What a node must know of a pod that it has.
_KEPT = (
    *(
        "namespace",
        "name",
        "uid",
        "node",
        "nominated_node",
        "scheduler",
        "priority",
        "phase",
        "qos_class",
        "owners",
    ),
    *("containers", "init_containers", "overhead"),
    *("created_at_ms", "scheduled_at_ms", "initialized_at_ms", "deleting_at_ms", "ready"),
)


def pod(found: Json, claims: Claims) -> Json:
    """A pod as decisions see it.

    Args:
        found: the pod as the API server writes it.
        claims: what its volume claims are bound to.
    """
    meta, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    plain, first = containers(spec, status)
    namespace, mounted = meta["namespace"], claim_names(found)
    values = given(
        namespace=namespace,
        name=meta["name"],
        uid=meta["uid"],
        node=spec.get("nodeName"),
        nominated_node=None if spec.get("nodeName") else status.get("nominatedNodeName"),
        scheduler=spec.get("schedulerName"),
        priority=spec.get("priority"),
        phase=status.get("phase"),
        failure=status.get("reason") if status.get("phase") == "Failed" else None,
        qos_class=status.get("qosClass"),
        labels=meta.get("labels"),
        annotations=pod_annotations(meta),
        owners=_owners(meta),
        containers=plain,
        init_containers=first,
        overhead=spec.get("overhead"),
        node_selector=spec.get("nodeSelector"),
        tolerations=_tolerations(spec),
        unsupported=unsupported(spec, namespace, mounted, claims),
        local_storage=_has_local_storage(spec),
        volume_claims=[
            given(name=name, storage_class=claims.storage_class(namespace, name))
            for name in mounted
        ],
        resource_claims=bool(spec.get("resourceClaims")),
        created_at_ms=time_ms(meta.get("creationTimestamp")),
        deleting_at_ms=time_ms(meta.get("deletionTimestamp")),
        **_conditions(status),
    )
    if affinity := spec.get("affinity"):
        values |= given(required_anti_affinity=anti_affinity_terms(affinity))
        if (required := (affinity.get("nodeAffinity") or {}).get(_REQUIRED)) is not None:
            values["required_node_affinity"] = node_selector_terms(required)
    return values


def claim_names(found: Json) -> list[str]:
    """Names of the volume claims that a pod mounts; each once, in their order."""
    names: dict[str, None] = {}
    for volume in (found.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names[volume["persistentVolumeClaim"]["claimName"]] = None
        elif "ephemeral" in volume:  # its claim is made from a template, under this name
            names[f"{found['metadata']['name']}-{volume['name']}"] = None
    return list(names)


def bare(values: Json) -> Json:
    """What a node must know of a pod that it has, without what a new place for it would depend on.

    A pod whose record is refused is carried like this: its room is counted, nobody moves it, and one
    that waits is refused by that requirement, where its user reads it. Of a container that takes more
    ports of the node than a record has room for, the first are kept.
    """
    kept: Json = {name: values[name] for name in _KEPT if name in values}
    for name in ("containers", "init_containers"):
        if name in kept:
            kept[name] = [_with_fewer_ports(each) for each in kept[name]]
    return {**kept, "unsupported": ["more than a record of a pod takes"]}


def _with_fewer_ports(container: Json) -> Json:
    ports = container.get("host_ports", ())
    return {**container, "host_ports": ports[:HOST_PORTS_MAX]} if ports else container


def _owners(meta: Json) -> list[Json]:
    return [
        given(
            kind=each.get("kind"),
            name=each.get("name"),
            uid=each.get("uid"),
            controller=each.get("controller"),
        )
        for each in meta.get("ownerReferences") or ()
    ]


def _tolerations(spec: Json) -> list[Json]:
    return [
        given(
            key=each.get("key"),
            operator=each.get("operator"),
            value=each.get("value"),
            effect=each.get("effect"),
        )
        for each in spec.get("tolerations") or ()
        if each.get("operator") in _OPERATORS
    ]


def _has_local_storage(spec: Json) -> bool:
    return any("emptyDir" in each or "hostPath" in each for each in spec.get("volumes") or ())


def _conditions(status: Json) -> dict[str, Any]:
    """Fields that come from conditions that are true."""
    made: dict[str, Any] = {}
    for each in status.get("conditions") or ():
        if each.get("status") != "True":
            continue
        kind = each.get("type")
        if kind == "Ready":
            made["ready"] = True
        elif kind == "PodScheduled":
            made["scheduled_at_ms"] = time_ms(each.get("lastTransitionTime"))
        elif kind == "Initialized":
            made["initialized_at_ms"] = time_ms(each.get("lastTransitionTime"))
    return made
