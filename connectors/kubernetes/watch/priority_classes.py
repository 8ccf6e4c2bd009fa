"""PriorityClasses to the plain values of `PriorityClassState`."""

from connectors.kubernetes.watch.metadata import Json, given


def priority_class(found: Json) -> Json:
    """A priority class's value."""
    return given(value=found.get("value"))
