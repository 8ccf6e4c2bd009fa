"""Node selectors as Kubernetes writes them, to the plain values of `NodeSelectorTerm`."""

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


def _requirements(found: Any) -> list[Json]:
    return [
        given(key=each.get("key"), operator=each.get("operator"), values=each.get("values"))
        for each in found or ()
    ]
