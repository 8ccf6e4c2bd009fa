from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from schemas.policy import Policy, read_policy
from streams.inventory import node_index
from streams.placement import placer
from streams.pods.kind import Kind, kind_of
from tests.streams.builders import GI, container, lifecycle, metric, node, pod, removed_node
from tests.streams.cluster.oracle import check, verdict
from tests.streams.strategies import (
    UIDS,
    annotated_nodes,
    gone_pods,
    held_pods,
    loading_pods,
    metrics,
    node_names,
    policies,
)
from tests.streams.world import CoreWorld

#: A message, seconds that pass, or another policy.
Event = NodeState | NodeMetric | PodLifecycle | int | Policy


def apply(world: CoreWorld, event: Event) -> None:
    if isinstance(event, int):
        world.later(event)
    else:
        world.send(event)


def check_rankings(world: CoreWorld, kinds: list[Kind]) -> None:
    for kind in kinds:
        check(world.placer.rank(kind), verdict(world.policy, world.inventory, kind))


def follow(
    world: CoreWorld, nodes: list[NodeState], history: list[tuple[Event, bool]], kinds: list[Kind]
) -> None:
    """Apply events; check the rankings after some of them and at the end."""
    world.send(*nodes)
    for event, ask in [*history, (0, True)]:
        apply(world, event)
        check_rankings(world, kinds if ask else [])


def events() -> SearchStrategy[Event]:
    return st.one_of(
        annotated_nodes(),
        node_names().map(removed_node),
        metrics(),
        metrics(),
        held_pods(loading_pods()),
        held_pods(loading_pods()),
        gone_pods(),
        st.sampled_from((1, 50, 170)),
        policies(),
    )


def histories() -> SearchStrategy[list[tuple[Event, bool]]]:
    """Events, each with a flag whether rankings are computed after it."""
    return st.lists(st.tuples(events(), st.booleans()), min_size=8, max_size=25)


nodes_first = st.lists(annotated_nodes(), min_size=3, max_size=6)
kinds = st.lists(loading_pods().map(kind_of), min_size=1, max_size=3)


@given(policies(), nodes_first, histories(), kinds)
@settings(max_examples=100)
def test_an_updated_ranking_equals_a_new_one(
    by: Policy, nodes: list[NodeState], history: list[tuple[Event, bool]], wanted_kinds: list[Kind]
) -> None:
    follow(CoreWorld(by), nodes, history, wanted_kinds)


_NAMES = st.sampled_from("abcde")
_SIZES = st.sampled_from(("500m", "1", "2", "4"))
_SMALL_PODS = st.builds(
    lambda uid, request, limit: pod(uid, containers=(container({"cpu": request}, {"cpu": limit}),)),
    st.sampled_from(UIDS),
    _SIZES,
    _SIZES,
)


def ordinary_events() -> SearchStrategy[Event]:
    """Frequent events: usage changes, pods come and go, and sometimes a node changes."""
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
    held = st.builds(lifecycle, st.just("seen"), _SMALL_PODS, _NAMES)
    return st.one_of(usage, usage, held, held, gone_pods(), change)


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
    world = CoreWorld(by)
    for name, cpu in zip("abcde", usage, strict=True):
        world.send(node(name, cpu="32", memory="64Gi"), metric(name, cpu=cpu))
    wanted_kinds = [kind_of(pod(cpu="1")), kind_of(pod(cpu="6"))]
    for event in history:
        apply(world, event)
        check_rankings(world, wanted_kinds)


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
    wanted_kinds: list[Kind],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, limit, amount)
        follow(CoreWorld(), nodes, history, wanted_kinds)
