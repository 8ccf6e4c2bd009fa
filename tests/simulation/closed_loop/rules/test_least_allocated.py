from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import Policy
from simulation.closed_loop.rules.least_allocated import (
    score_balanced_allocation,
    score_least_allocated,
)
from streams.placement.plugin import Score
from streams.placement.registry import SCORES
from streams.pods.kind import kind_of
from streams.usage.estimate import Estimator
from tests.simulation.closed_loop.rules.views import request, view
from tests.streams.builders import at, hold, inventory_node, node, pod
from tests.streams.cluster.oracle import refresh_all

_AMOUNTS = st.tuples(st.integers(1, 40_000), st.integers(1, 2**37))
_NODES = st.lists(st.tuples(_AMOUNTS, st.lists(_AMOUNTS, max_size=3)), min_size=1, max_size=5)


@given(_NODES, _AMOUNTS)
def test_the_rules_give_the_same_integers_as_the_plugins_of_the_stages(
    drawn: list[tuple[tuple[int, int], list[tuple[int, int]]]], pair: tuple[int, int]
) -> None:
    nodes = []
    for number, ((cpu, memory), held) in enumerate(drawn):
        nodes.append(inventory_node(node(f"node-{number}", cpu=f"{cpu}m", memory=str(memory))))
        for index, (of_cpu, of_memory) in enumerate(held):
            uid = f"{number}-{index}"
            hold(nodes[-1], pod(uid, cpu=f"{of_cpu}m", memory=str(of_memory)))
    sums = [(sum(cpu for cpu, _ in held), sum(memory for _, memory in held)) for _, held in drawn]
    seen = view(*(size for size, _ in drawn), requested=sums)
    kind = kind_of(pod("asked", cpu=f"{pair[0]}m", memory=str(pair[1])))
    policy = Policy()
    for name, rule in (
        ("NodeResourcesFit", score_least_allocated),
        ("NodeResourcesBalancedAllocation", score_balanced_allocation),
    ):
        plugin: Score = SCORES[name](policy, Estimator(policy.load_aware))
        refresh_all(plugin, nodes, at(0))
        assert plugin.scores(plugin.prepare(kind)).tolist() == rule(request(*pair), seen).tolist()
