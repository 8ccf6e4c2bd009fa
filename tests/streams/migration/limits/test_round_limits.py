"""Limits of evictions per round."""

from schemas.policy import Policy
from streams.migration.limits.round_limits import EVICTIONS_PER_ROUND_MAX, RoundLimits


def test_a_round_has_a_default_limit_of_evictions() -> None:
    limits = RoundLimits(Policy())
    for number in range(EVICTIONS_PER_ROUND_MAX):
        assert limits.check(f"n-{number}", "default") is None
        limits.count(f"n-{number}", "default")
    gate = limits.check("another", "default")
    assert gate is not None
    assert gate.scope == "round"
    assert gate.text == "250 pods leave in this round, which is the limit of every round"
    limits.begin()
    assert limits.check("another", "default") is None
