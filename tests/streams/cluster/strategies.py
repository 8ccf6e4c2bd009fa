"""Nodes and pods for property tests, from domains so small that requirements are often met.

A few names, labels, taints, ports and amounts; malformed expressions and odd allocatables among them,
because producers send those too. Everything is a valid message.
"""

from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.messages.nodes import NodeState, Taint
from schemas.messages.pods import (
    Container,
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    Pod,
    Toleration,
)

CLUSTER = "test"
NODE_NAMES = tuple(f"node-{i}" for i in range(6))
UIDS = tuple(f"uid-{i}" for i in range(12))

_LABEL_KEYS = st.sampled_from(("zone", "disk", "example.com/cores"))
_LABEL_VALUES = st.sampled_from(("a", "b", "4", "16", ""))
_TAINT_KEYS = ("dedicated", "node.kubernetes.io/unschedulable")
_TAINT_VALUES = st.sampled_from(("", "batch"))
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PLENTY = {
    "cpu": "32",
    "memory": "64Gi",
    "pods": "110",
    "ephemeral-storage": "100Gi",
    "nvidia.com/gpu": "8",
}

_Drawn = TypeVar("_Drawn")


def _often(usual: _Drawn, else_one_of: SearchStrategy[_Drawn]) -> SearchStrategy[_Drawn]:
    """The usual value two times in three: a pod with every requirement at once fits nowhere."""
    return st.one_of(st.just(usual), st.just(usual), else_one_of)


def node_names() -> SearchStrategy[str]:
    """One of a few node names."""
    return st.sampled_from(NODE_NAMES)


def labels() -> SearchStrategy[dict[str, str]]:
    """Labels of a node, few of them numbers."""
    return st.dictionaries(_LABEL_KEYS, _LABEL_VALUES, max_size=3)


def taints() -> SearchStrategy[tuple[Taint, ...]]:
    """Taints of a node, mostly none."""
    taint = st.builds(
        Taint,
        key=st.sampled_from(_TAINT_KEYS),
        value=_TAINT_VALUES,
        effect=st.sampled_from(_EFFECTS),
    )
    return _often((), st.lists(taint, max_size=2).map(tuple))


def tolerations() -> SearchStrategy[tuple[Toleration, ...]]:
    """Tolerations of a pod, mostly none; an empty key with Equal among them."""
    toleration = st.builds(
        Toleration,
        key=st.sampled_from(("", *_TAINT_KEYS)),
        operator=st.sampled_from(("Exists", "Equal", "")),
        value=_TAINT_VALUES,
        effect=st.sampled_from(("", *_EFFECTS)),
    )
    return _often((), st.lists(toleration, max_size=2).map(tuple))


def allocatables() -> SearchStrategy[dict[str, str]]:
    """What a node offers, mostly plenty; else any of it may be missing, also the pod count."""
    amounts = {
        "cpu": st.sampled_from(("0", "1500m", "4")),
        "memory": st.sampled_from(("1Gi", "3Gi", "8Gi")),
        "pods": st.sampled_from(("0", "1", "3", "110")),
        "ephemeral-storage": st.just("10Gi"),
        "nvidia.com/gpu": st.sampled_from(("0", "2")),
    }
    return st.one_of(
        st.just(_PLENTY),
        st.fixed_dictionaries(amounts),
        st.fixed_dictionaries({}, optional=amounts),
    )


def node_states(names: SearchStrategy[str] | None = None) -> SearchStrategy[NodeState]:
    """What Kubernetes says of a node that is there.

    Args:
        names: of the nodes; by default one of `NODE_NAMES`.
    """
    return st.builds(
        NodeState,
        cluster=st.just(CLUSTER),
        node=node_names() if names is None else names,
        event=st.sampled_from(("added", "changed")),
        allocatable=allocatables(),
        labels=labels(),
        annotations=st.just({}),
        taints=taints(),
        unschedulable=_often(False, st.booleans()),
    )


def requirements() -> SearchStrategy[NodeRequirement]:
    """Expressions on labels, one in a few of them malformed."""
    values = st.one_of(_LABEL_VALUES, st.sampled_from(("-1", "no label value", "3")))
    return st.builds(
        NodeRequirement,
        key=st.one_of(_LABEL_KEYS, st.just("no/label/key")),
        operator=st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
        values=st.lists(values, max_size=2).map(tuple),
    )


def field_requirements() -> SearchStrategy[NodeRequirement]:
    """Expressions on fields, one in a few of them malformed."""
    return st.builds(
        NodeRequirement,
        key=st.sampled_from(("metadata.name", "metadata.name", "metadata.namespace")),
        operator=st.sampled_from(("In", "NotIn", "Exists")),
        values=st.lists(node_names(), min_size=1, max_size=2).map(tuple),
    )


def selector_terms() -> SearchStrategy[NodeSelectorTerm]:
    """Terms of a required node affinity, empty ones among them."""
    return st.builds(
        NodeSelectorTerm,
        match_expressions=st.lists(requirements(), max_size=2).map(tuple),
        match_fields=_often((), st.lists(field_requirements(), max_size=1).map(tuple)),
    )


def host_ports() -> SearchStrategy[tuple[HostPort, ...]]:
    """Host ports of a container, half of the time none."""
    port = st.builds(
        HostPort,
        port=st.sampled_from((80, 8080)),
        protocol=st.sampled_from(("TCP", "UDP")),
        host_ip=st.sampled_from(("", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::")),  # noqa: S104
    )
    return st.one_of(st.just(()), st.lists(port, max_size=2).map(tuple))


def resource_lists() -> SearchStrategy[dict[str, str]]:
    """Requests or limits of a container."""
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(("0", "100m", "1", "2")),
            "memory": st.sampled_from(("128Mi", "1Gi", "2Gi")),
            "ephemeral-storage": st.sampled_from(("0", "6Gi")),
            "nvidia.com/gpu": st.sampled_from(("0", "1")),
        },
    )


def containers(*, init: bool = False) -> SearchStrategy[Container]:
    """A container, or an init container, which may be a sidecar."""
    return st.builds(
        Container,
        requests=resource_lists(),
        limits=resource_lists(),
        restart_policy=st.sampled_from((None, "Always")) if init else st.none(),
        host_ports=host_ports(),
    )


def pods(uids: SearchStrategy[str] | None = None) -> SearchStrategy[Pod]:
    """Pods that wait for a node; their name is their uid.

    Args:
        uids: of the pods; by default one of `UIDS`, so draws collide.
    """

    return st.builds(
        _waiting,
        uid=st.sampled_from(UIDS) if uids is None else uids,
        required_node=_often(None, node_names()),
        priority=st.sampled_from((None, 0, 5500, 9500)),
        containers=st.lists(containers(), min_size=1, max_size=2).map(tuple),
        init_containers=_often((), st.lists(containers(init=True), max_size=2).map(tuple)),
        overhead=_often({}, st.just({"cpu": "50m", "memory": "64Mi"})),
        node_selector=_often({}, st.dictionaries(_LABEL_KEYS, _LABEL_VALUES, max_size=2)),
        required_node_affinity=_often(None, st.lists(selector_terms(), max_size=2).map(tuple)),
        tolerations=tolerations(),
    )


def _waiting(uid: str, **fields: Any) -> Pod:
    return Pod(namespace="default", name=uid, uid=uid, **fields)
