"""Namespaces to the plain values of `NamespaceState`."""

from connectors.kubernetes.watch.metadata import Json, given, metadata


def namespace(found: Json) -> Json:
    """A namespace's labels."""
    return given(labels=metadata(found).get("labels"))
