"""Convert nodes, namespaces, priority classes, budgets and selectors to record values.

Each function takes an object as the API server writes it, and returns the plain values of its record.
"""

from typing import Any

from connectors.kubernetes.watch.metadata import (
    Json,
    drop_empty,
    get_metadata,
    parse_time_ms,
    select,
    select_node_annotations,
)
from schemas.base.message import RESOURCES_MAX


def convert_node(node: Json) -> Json:
    """Convert a node.

    Its conditions are left out, because heartbeats change them all the time; a node that is not
    ready has a taint.
    """
    meta, spec, status = get_metadata(node), node.get("spec") or {}, node.get("status") or {}
    return drop_empty(
        allocatable=_limit_resources(status.get("allocatable") or {}),
        capacity=_limit_resources(status.get("capacity") or {}),
        created_at_ms=parse_time_ms(meta.get("creationTimestamp")),
        labels=meta.get("labels"),
        annotations=select_node_annotations(meta),
        taints=[select(taint, "key", "value", "effect") for taint in spec.get("taints") or ()],
        unschedulable=spec.get("unschedulable"),
    )


def _limit_resources(allocatable: Json) -> Json:
    """Keep as many resources as a record can have: Kubernetes' own first, then those with an amount.

    Some device plugins use one resource name per device.
    """
    if len(allocatable) <= RESOURCES_MAX:
        return allocatable
    ranked = sorted(allocatable, key=lambda name: ("/" in name, allocatable[name] == "0", name))
    return {name: allocatable[name] for name in ranked[:RESOURCES_MAX]}


def convert_namespace(namespace: Json) -> Json:
    return select(get_metadata(namespace), "labels")


def convert_priority_class(priority_class: Json) -> Json:
    return select(priority_class, "value")


def convert_disruption_budget(budget: Json) -> Json:
    """Convert a budget with its status.

    An outdated status allows no disruption: the API server does not use it, either.
    """
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    is_outdated = status.get("observedGeneration", 0) < get_metadata(budget).get("generation", 0)
    values = select(
        status, "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"
    )
    if is_outdated:
        values.pop("disruptions_allowed", None)
    return {
        **values,
        **select(spec, "unhealthyPodEvictionPolicy"),
        **convert_pod_selector(spec.get("selector")),
    }


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
        select(term, "topologyKey", "namespaces")
        | drop_empty(all_namespaces=term.get("namespaceSelector") is not None)
        | convert_pod_selector(term.get("labelSelector"))
        for term in anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    ]


def convert_pod_selector(selector: Json | None) -> Json:
    """Convert a label selector; a missing one selects no pod, an empty one all pods."""
    if selector is None:
        return {}
    values = drop_empty(
        match_labels=selector.get("matchLabels"),
        match_expressions=_requirements(selector.get("matchExpressions")),
    )
    return {"selector": values}


def _requirements(terms: Any) -> list[Json]:
    return [select(term, "key", "operator", "values") for term in terms or ()]
