"""When a policy lets pods be evicted, and which checks it may pass over."""

import pytest

from schemas.policy import PolicyError, read_policy
from tests.schemas.policy.harness import lines

#: 2026-11-16 00:00 UTC, a Monday.
MONDAY_MS = 1_794_787_200_000
HOUR_MS = 3_600_000

POLICY = """
rebalance: {nodePools: [{name: web, nodeSelector: {matchLabels: {pool: web}}}]}
maintenance:
  windows: [{days: [mon], from: "10:00", to: "20:00"}]
  pools: [{name: web, windows: [{from: "12:00", to: "14:00"}]}]
  namespaces: [{name: shop, windows: [{from: "13:00", to: "15:00"}]}, {name: other}]
"""


@pytest.mark.parametrize(
    ("pool", "namespace", "hour", "why"),
    [
        ("", "other", 9, "outside of the maintenance windows of the policy (mon 10:00 to 20:00 "
         "+00:00); opens in 1h"),
        ("", "other", 11, None),
        ("web", "other", 11, "outside of the maintenance windows of pool web (every day 12:00 to "
         "14:00 +00:00); opens in 1h"),
        ("web", "other", 12, None),
        ("web", "shop", 12, "outside of the maintenance windows of namespace shop (every day 13:00 "
         "to 15:00 +00:00); opens in 1h"),
        ("web", "shop", 13, None),
    ],
)  # fmt: skip
def test_every_list_must_have_a_window_open(
    pool: str, namespace: str, hour: int, why: str | None
) -> None:
    maintenance = read_policy(POLICY).maintenance
    assert maintenance.explain_closed(pool, namespace, MONDAY_MS + hour * HOUR_MS) == why


def test_without_windows_it_is_always_open() -> None:
    assert read_policy("").maintenance.explain_closed("web", "shop", MONDAY_MS) is None


def test_a_gate_that_is_not_known_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"migration.skipEvictionGates\[0\].*NoSuchGate"):
        read_policy("migration: {skipEvictionGates: [NoSuchGate]}")


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_windows_of_an_unknown_pool_are_refused(compat: str) -> None:
    document = f"compat: {compat}\n{POLICY.replace('{name: web, windows', '{name: wbe, windows')}"
    (line,) = lines(document)
    assert "maintenance.pools[0].name: found 'wbe'; the pools are " in line
    assert "'web'" in line
