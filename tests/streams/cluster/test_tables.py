"""Rows of a state; `tests.histories` holds restarts to byte equality over random histories."""

from typing import Any

import orjson
import pytest

from schemas.storage.tables import kind_of_key
from streams.cluster.stage import ClusterStage
from streams.stage.records import DamagedTable
from tests.streams.builders import (
    at,
    lifecycle,
    metric,
    node,
    pod,
    pod_metric,
    removed_node,
    request,
    tick,
)
from tests.streams.world import World


def test_a_known_node_has_one_row() -> None:
    world = World(node("a"), metric("a", seconds=3), metric("b"))
    assert world.keys("nodes") == ["0/test/nodes/a", "0/test/nodes/b"]
    row = world.row("0/test/nodes/a")
    assert (row.state.node, row.metric.usage["cpu"]) == ("a", 0)
    assert row.metric_time_ms == at(3)
    world.send(removed_node("a"))
    assert world.keys("nodes") == ["0/test/nodes/b"]
    assert world.row("0/test/nodes/b").state is None
    world.send(metric("b", removed=True))
    assert world.keys("nodes") == []


def test_the_pods_of_a_node_have_one_row() -> None:
    world = World(tick(), node("a"), request("p"), lifecycle("running", pod("q"), "a"))
    row = world.row("0/test/reserved_pods/a")
    reserved, bound = row.pods
    assert (reserved.pod.uid, reserved.expires_at_ms) == ("p", at(300))
    assert (bound.pod.uid, bound.expires_at_ms, bound.decision_id) == ("q", None, None)
    world.send(lifecycle("deleted", pod("p")), lifecycle("deleted", pod("q")))
    assert world.keys("reserved_pods") == []


def test_a_pod_keeps_the_labels_it_is_counted_by_and_its_newest_labels() -> None:
    world = World()
    relabelled = pod("p", labels={"koordinator.sh/priority-class": "koord-batch"})
    world.send(
        tick(), lifecycle("bound", pod("p"), "a"), tick(9), lifecycle("changed", relabelled, "a")
    )
    (held,) = world.row("0/test/reserved_pods/a").pods
    assert held.pod.labels == relabelled.labels
    assert (held.counted_labels, held.counted_annotations) == ({}, None)
    assert held.counted_at_ms == at(0)
    world.restart()
    node = world.state.inventory.nodes["a"]
    assert node.usage.assigned["p"].pod.labels == {}
    assert node.held["p"].pod.labels == relabelled.labels
    world.send(lifecycle("changed", pod("p", initialized_at_ms=at(9)), "a"))
    (held,) = world.row("0/test/reserved_pods/a").pods
    assert (held.counted_labels, held.counted_at_ms) == (None, at(9))


def _many_kinds(count: int) -> list[Any]:
    return [request(pod(f"p{number}", cpu=f"{1_000 + number}m")) for number in range(count)]


def test_only_changed_waiting_groups_are_written() -> None:
    world = World(tick(), *_many_kinds(300))
    assert len(world.keys("waiting_groups")) == 300
    rows = world.stage.apply([world.log.record(request(pod("late", cpu="7")))]).rows
    (changed,) = [row for row in rows if kind_of_key(row.key) == "waiting_groups"]
    assert changed.value is not None
    (cluster,) = [row for row in rows if kind_of_key(row.key) == "clusters"]
    assert len(cluster.value or b"") < 400, "it does not grow with the kinds that wait"


@pytest.mark.parametrize("kind", ["clusters", "partitions"])
def test_a_missing_row_of_the_partition_or_of_a_cluster_is_damage(kind: str) -> None:
    world = World(tick(), node("a"))
    (gone,) = world.keys(kind)
    rows = {key: value for key, value in world.rows.items() if key != gone}
    with pytest.raises(DamagedTable, match="loadstream partition reset 0"):
        ClusterStage.restore(0, 1, rows)


def test_the_time_of_a_removed_metric_is_kept_for_a_metric_without_one() -> None:
    """It decides whether pods are estimated, so it must survive a restart as it does without one."""
    for restarts in (False, True):
        world = World(tick(), lifecycle("bound", pod("p"), "a"), metric("a", seconds=40))
        world.send(tick(100), metric("a", removed=True))
        if restarts:
            world.restart()
        usage = (pod_metric("p", cpu=100, memory=2**40),)
        world.send(metric("a", updated_at_ms=None, report_interval_ms=0, pods=usage))
        assert world.state.inventory.nodes["a"].usage.delta == (0, 0)
        world.send(metric("a", removed=True), lifecycle("deleted", pod("p")))
        if restarts:
            world.restart()
        world.send(lifecycle("bound", pod("p"), "a"))
        world.send(metric("a", updated_at_ms=None, report_interval_ms=0, pods=usage))
        assert world.state.inventory.nodes["a"].usage.delta == (750, 0)


def test_invalid_counted_labels_are_damage() -> None:
    world = World(tick(), lifecycle("bound", pod("p"), "a"))
    key = "0/test/reserved_pods/a"
    packed = orjson.loads(world.rows[key])
    packed["pods"][0]["counted_labels"] = "red"
    with pytest.raises(DamagedTable, match=f"row {key}"):
        world.restart({**world.rows, key: orjson.dumps(packed)})
