import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import Policy
from simulation.closed_loop.rules.least_allocated import (
    balanced_allocation,
    choose,
    least_allocated,
)
from streams.placement.plugin import Score
from streams.placement.registry import SCORES
from streams.pods.kind import kind_of
from streams.usage.estimate import Estimator
from tests.simulation.closed_loop.rules.views import request, view
from tests.streams.cluster.builders import at, node, pod
from tests.streams.cluster.oracle import refresh_all
from tests.streams.placement.builders import hold, new_node


def test_least_allocated_is_the_mean_of_what_is_left_truncated_twice() -> None:
    """Upstream's "nothing scheduled, resources requested, differently sized nodes"."""
    nodes = view((4000, 10_000), (6000, 10_000), (0, 10_000), (0, 0))
    assert least_allocated(request(3000, 5000), nodes).tolist() == [37, 50, 50, 0]


def test_what_goes_beyond_allocatable_leaves_nothing() -> None:
    nodes = view((1000, 1000), requested=[(900, 100)])
    assert least_allocated(request(200, 200), nodes).tolist() == [35]


def test_a_pod_without_requests_counts_with_defaults() -> None:
    size = 400.0 * 1024 * 1024
    assert least_allocated(request(0, 0), view((1000, size))).tolist() == [(90 + 50) // 2]


def test_balanced_allocation_is_about_what_the_pod_changes() -> None:
    nodes = view(
        (1000, 1000), (1000, 1000), (1000, 1000), (0, 1000),
        requested=[(200, 600), (600, 200), (0, 0), (0, 0)],
    )  # fmt: skip
    # From 40 points apart to none, to 80, from none to 40; one resource alone is always even.
    assert balanced_allocation(request(400, 0), nodes).tolist() == [85, 65, 65, 75]
    assert balanced_allocation(request(0, 0), nodes).tolist() == [0, 0, 0, 0]


def test_the_sum_of_both_decides() -> None:
    nodes = view((1000, 1000), (1000, 1000), requested=[(200, 600), (600, 200)])
    assert choose(request(400, 1), nodes, np.random.default_rng(0)) == 0


_AMOUNTS = st.tuples(st.integers(1, 40_000), st.integers(1, 2**37))
_NODES = st.lists(st.tuples(_AMOUNTS, st.lists(_AMOUNTS, max_size=3)), min_size=1, max_size=5)


@given(_NODES, _AMOUNTS)
def test_the_plugins_of_the_stages_give_the_same_integers(
    drawn: list[tuple[tuple[int, int], list[tuple[int, int]]]], asked: tuple[int, int]
) -> None:
    nodes = []
    for number, ((cpu, memory), held) in enumerate(drawn):
        nodes.append(new_node(node(f"node-{number}", cpu=f"{cpu}m", memory=str(memory))))
        for place, (of_cpu, of_memory) in enumerate(held):
            uid = f"{number}-{place}"
            hold(nodes[-1], pod(uid, cpu=f"{of_cpu}m", memory=str(of_memory)))
    sums = [(sum(cpu for cpu, _ in held), sum(memory for _, memory in held)) for _, held in drawn]
    seen = view(*(size for size, _ in drawn), requested=sums)
    kind = kind_of(pod("asked", cpu=f"{asked[0]}m", memory=str(asked[1])))
    policy = Policy()
    for name, rule in (
        ("NodeResourcesFit", least_allocated),
        ("NodeResourcesBalancedAllocation", balanced_allocation),
    ):
        plugin: Score = SCORES[name](policy, Estimator(policy.load_aware))
        refresh_all(plugin, nodes, at(0))
        assert plugin.scores(plugin.prepare(kind)).tolist() == rule(request(*asked), seen).tolist()
