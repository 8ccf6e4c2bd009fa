"""Times that end others too early are warned of, by the names of both fields."""

import pytest

from schemas.policy import read_policy
from schemas.policy.timing import cut_short


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("riskMoves: {restMinutes: 61}", ["riskMoves.restMinutes is 61"]),
        ("moves: {loopWindowSeconds: 600}", ["riskMoves.restMinutes is 60"]),
        ("migration: {arbitrationArgs: {interval: 5m}}", ["migration.arbitrationArgs.interval is 5m"]),
        (
            "maintenance: {windows: [{from: '22:00', to: '06:00'}], namespaces: [{name: shop, windows: [{from: '08:00', to: '22:00'}]}]}",
            ["maintenance.namespaces 'shop' has no window that is open while one of maintenance.windows is"],
        ),
        (
            "maintenance: {windows: [{days: [sun]}], pools: [{name: __default_node_pool__, windows: [{days: [sat]}]}]}",
            ["maintenance.pools '__default_node_pool__' has no window that is open while one of maintenance.windows is"],
        ),
    ],
)  # fmt: skip
def test_a_time_that_another_ends_too_early_is_named(text: str, fields: list[str]) -> None:
    assert [said.partition(",")[0] for said in cut_short(read_policy(text))] == fields


@pytest.mark.parametrize(
    "text",
    [
        "",
        "riskMoves: {restMinutes: 60}",
        "{riskMoves: {restMinutes: 90}, moves: {loopWindowSeconds: 5400}}",
        "{riskMoves: {restMinutes: 90}, moves: {enabled: false}}",
        "{riskMoves: {restMinutes: 90}, plugins: {balance: [LowNodeLoad]}}",
        "migration: {arbitrationArgs: {interval: 4m}}",
        "migration: {arbitrationArgs: {interval: 5m}, defaultJobTTL: 0s}",
        "maintenance: {namespaces: [{name: shop, windows: [{days: [mon]}]}]}",
        "maintenance: {windows: [{days: [sun]}], namespaces: [{name: shop, windows: []}]}",
        "maintenance: {windows: [{days: [sun]}, {days: [mon]}], namespaces: [{name: shop, windows: [{days: [mon]}]}]}",
    ],
)
def test_times_that_leave_each_other_alone_are_not(text: str) -> None:
    assert cut_short(read_policy(text)) == ()
