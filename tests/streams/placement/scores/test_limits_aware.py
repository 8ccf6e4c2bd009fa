from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import Pod
from schemas.policy import NodeResourceLimitsAwareArgs, Policy
from schemas.policy.sections.plugins import EnabledPlugin, PluginChoice, ScorePlugin
from streams.inventory.node import Node
from streams.placement.scores.limits_aware import LimitsAwareScore
from streams.pods.kind import Kind, kind_of
from tests.streams.builders import container, inventory_node, node, pod
from tests.streams.cluster.oracle import scores
from tests.streams.strategies import limits_aware_arguments, loading_pods, node_states
from tests.streams.world import CoreWorld


def arguments(
    resources: Sequence[tuple[str, int]] = (("cpu", 1),), **default_limit: str
) -> NodeResourceLimitsAwareArgs:
    weighed = [{"name": name, "weight": weight} for name, weight in resources]
    return NodeResourceLimitsAwareArgs.model_validate(
        {"resources": weighed, "defaultLimit": default_limit}
    )


def limited(uid: str, cpu: str | None, **limits: str) -> Pod:
    amounts = limits if cpu is None else {"cpu": cpu, **limits}
    return pod(uid, containers=(container({}, amounts),))


def test_scores_are_those_of_the_example_in_kep_217() -> None:
    """Nodes of 8 CPUs with limits of 10 and 5; the pod's limit is 4."""
    plugins = PluginChoice(
        filter=(EnabledPlugin(name="NodeName"),), score=(ScorePlugin(name=LimitsAwareScore.name),)
    )
    world = CoreWorld(Policy(plugins=plugins, resource_limits=arguments()))
    for name, limit in (("node-1", "10"), ("node-2", "5")):
        world.send(node(name))
        world.hold(name, limited(f"on-{name}", limit))
    coming = limited("coming", "4")
    assert scores(LimitsAwareScore(arguments()), coming, *world.nodes) == [-75.0, -12.5]
    ranking = world.rank(coming)
    score_by_row = {row: terms[0].score for row, terms in ranking.list_scored(1, 1, ())}
    assert (ranking.find_best(), score_by_row) == (1, {0: 0, 1: 100})


@given(
    limits_aware_arguments(),
    st.lists(st.tuples(node_states(), st.lists(loading_pods(), max_size=3)), max_size=5),
    loading_pods().map(kind_of),
)
def test_raw_scores_are_those_of_exact_arithmetic(
    args: NodeResourceLimitsAwareArgs, drawn: list[Any], kind: Kind
) -> None:
    nodes = [inventory_node(state, *held) for state, held in drawn]
    raw = scores(LimitsAwareScore(args), kind.pod, *nodes)
    for score, host in zip(raw, nodes, strict=True):
        exact = _exact(args, host, kind)
        assert score == pytest.approx(float(exact), rel=1e-9, abs=1e-6)


def _exact(args: NodeResourceLimitsAwareArgs, of: Node, kind: Kind) -> Fraction:
    total = Fraction(0)
    weights = args.weights
    for resource, weight in weights.items():
        allocatable = of.allocatable.get(resource, 0)
        if allocatable <= 0:
            continue
        configured = args.default_limit_of(resource)
        demands = [held.kind.demand for held in of.held.values()] + [kind.demand]
        defaults = [
            demand.requests.get(resource, 0)
            if configured == "request"
            else allocatable
            if configured == "allocatable"
            else configured
            for demand in demands
        ]
        limits = sum(
            demand.limits.get(resource, 0) or default
            for demand, default in zip(demands, defaults, strict=True)
        )
        share = Fraction(weight, sum(weights.values()))
        total += share * Fraction((allocatable - limits) * 100, allocatable)
    return total
