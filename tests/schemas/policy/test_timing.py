"""Times that end others too early are warned of, by the names of both fields."""

import pytest

from schemas.policy import read_policy
from schemas.policy.timing import cut_short

_KOORDINATOR = """\
compat: koordinator
rebalance: {{highThresholds: {{cpu: 70}}, lowThresholds: {{cpu: 40}}{}}}
descheduling: {{deschedulingInterval: {}}}
"""


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("riskMoves: {restMinutes: 61}", ["riskMoves.restMinutes is 61"]),
        ("moves: {loopWindowSeconds: 600}", ["riskMoves.restMinutes is 60"]),
        (_KOORDINATOR.format("", "301s"), ["rebalance.detectorCacheTimeout is 5m"]),
        ("migration: {arbitrationArgs: {interval: 5m}}", ["migration.arbitrationArgs.interval is 5m"]),
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
        _KOORDINATOR.format("", "5m"),
        _KOORDINATOR.format(", detectorCacheTimeout: 0s", "10m"),
        _KOORDINATOR.format(", anomalyCondition: {consecutiveAbnormalities: 1}", "10m"),
        _KOORDINATOR.format("", "10m").replace("koordinator", "loadstream"),
        "migration: {arbitrationArgs: {interval: 4m}}",
        "migration: {arbitrationArgs: {interval: 5m}, defaultJobTTL: 0s}",
    ],
)
def test_times_that_leave_each_other_alone_are_not(text: str) -> None:
    assert cut_short(read_policy(text)) == ()
