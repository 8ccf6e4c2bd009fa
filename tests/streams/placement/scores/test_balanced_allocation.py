import math
from functools import reduce
from operator import add
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import Pod
from schemas.policy import read_policy
from schemas.policy.sections.resources_fit import NodeResourcesBalancedAllocationArgs
from streams.inventory.node import Node
from streams.placement.registry import build_scores
from streams.placement.scores.balanced_allocation import BalancedAllocationScore
from streams.placement.scores.least_allocated import ALWAYS_COUNTED
from streams.pods.kind import kind_of
from streams.usage.estimate import Estimator
from tests.streams.builders import amounts, at, offering_node, requesting_pod
from tests.streams.cluster.oracle import refresh_all, scores
from tests.streams.strategies import balanced_arguments, loading_pods, node_states


def arguments(*resources: str) -> NodeResourcesBalancedAllocationArgs:
    entries = [{"name": name} for name in resources]
    return NodeResourcesBalancedAllocationArgs.model_validate({"resources": entries})


_CPU = requesting_pod({"cpu": "1000"}, {"cpu": "2000"})
_MEMORY = requesting_pod({"memory": "2000"}, {"memory": "3000"})
_BOTH = requesting_pod(amounts("1000", "2000"), amounts("2000", "3000"))


def offer(cpu: str, memory: str, *held: Pod) -> Node:
    return offering_node(amounts(cpu, memory), *held)


@pytest.mark.parametrize(
    ("asks", "nodes", "expected"),
    [
        (_BOTH, [offer("4000", "10000"), offer("6000", "10000")], [68, 75]),
        (_BOTH, [offer("10000", "20000", _CPU), offer("10000", "20000", _BOTH)], [73, 74]),
        (_BOTH, [offer("10000", "20000", _CPU), offer("10000", "50000", _BOTH)], [73, 70]),
        (_MEMORY, [offer("3000", "5000", _CPU), offer("3000", "5000")], [100, 50]),
        (_CPU, [offer("6000", "10000", _CPU), offer("6000", "10000", _BOTH)], [62, 62]),
    ],
)
def test_scores_equal_the_test_cases_of_kube_scheduler(
    asks: Pod, nodes: list[Node], expected: list[int]
) -> None:
    """TestNodeResourcesBalancedAllocation, in its order, without resource claims."""
    assert scores(BalancedAllocationScore(arguments()), asks, *nodes) == expected


def test_the_policy_names_the_resources() -> None:
    offered = {**amounts("4000", "10000"), "ephemeral-storage": "10000"}
    asks = requesting_pod({**amounts("2000", "0"), "ephemeral-storage": "5000"})
    by = read_policy(
        "{plugins: {score: [NodeResourcesBalancedAllocation]}, balancedAllocation: "
        "{resources: [{name: cpu}, {name: ephemeral-storage}]}}"
    )
    assert scores(
        BalancedAllocationScore(by.balanced_allocation), asks, offering_node(offered)
    ) == [75]
    ((plugin, _),) = build_scores(by, Estimator(by.load_aware))
    refresh_all(plugin, [offering_node(offered)], at(0))
    assert plugin.score(plugin.prepare(kind_of(asks)), 0) == 75
    assert scores(BalancedAllocationScore(arguments()), asks, offering_node(offered)) == [62]


@given(
    balanced_arguments(),
    st.lists(st.tuples(node_states(), st.lists(loading_pods(), max_size=3)), max_size=5),
    loading_pods(),
)
def test_scores_are_those_of_upstreams_rules_one_by_one(
    by: NodeResourcesBalancedAllocationArgs, drawn: list[Any], asks: Pod
) -> None:
    nodes = [offering_node(dict(state.allocatable), *held) for state, held in drawn]
    assert scores(BalancedAllocationScore(by), asks, *nodes) == [
        _plain(by, asks, node) for node in nodes
    ]


def _plain(by: NodeResourcesBalancedAllocationArgs, asks: Pod, of: Node) -> int:
    requests_of_pod = kind_of(asks).demand.requests
    names = [resource.name for resource in by.resources]
    if not any(requests_of_pod.get(name, 0) for name in names):
        return 0
    counted = [
        name
        for name in names
        if of.allocatable.get(name, 0) > 0
        and (requests_of_pod.get(name, 0) or name in ALWAYS_COUNTED)
    ]
    held = [pod.kind.demand.requests for pod in of.held.values()]
    before = {name: sum(requests.get(name, 0) for requests in held) for name in counted}
    after = {name: amount + requests_of_pod.get(name, 0) for name, amount in before.items()}
    return 50 + (50 + _even(after, of) - _even(before, of)) // 2


def _even(requested: dict[str, int], of: Node) -> int:
    shares = [min(float(n) / float(of.allocatable[name]), 1.0) for name, n in requested.items()]
    if len(shares) < 2:
        return 100
    if len(shares) == 2:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * 100)
    # One after the other: `sum` of newer Pythons compensates for rounding, Go does not.
    mean = reduce(add, shares) / len(shares)
    squares = reduce(add, [(share - mean) * (share - mean) for share in shares])
    spread = math.sqrt(squares / len(shares))
    return int((1 - spread) * 100)
