"""Rows of a state; `tests.histories` holds restarts to byte equality over random histories."""

from typing import Any

import orjson
import pytest

from schemas.storage.tables import kind_of_key
from streams.cluster.stage import ClusterStage
from streams.stage.records import DamagedTable
from tests.streams.cluster.builders import (
    at,
    lifecycle,
    metric,
    node,
    node_gone,
    pod,
    pod_metric,
    request,
    tick,
)
from tests.streams.cluster.harness import Run


def test_a_known_node_has_one_row() -> None:
    run = Run()
    run.say(node("a"), metric("a", seconds=3), metric("b"))
    assert run.keys("nodes") == ["0/test/nodes/a", "0/test/nodes/b"]
    found = run.row("0/test/nodes/a")
    assert (found.state.node, found.metric.usage["cpu"]) == ("a", 0)
    assert found.metric_time_ms == at(3)
    run.say(node_gone("a"))
    assert run.keys("nodes") == ["0/test/nodes/b"]
    assert run.row("0/test/nodes/b").state is None
    run.say(metric("b", removed=True))
    assert run.keys("nodes") == []


def test_the_pods_of_a_node_have_one_row() -> None:
    run = Run()
    run.say(tick(), node("a"), request("p"), lifecycle("running", pod("q"), "a"))
    found = run.row("0/test/reserved_pods/a")
    reserved, bound = found.pods
    assert (reserved.pod.uid, reserved.expires_at_ms) == ("p", at(300))
    assert (bound.pod.uid, bound.expires_at_ms, bound.decision_id) == ("q", None, None)
    run.say(lifecycle("deleted", pod("p")), lifecycle("deleted", pod("q")))
    assert run.keys("reserved_pods") == []


def test_a_pod_keeps_the_labels_by_which_it_counts_beside_its_newest_ones() -> None:
    run = Run()
    relabelled = pod("p", labels={"koordinator.sh/priority-class": "koord-batch"})
    run.say(
        tick(), lifecycle("bound", pod("p"), "a"), tick(9), lifecycle("changed", relabelled, "a")
    )
    (held,) = run.row("0/test/reserved_pods/a").pods
    assert held.pod.labels == relabelled.labels
    assert (held.counted_labels, held.counted_annotations) == ({}, None)
    assert held.counted_at_ms == at(0)
    run.restart()
    node = run.state.inventory.nodes["a"]
    assert node.usage.assigned["p"].pod.labels == {}
    assert node.held["p"].pod.labels == relabelled.labels
    run.say(lifecycle("changed", pod("p", initialized_at_ms=at(9)), "a"))
    (held,) = run.row("0/test/reserved_pods/a").pods
    assert (held.counted_labels, held.counted_at_ms) == (None, at(9))


def _many_kinds(count: int) -> list[Any]:
    return [request(pod(f"p{number}", cpu=f"{1_000 + number}m")) for number in range(count)]


def test_only_changed_waiting_groups_are_written() -> None:
    run = Run()
    run.say(tick(), *_many_kinds(300))
    assert len(run.keys("waiting_groups")) == 300
    rows = run.stage.apply([run.log.message(request(pod("late", cpu="7")))]).rows
    (changed,) = [each for each in rows if kind_of_key(each.key) == "waiting_groups"]
    assert changed.value is not None
    (cluster,) = [each for each in rows if kind_of_key(each.key) == "clusters"]
    assert len(cluster.value or b"") < 400, "it does not grow with the kinds that wait"


@pytest.mark.parametrize("kind", ["clusters", "partitions"])
def test_a_missing_row_of_the_partition_or_of_a_cluster_is_damage(kind: str) -> None:
    run = Run()
    run.say(tick(), node("a"))
    (gone,) = run.keys(kind)
    left = {key: value for key, value in run.rows.items() if key != gone}
    with pytest.raises(DamagedTable, match="loadstream partition reset 0"):
        ClusterStage.restore(0, 1, left)


def test_a_restart_rewrites_no_rows() -> None:
    run = Run()
    run.say(tick(), node("a", cpu="1500m"), metric("a"), request("p"), request("q"))
    run.say(tick(0.2))
    run.restart()
    result = run.stage.apply([run.log.message(tick(0.5))])
    assert [row.key for row in result.rows] == ["0//partitions/"]


def test_the_time_of_a_metric_that_is_gone_is_kept_for_one_that_brings_none() -> None:
    """It decides whether pods are estimated, so it must survive a restart as it does without one."""
    for restarts in (False, True):
        run = Run()
        run.say(tick(), lifecycle("bound", pod("p"), "a"), metric("a", seconds=40))
        run.say(tick(100), metric("a", removed=True))
        if restarts:
            run.restart()
        usage = (pod_metric("p", cpu=100, memory=2**40),)
        run.say(metric("a", updated_at_ms=None, report_interval_ms=0, pods=usage))
        assert run.state.inventory.nodes["a"].usage.delta == (0, 0)
        run.say(metric("a", removed=True), lifecycle("deleted", pod("p")))
        if restarts:
            run.restart()
        run.say(lifecycle("bound", pod("p"), "a"))
        run.say(metric("a", updated_at_ms=None, report_interval_ms=0, pods=usage))
        assert run.state.inventory.nodes["a"].usage.delta == (750, 0)


def test_invalid_counted_labels_are_damage() -> None:
    run = Run()
    run.say(tick(), lifecycle("bound", pod("p"), "a"))
    key = "0/test/reserved_pods/a"
    packed = orjson.loads(run.rows[key])
    packed["pods"][0]["counted_labels"] = "red"
    with pytest.raises(DamagedTable, match=f"row {key}"):
        run.restart([*run.stored(), (key, orjson.dumps(packed))])
