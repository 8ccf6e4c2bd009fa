"""Clusters of which nothing is known take no place, no row and no journal."""

from collections.abc import Callable

import pytest

from schemas.base.message import Message
from streams.cluster.stage import CLUSTERS_MAX
from tests.streams.cluster.builders import (
    CLUSTER,
    lifecycle,
    metric,
    node,
    node_gone,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run


def test_a_tick_in_which_nothing_happens_writes_the_partitions_row_alone() -> None:
    run = Run()
    run.say(tick(), policy_record(), node("a"), request("p"))
    run.say(tick(1))
    result = run.stage.apply([run.log.message(tick(2))])
    assert [row.key for row in result.rows] == ["0//partitions/"]


def test_a_tick_that_decides_is_counted_and_written() -> None:
    run = Run()
    run.say(tick(), request("p"))
    run.say(node("a"))
    before = run.state.inventory.numbers.sequence
    run.say(tick(2))
    assert run.state.inventory.find_held("p") is not None
    assert run.state.inventory.numbers.sequence == before + 1


@pytest.mark.parametrize(
    "nothing",
    [
        node_gone("a"),
        request("p", withdrawn=True),
        lifecycle("deleted", pod("p")),
        lifecycle("seen", pod("p")),
        metric("a", removed=True),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_record_that_leaves_nothing_makes_no_cluster(nothing: Message) -> None:
    run = Run()
    run.say(tick(), nothing)
    assert not run.stage.clusters
    assert run.kinds == {"partitions"}


def test_records_that_leave_nothing_leave_nothing_in_memory_either(
    inventories: Callable[[], int],
) -> None:
    run = Run()
    run.say(tick())
    before = inventories()
    for number in range(10):
        run.say(request(pod(f"p{number}", unsupported=("x",))))
    assert inventories() == before


def test_a_cluster_that_has_become_empty_is_forgotten_with_the_next_tick() -> None:
    run = Run()
    run.say(tick(), node("a"), lifecycle("running", pod("p"), "a"), request("q"))
    run.say(node_gone("a"), lifecycle("deleted", pod("p")), request("q", withdrawn=True))
    assert CLUSTER in run.stage.clusters
    run.say(tick(1))
    assert not run.stage.clusters
    assert run.kinds == {"partitions"}


def test_a_policy_keeps_a_cluster() -> None:
    run = Run()
    run.say(tick(), policy_record(), tick(1))
    assert CLUSTER in run.stage.clusters


def test_metrics_of_nodes_that_kubernetes_never_named_keep_no_cluster_once_they_are_old() -> None:
    run = Run()
    run.say(tick(), metric("a"), tick(179))
    assert CLUSTER in run.stage.clusters
    run.say(tick(181))
    assert run.kinds == {"partitions"}


def test_a_cluster_may_be_forgotten_and_come_again_within_one_batch() -> None:
    run = Run()
    run.say(tick(), node("a"), node("b"))
    run.say(node_gone("a"), node_gone("b"), tick(1), node("b"))
    assert sorted(run.rows) == ["0//partitions/", "0/test/clusters/", "0/test/nodes/b"]
    run.restart()
    assert list(run.state.inventory.nodes) == ["b"]


@pytest.mark.slow
def test_made_up_names_do_not_fill_a_partition_for_good() -> None:
    run = Run()
    run.say(tick())
    names = [f"made-up-{number}" for number in range(CLUSTERS_MAX)]
    run.say(*(metric().model_copy(update={"cluster": name}) for name in names))
    run.say(node("a"))
    assert run.dead_letters[-1].category == "limit"
    run.say(tick(181))
    run.say(node("a"))
    assert list(run.stage.clusters) == [CLUSTER]
