"""Lifetimes of pods and figures of the fleet are rows, which a worker starts again from."""

import orjson
import pytest

from schemas.storage.tables import kind_of_key
from schemas.storage.usage_statistics import FleetUsageRow, PodUsageRow
from schemas.topics.codec import decode_as
from streams.cluster.stage import ClusterStage
from streams.risk.lifetimes import PARTS
from streams.stage.records import DamagedTable
from tests.streams.builders import lifecycle, node, pod, policy_record, tick
from tests.streams.world import World

_RISK = "plugins: {score: [OverutilizationRisk]}\noverutilizationRisk: {resources: [{name: cpu}]}\n"


def _measured(world: World, minute: int, **used: int) -> None:
    world.measure(used, 60 * minute)


def _run() -> World:
    world = World(tick(0), policy_record(_RISK), node())
    for uid in ("a", "b"):
        world.send(lifecycle("bound", pod(uid), "node-1"))
    for minute, used in ((5, 100), (6, 900), (10, 300)):
        _measured(world, minute, a=used, b=200)
    return world


def _row(world: World, table: str) -> bytes:
    (key,) = world.keys(table)
    return world.rows[key]


def test_the_lifetimes_of_a_node_are_one_row() -> None:
    row = decode_as(PodUsageRow, _row(_run(), "pod_usage"))
    assert isinstance(row, PodUsageRow)
    assert row.uids == ("a", "b")
    assert row.minutes == (10, 10, 10)
    assert row.usage["cpu"].mean == (200 * PARTS, 200 * PARTS, 0)
    assert row.usage["cpu"].deviation == (100 * PARTS, 0, 0)


def test_recent_usage_is_stored_while_the_policy_uses_it() -> None:
    world = _run()
    for minute in range(15, 600, 5):
        _measured(world, minute, a=100 if minute < 560 else 900, b=minute * 7_919 % 301)
    written = _row(world, "pod_usage")
    row = decode_as(PodUsageRow, written)
    assert isinstance(row, PodUsageRow)
    surged, quiet, _ = row.usage["cpu"].lasting_ppm
    assert surged > 500_000 > quiet
    world.restart()
    assert _row(world, "pod_usage") == written
    world.send(policy_record(_RISK.replace("cpu}]", "cpu}], recentMinutes: 0")))
    without = decode_as(PodUsageRow, _row(world, "pod_usage"))
    assert isinstance(without, PodUsageRow)
    assert (without.minutes, without.usage["cpu"].recent) == (row.minutes, ())


def test_fleet_figures_are_kept_over_a_restart_until_they_are_due() -> None:
    world = _run()
    row = decode_as(FleetUsageRow, _row(world, "fleet_usage"))
    assert isinstance(row, FleetUsageRow)
    world.restart()
    fleet = world.state.inventory.fleet
    assert fleet is not None
    assert fleet.renewed_at_ms == row.renewed_at_ms
    assert fleet.figures[0].usage_ppm == row.resources["cpu"].usage_ppm


def test_statistics_rows_are_removed_with_the_policy_that_uses_them() -> None:
    world = _run()
    world.send(policy_record(_RISK + "maxPendingRequests: 7\n"))
    assert {"pod_usage", "fleet_usage"} <= world.kinds
    world.send(policy_record(_RISK.replace("cpu", "memory")))
    assert not {"pod_usage", "fleet_usage"} & world.kinds
    _measured(world, 20, a=100, b=100)
    assert set(decode_as(PodUsageRow, _row(world, "pod_usage")).usage) == {"memory"}  # type: ignore[union-attr]
    world.send(policy_record())
    assert not {"pod_usage", "fleet_usage"} & world.kinds


@pytest.mark.parametrize(
    ("column", "entries"), [("minutes", [10]), ("uids", ["a"]), ("mean", [1, 2]), ("deviation", [])]
)
def test_a_row_with_columns_for_different_pods_is_damaged(
    column: str, entries: list[object]
) -> None:
    rows = _run().rows.items()
    damaged = orjson.loads(_row(_run(), "pod_usage"))
    (damaged if column in ("minutes", "uids") else damaged["usage"]["cpu"])[column] = entries
    stored = [
        (key, orjson.dumps(damaged) if kind_of_key(key) == "pod_usage" else value)
        for key, value in rows
    ]
    with pytest.raises(DamagedTable, match=r"(?s)pod_usage.*node-1.*entries"):
        ClusterStage.restore(0, 1, dict(stored))
