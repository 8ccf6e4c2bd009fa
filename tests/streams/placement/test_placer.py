from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from schemas.policy import Policy, read_policy
from streams.inventory import node_index
from streams.inventory.inventory import Inventory
from streams.placement import placer
from streams.placement.placer import Placer
from streams.pods.held import HeldPod
from streams.pods.kind import Kind, kind_of
from tests.streams.builders import GI, at, container, metric, node, pod, removed_node
from tests.streams.cluster.oracle import check, verdict
from tests.streams.strategies import (
    UIDS,
    annotated_nodes,
    loading_pods,
    metrics,
    node_names,
    policies,
)

#: A node goes; a pod is held on a node; a pod leaves; it is later; the policy is another one.
Event = NodeState | NodeMetric | tuple[Pod, str] | str | int | Policy


class Cluster:
    """An inventory and the policy that it goes by."""

    def __init__(self, by: Policy | None = None) -> None:
        self.policy = by or Policy()
        self.inventory = Inventory(self.policy)
        self.placer = Placer(self.inventory)
        self.inventory.advance(at(0))

    def apply(self, event: Event) -> None:
        inventory = self.inventory
        match event:
            case NodeState():
                inventory.apply_node(event)
            case NodeMetric():
                inventory.apply_metric(event)
            case (Pod() as held, str() as name):
                if inventory.find_held(held.uid) is None:
                    taken = HeldPod(held, kind_of(held), assigned_at_ms=inventory.now_ms)
                    inventory.hold(name, taken, first_seen=True)
            case str():
                inventory.release(event)
            case int():
                inventory.advance(inventory.now_ms + event * 1000)
            case Policy():
                self.policy = event
                inventory.set_policy(event)

    def check(self, kind: Kind) -> None:
        check(self.placer.rank(kind), verdict(self.policy, self.inventory, kind))

    def follow(
        self, nodes: list[NodeState], history: list[tuple[Event, bool]], kinds: list[Kind]
    ) -> None:
        """Apply events; check the rankings after some of them and at the end."""
        for event, ask in [*((state, False) for state in nodes), *history, (0, True)]:
            self.apply(event)
            for kind in kinds if ask else ():
                self.check(kind)


def events() -> SearchStrategy[Event]:
    return st.one_of(
        annotated_nodes(),
        node_names().map(removed_node),
        metrics(),
        metrics(),
        st.tuples(loading_pods(), node_names()),
        st.tuples(loading_pods(), node_names()),
        st.sampled_from(UIDS),
        st.sampled_from((1, 50, 170)),
        policies(),
    )


def histories() -> SearchStrategy[list[tuple[Event, bool]]]:
    """Events, and after which of them rankings are asked: those not asked fall behind."""
    return st.lists(st.tuples(events(), st.booleans()), min_size=8, max_size=25)


nodes_first = st.lists(annotated_nodes(), min_size=3, max_size=6)
kinds = st.lists(loading_pods().map(kind_of), min_size=1, max_size=3)


@given(policies(), nodes_first, histories(), kinds)
@settings(max_examples=100)
def test_an_updated_ranking_equals_a_new_one(
    by: Policy, nodes: list[NodeState], history: list[tuple[Event, bool]], asked: list[Kind]
) -> None:
    Cluster(by).follow(nodes, history, asked)


_NAMES = st.sampled_from("abcde")
_SIZES = st.sampled_from(("500m", "1", "2", "4"))
_SMALL_PODS = st.builds(
    lambda uid, request, limit: pod(uid, containers=(container({"cpu": request}, {"cpu": limit}),)),
    st.sampled_from(UIDS),
    _SIZES,
    _SIZES,
)


def ordinary_events() -> SearchStrategy[Event]:
    """What goes on all day: usage moves, pods come and go, now and then a node changes."""
    usage = st.builds(
        lambda name, cpu, memory: metric(name, cpu=cpu, memory=memory * GI),
        _NAMES,
        st.integers(0, 24_000),
        st.integers(0, 60),
    )
    change = st.builds(
        lambda name, cpu, cordoned: node(name, cpu=cpu, memory="64Gi", unschedulable=cordoned),
        _NAMES,
        st.sampled_from(("16", "32")),
        st.booleans(),
    )
    held = st.tuples(_SMALL_PODS, _NAMES)
    return st.one_of(usage, usage, held, held, st.sampled_from(UIDS), change)


@given(
    st.sampled_from((1, 3)),
    st.lists(st.integers(0, 20_000), min_size=5, max_size=5),
    st.lists(ordinary_events(), min_size=5, max_size=30),
)
@settings(max_examples=100)
def test_every_small_change_of_an_ordinary_cluster_is_followed(
    weight: int, usage: list[int], history: list[Event]
) -> None:
    by = read_policy(f"plugins: {{score: [{{name: LoadAwareScheduling, weight: {weight}}}, NodeResourceLimitsAware]}}")  # fmt: skip
    cluster = Cluster(by)
    for name, cpu in zip("abcde", usage, strict=True):
        cluster.apply(node(name, cpu="32", memory="64Gi"))
        cluster.apply(metric(name, cpu=cpu))
    asked = [kind_of(pod(cpu="1")), kind_of(pod(cpu="6"))]
    for event in history:
        cluster.apply(event)
        for kind in asked:
            cluster.check(kind)


@pytest.mark.parametrize(
    ("module", "limit", "amount"), [(placer, "KINDS_MAX", 1), (node_index, "LOG_ROWS_MAX", 3)]
)
@given(nodes_first, histories(), kinds)
@settings(max_examples=30)
def test_small_memories_change_no_answer(
    module: ModuleType,
    limit: str,
    amount: int,
    nodes: list[NodeState],
    history: list[tuple[Event, bool]],
    asked: list[Kind],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, limit, amount)
        Cluster().follow(nodes, history, asked)
