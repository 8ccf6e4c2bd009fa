"""Nodes, pods and kinds that plugins are asked about, and histories of them.

Unlike a `pod` of a cluster, a `bare_pod` asks for nothing but what a test names.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import NodeRequirement, Pod, Toleration
from schemas.policy import LoadAwareSchedulingArgs
from streams.inventory.node import Node
from streams.pods.held import HeldPod
from streams.pods.kind import Kind, kind_of
from streams.usage.estimate import Estimator
from tests.streams.cluster.builders import CLUSTER, at, container, pod
from tests.streams.cluster.strategies import UIDS, node_names, node_states, pods

_ESTIMATOR = Estimator(LoadAwareSchedulingArgs())


# --- pods ---------------------------------------------------------------------------------------


def bare_pod(uid: str = "p", **fields: Any) -> Pod:
    """A pod that asks for nothing, but for these fields; its name is its uid."""
    return Pod(**{"namespace": "default", "name": uid, "uid": uid, **fields})


def bare_kind(**fields: Any) -> Kind:
    """The kind of such a pod."""
    return kind_of(bare_pod(**fields))


def tolerating(*tolerations: Toleration) -> Kind:
    """A kind that asks for nothing and tolerates this."""
    return bare_kind(tolerations=tolerations)


def expression(key: str, operator: str, *values: str) -> NodeRequirement:
    """What a pod requires of a label or field."""
    return NodeRequirement.model_validate({"key": key, "operator": operator, "values": values})


def of(cpu: str, memory: str, **others: str) -> dict[str, str]:
    """Amounts by resource."""
    return {"cpu": cpu, "memory": memory, **others}


def asking(*requests: dict[str, str]) -> Pod:
    """A pod with a container for each of these requests, without limits."""
    return pod("asking", containers=tuple(container(each, {}) for each in requests))


# --- nodes --------------------------------------------------------------------------------------


def node_state(name: str, **fields: Any) -> NodeState:
    """A node that is there, of which nothing is known but these fields."""
    return NodeState(**{"cluster": CLUSTER, "node": name, "event": "added", **fields})


def new_node(state: NodeState, *held: Pod) -> Node:
    """A node as Kubernetes describes it, with pods that take room on it."""
    node = Node(state.node, _ESTIMATOR)
    node.describe(state)
    hold(node, *held)
    return node


def offering(allocatable: dict[str, str], *held: Pod) -> Node:
    """A node with these amounts; what it holds may be several times the same pod."""
    others = (each.model_copy(update={"uid": f"held-{number}"}) for number, each in enumerate(held))
    return new_node(node_state("n", allocatable=allocatable), *others)


def hold(node: Node, *pods: Pod, at_ms: int = 0) -> None:
    """Let pods take room on a node."""
    for each in pods:
        node.hold(HeldPod(pod=each, kind=kind_of(each), assigned_at_ms=at_ms), at_ms)


def loaded_node(
    name: str,
    state: NodeState,
    estimator: Estimator,
    held: Iterable[Pod] = (),
    said: NodeMetric | None = None,
) -> Node:
    """A node whose load is estimated and measured; its pods were assigned at second 0."""
    node = Node(name, estimator)
    node.describe(state)
    hold(node, *held, at_ms=at(0))
    if said is not None and not said.removed:
        node.set_metric(said)
    return node


# --- histories ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Removed:
    """A node goes, with the pods on it."""

    node: str


@dataclass(frozen=True)
class Placed:
    """A pod takes room on a node, if that is there."""

    pod: Pod
    node: str


@dataclass(frozen=True)
class Gone:
    """A pod leaves the node that holds it, if any does."""

    uid: str


Event = NodeState | Removed | Placed | Gone


def histories() -> SearchStrategy[list[Event]]:
    """Nodes that appear, then a few events, mostly pods that take room."""
    event: SearchStrategy[Event] = st.one_of(
        node_states(),
        st.builds(Placed, pods(), node_names()),
        st.builds(Placed, pods(), node_names()),
        st.builds(Removed, node_names()),
        st.builds(Gone, st.sampled_from(UIDS)),
    )
    appear: SearchStrategy[list[Event]] = st.lists(node_states(), min_size=1, max_size=5)
    return st.tuples(appear, st.lists(event, max_size=10)).map(lambda parts: parts[0] + parts[1])


def wanted() -> SearchStrategy[list[Kind]]:
    """Kinds that a filter is asked about."""
    return st.lists(pods().map(kind_of), min_size=1, max_size=3)
