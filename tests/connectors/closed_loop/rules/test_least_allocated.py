import numpy as np

from connectors.closed_loop.rules.least_allocated import (
    LeastAllocated,
    balanced_allocation,
    least_allocated,
)
from tests.connectors.closed_loop.rules.views import request, view


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
    assert LeastAllocated().choose(request(400, 1), nodes, np.random.default_rng(0)) == 0
