"""Nodes to the plain values of `NodeState`.

A node's heartbeat changes its conditions several times a minute; nothing of that is carried. That a
node is not ready reaches decisions as the taint that Kubernetes gives it.
"""

from connectors.kubernetes.watch.metadata import Json, given, metadata, node_annotations, time_ms
from schemas.base.message import RESOURCES_MAX


def node_state(found: Json) -> Json:
    """The node as decisions see it."""
    meta, spec, status = metadata(found), found.get("spec") or {}, found.get("status") or {}
    return given(
        allocatable=_first(status.get("allocatable") or {}),
        capacity=_first(status.get("capacity") or {}),
        created_at_ms=time_ms(meta.get("creationTimestamp")),
        labels=meta.get("labels"),
        annotations=node_annotations(meta),
        taints=[
            given(key=each.get("key"), value=each.get("value"), effect=each.get("effect"))
            for each in spec.get("taints") or ()
        ],
        unschedulable=spec.get("unschedulable"),
    )


def _first(allocatable: Json) -> Json:
    """As many resources as a record takes: Kubernetes' own, then those of which there are any.

    Device plugins may give each device a name; without this the whole node would be left out.
    """
    if len(allocatable) <= RESOURCES_MAX:
        return allocatable
    ranked = sorted(allocatable, key=lambda name: ("/" in name, allocatable[name] == "0", name))
    return {name: allocatable[name] for name in ranked[:RESOURCES_MAX]}
