"""Nodes and pods of kube-scheduler's own tests are in memory of a few bytes; so are these."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import Pod
from schemas.policy.sections.resources_fit import ScoringStrategy
from streams.inventory.node import Node
from streams.placement.scores.least_allocated import ALWAYS_COUNTED, LeastAllocatedScore
from streams.pods.kind import kind_of
from tests.streams.builders import amounts, offering_node, pod, requesting_pod
from tests.streams.cluster.oracle import scores
from tests.streams.strategies import loading_pods, node_states, scoring_strategies


def strategy(*resources: tuple[str, int], type_: str = "LeastAllocated") -> ScoringStrategy:
    weighed = [{"name": name, "weight": weight} for name, weight in resources]
    return ScoringStrategy.model_validate({"type": type_, "resources": weighed})


_THREE = requesting_pod(amounts("1000", "2000"), amounts("2000", "3000"))
_CPU = requesting_pod(amounts("3000", "0"))
_BOTH = requesting_pod(amounts("3000", "5000"))
_NONE = pod("asking", containers=())


def offer(cpu: str, memory: str, *held: Pod) -> Node:
    return offering_node(amounts(cpu, memory), *held)


@pytest.mark.parametrize(
    ("asks", "nodes", "expected"),
    [
        (_NONE, [offer("4000", "10000"), offer("4000", "10000")], [100, 100]),
        (_THREE, [offer("4000", "10000"), offer("6000", "10000")], [37, 50]),
        (
            _NONE,
            [offer("10000", "20000", _CPU, _CPU), offer("10000", "20000", _CPU, _BOTH)],
            [70, 57],
        ),
        (_THREE, [offer("10000", "20000", _CPU), offer("10000", "20000", _BOTH)], [57, 45]),
        (_THREE, [offer("10000", "20000", _CPU), offer("10000", "50000", _BOTH)], [57, 60]),
        (_CPU, [offer("4000", "10000", _CPU), offer("4000", "10000", _BOTH)], [50, 25]),
        (_NONE, [offering_node({}, _CPU), offering_node({}, _BOTH)], [0, 0]),
    ],
)
def test_scores_equal_the_test_cases_of_kube_scheduler(
    asks: Pod, nodes: list[Node], expected: list[int]
) -> None:
    """TestLeastAllocatedScoringStrategy, in its order."""
    assert scores(LeastAllocatedScore(ScoringStrategy()), asks, *nodes) == expected


@given(
    st.integers(1, 2**42 + 2),
    st.integers(0, 100),
    st.integers(-2, 2),
    st.integers(0, 2**42),
)
def test_a_percentage_that_is_almost_whole_is_not_taken_for_whole(
    capacity: int, percent: int, beside: int, amount: int
) -> None:
    free = max(capacity * percent // 100 + beside, 0)
    held = requesting_pod({"memory": str(max(capacity - free - amount, 0))})
    asks = requesting_pod({"memory": str(amount)})
    whole = offering_node({"memory": str(capacity)}, held)
    remaining = capacity - int(held.containers[0].requests["memory"]) - amount
    expected = max(remaining, 0) * 100 // capacity
    assert scores(LeastAllocatedScore(strategy(("memory", 1))), asks, whole) == [expected]


@given(
    scoring_strategies(),
    st.lists(st.tuples(node_states(), st.lists(loading_pods(), max_size=3)), max_size=5),
    loading_pods(),
)
def test_scores_are_those_of_upstreams_rules_in_whole_numbers(
    by: ScoringStrategy, drawn: list[Any], asks: Pod
) -> None:
    nodes = [offering_node(dict(state.allocatable), *held) for state, held in drawn]
    assert scores(LeastAllocatedScore(by), asks, *nodes) == [
        _plain(by, asks, node) for node in nodes
    ]


def _plain(by: ScoringStrategy, asks: Pod, of: Node) -> int:
    total = weights = 0
    for resource, weight in by.weights.items():
        demands = [kind_of(asks).demand, *(held.kind.demand for held in of.held.values())]
        amount, *others = [
            demand.requests.get(resource, 0) + demand.assumed.get(resource, 0) for demand in demands
        ]
        capacity = of.allocatable.get(resource, 0)
        if capacity <= 0 or not (amount or resource in ALWAYS_COUNTED):
            continue
        weights += weight
        requested = amount + sum(others)
        if requested <= capacity:
            total += (capacity - requested) * 100 // capacity * weight
    return total // weights if weights else 0
