"""Selectors of nodes and pods, and anti-affinity, as Kubernetes writes them, to plain values."""

from typing import Any

from connectors.kubernetes.watch.metadata import Json, given


def node_selector_terms(selector: Json) -> list[Json]:
    """Terms of a node selector."""
    return [
        given(
            match_expressions=_requirements(term.get("matchExpressions")),
            match_fields=_requirements(term.get("matchFields")),
        )
        for term in selector.get("nodeSelectorTerms") or ()
    ]


def anti_affinity_terms(affinity: Json) -> list[Json]:
    """Required terms of a pod's anti-affinity; pods of every namespace where labels select some."""
    found = affinity.get("podAntiAffinity") or {}
    return [
        given(
            topology_key=term.get("topologyKey"),
            namespaces=term.get("namespaces"),
            all_namespaces=term.get("namespaceSelector") is not None,
        )
        | pod_selector(term.get("labelSelector"))
        for term in found.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    ]


def pod_selector(found: Json | None) -> Json:
    """A label selector of pods as `selector`: none selects no pod, an empty one all."""
    if found is None:
        return {}
    selector = given(
        match_labels=found.get("matchLabels"),
        match_expressions=_requirements(found.get("matchExpressions")),
    )
    return {"selector": selector}


def _requirements(found: Any) -> list[Json]:
    return [
        given(key=each.get("key"), operator=each.get("operator"), values=each.get("values"))
        for each in found or ()
    ]
