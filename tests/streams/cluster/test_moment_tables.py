"""Lives of pods and figures of the fleet are rows, which a worker starts again from."""

import orjson
import pytest

from schemas.codec import decode_as
from schemas.usage_moments import FleetUsageRow, PodUsageRow
from streams.cluster.stage import ClusterStage
from streams.inventory.life import PARTS
from streams.stage.records import DamagedTable
from tests.streams.cluster.builders import (
    lifecycle,
    metric,
    node,
    pod,
    pod_metric,
    policy_record,
    tick,
)
from tests.streams.cluster.run import Run

_RISK = "plugins: {score: [OverutilizationRisk]}\noverutilizationRisk: {resources: [{name: cpu}]}\n"


def _measured(run: Run, minute: int, **used: int) -> None:
    run.say(tick(60 * minute))
    pods = tuple(pod_metric(uid, cpu=each) for uid, each in used.items())
    run.say(metric(cpu=sum(used.values()), seconds=60 * minute, pods=pods))


def _run() -> Run:
    run = Run()
    run.say(tick(0), policy_record(_RISK), node())
    for uid in ("a", "b"):
        run.say(lifecycle("bound", pod(uid), "node-1"))
    for minute, used in ((5, 100), (6, 900), (10, 300)):
        _measured(run, minute, a=used, b=200)
    return run


def _row(run: Run, table: str) -> bytes:
    (found,) = (value for name, _, value in run.stored() if name == table)
    return found


def _tables(run: Run) -> set[str]:
    return {name for name, _, _ in run.stored()}


def test_the_lives_of_a_node_are_one_row() -> None:
    row = decode_as(PodUsageRow, _row(_run(), "pod_usage"))
    assert isinstance(row, PodUsageRow)
    assert row.uids == ("a", "b")
    assert row.minutes == (10, 10, 10)
    assert row.usage["cpu"].mean == (200 * PARTS, 200 * PARTS, 0)
    assert row.usage["cpu"].deviation == (100 * PARTS, 0, 0)


def test_a_restart_changes_neither_lives_nor_what_is_expected() -> None:
    steady, restarted = _run(), _run()
    restarted.restart()
    for run in (steady, restarted):
        _measured(run, 12, a=50, b=60)
        _measured(run, 15, a=10, b=20)
    for table in ("pod_usage", "fleet_usage"):
        assert _row(steady, table) == _row(restarted, table)
    left, right = (run.state.inventory.nodes["node-1"].moments for run in (steady, restarted))
    assert left is not None
    assert right is not None
    assert (left.figures(), left.votes) == (right.figures(), right.votes)


def test_the_figures_of_the_fleet_hold_until_they_are_due_also_after_a_restart() -> None:
    run = _run()
    row = decode_as(FleetUsageRow, _row(run, "fleet_usage"))
    assert isinstance(row, FleetUsageRow)
    run.restart()
    assert run.state.inventory.moments.renewed_at_ms == row.renewed_at_ms
    fleet = run.state.inventory.moments.fleet
    assert fleet is not None
    assert fleet.figures[0].usage_ppm == row.resources["cpu"].usage_ppm


def test_rows_go_with_the_policy_that_asked_and_with_the_resources_that_it_asked_for() -> None:
    run = _run()
    run.say(policy_record(_RISK + "maxPendingRequests: 7\n"))
    assert {"pod_usage", "fleet_usage"} <= _tables(run)
    run.say(policy_record(_RISK.replace("cpu", "memory")))
    assert not {"pod_usage", "fleet_usage"} & _tables(run)
    _measured(run, 20, a=100, b=100)
    assert set(decode_as(PodUsageRow, _row(run, "pod_usage")).usage) == {"memory"}  # type: ignore[union-attr]
    run.say(policy_record())
    assert not {"pod_usage", "fleet_usage"} & _tables(run)


@pytest.mark.parametrize(
    ("column", "entries"), [("minutes", [10]), ("uids", ["a"]), ("mean", [1, 2]), ("deviation", [])]
)
def test_a_row_whose_columns_are_not_of_the_same_pods_is_damaged_and_named(
    column: str, entries: list[object]
) -> None:
    rows = _run().stored()
    damaged = orjson.loads(_row(_run(), "pod_usage"))
    (damaged["usage"]["cpu"] if column in ("mean", "deviation") else damaged)[column] = entries
    stored = [
        (table, key, orjson.dumps(damaged) if table == "pod_usage" else value)
        for table, key, value in rows
    ]
    with pytest.raises(DamagedTable, match=r"(?s)pod_usage.*node-1.*entries"):
        ClusterStage.restored(0, 1, stored)
