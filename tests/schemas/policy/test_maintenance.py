"""When a policy allows evictions, and which checks it may skip."""

import pytest

from schemas.policy import PolicyError, read_policy

#: 2026-11-16 00:00 UTC, a Monday.
MONDAY_MS = 1_794_787_200_000
HOUR_MS = 3_600_000

POLICY = """
maintenance:
  windows: [{days: [mon], from: "10:00", to: "20:00"}]
  namespaces: [{name: shop, windows: [{from: "13:00", to: "15:00"}]}, {name: other}]
"""


@pytest.mark.parametrize(
    ("namespace", "hour", "why"),
    [
        ("other", 9, "outside of the maintenance windows of the policy (mon 10:00 to 20:00 "
         "+00:00); opens in 1h"),
        ("other", 11, None),
        ("shop", 12, "outside of the maintenance windows of namespace shop (every day 13:00 "
         "to 15:00 +00:00); opens in 1h"),
        ("shop", 13, None),
    ],
)  # fmt: skip
def test_every_list_must_have_a_window_open(namespace: str, hour: int, why: str | None) -> None:
    maintenance = read_policy(POLICY).maintenance
    assert maintenance.explain_closed(namespace, MONDAY_MS + hour * HOUR_MS) == why


def test_without_windows_it_is_always_open() -> None:
    assert read_policy("").maintenance.explain_closed("shop", MONDAY_MS) is None


def test_an_unknown_gate_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"migration.skipEvictionGates\[0\].*NoSuchGate"):
        read_policy("migration: {skipEvictionGates: [NoSuchGate]}")
