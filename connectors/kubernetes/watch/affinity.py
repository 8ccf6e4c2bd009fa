"""Convert selectors of nodes and pods, and anti-affinity, to record values."""

from typing import Any

from connectors.kubernetes.watch.metadata import Json, drop_empty


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
