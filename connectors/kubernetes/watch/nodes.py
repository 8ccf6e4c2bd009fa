"""Nodes to the plain values of `NodeState`.

A node's heartbeat changes its conditions several times a minute; nothing of that is carried. That a
node is not ready reaches decisions as the taint that Kubernetes gives it.
"""

from connectors.kubernetes.watch.metadata import Json, given, metadata, node_annotations


def node_state(found: Json) -> Json:
    """The node as decisions see it."""
    meta, spec, status = metadata(found), found.get("spec") or {}, found.get("status") or {}
    return given(
        allocatable=status.get("allocatable"),
        labels=meta.get("labels"),
        annotations=node_annotations(meta),
        taints=[
            given(key=each.get("key"), value=each.get("value"), effect=each.get("effect"))
            for each in spec.get("taints") or ()
        ],
        unschedulable=spec.get("unschedulable"),
    )
