"""Convert nodes, namespaces, priority classes, budgets, volumes and selectors to record values.

Each function takes an object as the API server writes it, and returns the plain values of its record.
"""

from typing import Any

from connectors.kubernetes.watch.metadata import (
    Json,
    drop_empty,
    get_metadata,
    parse_time_ms,
    select_node_annotations,
)
from schemas.base.message import RESOURCES_MAX


def convert_node(found: Json) -> Json:
    """Convert a node.

    Its conditions are left out, because heartbeats change them all the time; a node that is not
    ready has a taint.
    """
    meta, spec, status = get_metadata(found), found.get("spec") or {}, found.get("status") or {}
    return drop_empty(
        allocatable=_limit_resources(status.get("allocatable") or {}),
        capacity=_limit_resources(status.get("capacity") or {}),
        created_at_ms=parse_time_ms(meta.get("creationTimestamp")),
        labels=meta.get("labels"),
        annotations=select_node_annotations(meta),
        taints=[
            drop_empty(key=taint.get("key"), value=taint.get("value"), effect=taint.get("effect"))
            for taint in spec.get("taints") or ()
        ],
        unschedulable=spec.get("unschedulable"),
    )


def _limit_resources(allocatable: Json) -> Json:
    """Keep as many resources as a record can have: first those of Kubernetes, then those with an
    amount. Some device plugins use one resource name per device."""
    if len(allocatable) <= RESOURCES_MAX:
        return allocatable
    ranked = sorted(allocatable, key=lambda name: ("/" in name, allocatable[name] == "0", name))
    return {name: allocatable[name] for name in ranked[:RESOURCES_MAX]}


def convert_namespace(found: Json) -> Json:
    return drop_empty(labels=get_metadata(found).get("labels"))


def convert_priority_class(found: Json) -> Json:
    return drop_empty(value=found.get("value"))


def convert_disruption_budget(found: Json) -> Json:
    """Convert a budget with its status.

    An outdated status allows no disruption: the API server does not use it, either.
    """
    spec, status = found.get("spec") or {}, found.get("status") or {}
    is_outdated = status.get("observedGeneration", 0) < get_metadata(found).get("generation", 0)
    return {
        **drop_empty(
            disruptions_allowed=0 if is_outdated else status.get("disruptionsAllowed"),
            current_healthy=status.get("currentHealthy"),
            desired_healthy=status.get("desiredHealthy"),
            expected_pods=status.get("expectedPods"),
            unhealthy_pod_eviction_policy=spec.get("unhealthyPodEvictionPolicy"),
        ),
        **convert_pod_selector(spec.get("selector")),
    }


#: Labels with the location of a volume; the last two are the old names.
ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def convert_volume(found: Json) -> Json:
    spec, labels = found.get("spec") or {}, get_metadata(found).get("labels") or {}
    claim = spec.get("claimRef") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    values = drop_empty(
        phase=(found.get("status") or {}).get("phase"),
        storage_class=spec.get("storageClassName"),
        access_modes=spec.get("accessModes"),
        capacity=spec.get("capacity"),
        claim_namespace=claim.get("namespace"),
        claim_name=claim.get("name"),
        zone_labels={key: labels[key] for key in ZONE_LABELS if key in labels},
    )
    if required is not None:
        values["required_node_affinity"] = convert_node_selector(required)
    return values


def convert_volume_claim(found: Json) -> Json:
    spec = found.get("spec") or {}
    return drop_empty(
        phase=(found.get("status") or {}).get("phase"),
        storage_class=spec.get("storageClassName"),
        access_modes=spec.get("accessModes"),
        requests=(spec.get("resources") or {}).get("requests"),
        volume_name=spec.get("volumeName"),
    )


def convert_node_selector(selector: Json) -> list[Json]:
    return [
        drop_empty(
            match_expressions=_requirements(term.get("matchExpressions")),
            match_fields=_requirements(term.get("matchFields")),
        )
        for term in selector.get("nodeSelectorTerms") or ()
    ]


def convert_anti_affinity(affinity: Json) -> list[Json]:
    """Convert the required terms; a namespace selector counts as all namespaces."""
    anti_affinity = affinity.get("podAntiAffinity") or {}
    return [
        drop_empty(
            topology_key=term.get("topologyKey"),
            namespaces=term.get("namespaces"),
            all_namespaces=term.get("namespaceSelector") is not None,
        )
        | convert_pod_selector(term.get("labelSelector"))
        for term in anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    ]


def convert_pod_selector(found: Json | None) -> Json:
    """Convert a label selector; a missing one selects no pod, an empty one all pods."""
    if found is None:
        return {}
    selector = drop_empty(
        match_labels=found.get("matchLabels"),
        match_expressions=_requirements(found.get("matchExpressions")),
    )
    return {"selector": selector}


def _requirements(found: Any) -> list[Json]:
    return [
        drop_empty(key=term.get("key"), operator=term.get("operator"), values=term.get("values"))
        for term in found or ()
    ]
