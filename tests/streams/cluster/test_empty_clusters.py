"""Empty clusters use no slot, no row and no journal records."""

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


def test_an_idle_tick_writes_only_the_row_of_the_partition() -> None:
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
def test_a_record_without_an_effect_creates_no_cluster(nothing: Message) -> None:
    run = Run()
    run.say(tick(), nothing)
    assert not run.stage.clusters
    assert run.kinds == {"partitions"}


def test_records_without_an_effect_use_no_memory(
    inventories: Callable[[], int],
) -> None:
    run = Run()
    run.say(tick())
    before = inventories()
    for number in range(10):
        run.say(request(pod(f"p{number}", unsupported=("x",))))
    assert inventories() == before


def test_an_empty_cluster_is_forgotten_at_the_next_tick() -> None:
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


def test_expired_metrics_of_unknown_nodes_do_not_keep_a_cluster() -> None:
    run = Run()
    run.say(tick(), metric("a"), tick(179))
    assert CLUSTER in run.stage.clusters
    run.say(tick(181))
    assert run.kinds == {"partitions"}


def test_a_cluster_can_be_forgotten_and_created_in_one_batch() -> None:
    run = Run()
    run.say(tick(), node("a"), node("b"))
    run.say(node_gone("a"), node_gone("b"), tick(1), node("b"))
    assert sorted(run.rows) == ["0//partitions/", "0/test/clusters/", "0/test/nodes/b"]
    run.restart()
    assert list(run.state.inventory.nodes) == ["b"]


@pytest.mark.slow
def test_unknown_cluster_names_do_not_fill_a_partition_permanently() -> None:
    run = Run()
    run.say(tick())
    names = [f"made-up-{number}" for number in range(CLUSTERS_MAX)]
    run.say(*(metric().model_copy(update={"cluster": name}) for name in names))
    run.say(node("a"))
    assert run.dead_letters[-1].category == "limit"
    run.say(tick(181))
    run.say(node("a"))
    assert list(run.stage.clusters) == [CLUSTER]
