"""Empty clusters use no slot, no row and no journal records."""

import pytest

from schemas.base.message import Message
from streams.cluster.stage import CLUSTERS_MAX
from tests.streams.builders import (
    CLUSTER,
    lifecycle,
    metric,
    node,
    pod,
    policy_record,
    removed_node,
    request,
    tick,
)
from tests.streams.world import World


@pytest.mark.parametrize("restarts", [False, True])
def test_an_idle_tick_writes_only_the_row_of_the_partition(restarts: bool) -> None:
    world = World(tick(), policy_record(), node("a"), metric("a"), request("p"))
    world.send(tick(1))
    if restarts:
        world.restart()
    result = world.stage.apply([world.log.record(tick(2))])
    assert [row.key for row in result.rows] == ["0//partitions/"]


def test_a_tick_that_decides_is_counted_and_written() -> None:
    world = World(tick(), request("p"))
    world.send(node("a"))
    before = world.state.inventory.numbers.records_applied
    world.send(tick(2))
    assert world.state.inventory.find_held("p") is not None
    assert world.state.inventory.numbers.records_applied == before + 1


@pytest.mark.parametrize(
    "nothing",
    [
        removed_node("a"),
        request("p", withdrawn=True),
        lifecycle("deleted", pod("p")),
        lifecycle("seen", pod("p")),
        metric("a", removed=True),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_record_without_an_effect_creates_no_cluster(nothing: Message) -> None:
    world = World(tick(), nothing)
    assert not world.stage.clusters
    assert world.kinds == {"partitions"}


def test_an_empty_cluster_is_forgotten_at_the_next_tick() -> None:
    world = World(tick(), node("a"), lifecycle("running", pod("p"), "a"), request("q"))
    world.send(removed_node("a"), lifecycle("deleted", pod("p")), request("q", withdrawn=True))
    assert CLUSTER in world.stage.clusters
    world.send(tick(1))
    assert not world.stage.clusters
    assert world.kinds == {"partitions"}


def test_a_policy_keeps_a_cluster() -> None:
    world = World(tick(), policy_record(), tick(1))
    assert CLUSTER in world.stage.clusters


def test_expired_metrics_of_unknown_nodes_do_not_keep_a_cluster() -> None:
    world = World(tick(), metric("a"), tick(179))
    assert CLUSTER in world.stage.clusters
    world.send(tick(181))
    assert world.kinds == {"partitions"}


def test_a_cluster_can_be_forgotten_and_created_in_one_batch() -> None:
    world = World(tick(), node("a"), node("b"))
    world.send(removed_node("a"), removed_node("b"), tick(1), node("b"))
    assert sorted(world.rows) == ["0//partitions/", "0/test/clusters/", "0/test/nodes/b"]
    world.restart()
    assert list(world.state.inventory.nodes) == ["b"]


@pytest.mark.slow
def test_unknown_cluster_names_do_not_fill_a_partition_permanently() -> None:
    world = World(tick())
    names = [f"made-up-{number}" for number in range(CLUSTERS_MAX)]
    world.send(*(metric().model_copy(update={"cluster": name}) for name in names))
    (letter,) = world.send_refused(node("a"))
    assert letter.category == "limit"
    world.send(tick(181))
    world.send(node("a"))
    assert list(world.stage.clusters) == [CLUSTER]
