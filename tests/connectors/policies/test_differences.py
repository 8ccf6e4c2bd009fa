"""Differences of policies: fields with different effects, and pools by name."""

from connectors.policies.differences import list_differences
from schemas.policy import read_policy

_POOLS = """
rebalance:
  highThresholds: {cpu: 70}
  lowThresholds: {cpu: 40}
  nodePools:
  - {name: web, nodeSelector: {matchLabels: {pool: web}}, highThresholds: {cpu: %d}}
  - {name: batch, nodeSelector: {matchLabels: {pool: batch}}}
"""


def _list(before: str, after: str) -> list[str]:
    return [str(line) for line in list_differences(read_policy(before), read_policy(after))]


def test_an_explicit_default_is_no_difference() -> None:
    assert _list("", "mode: observe\nmaxBackoffSeconds: 60") == []


def test_pools_are_compared_by_name() -> None:
    (changed,) = _list(_POOLS % 75, _POOLS % 80)
    assert changed == "rebalance.nodePools[web].highThresholds.cpu: 75 -> 80"


def test_another_order_of_pools_is_a_difference() -> None:
    lines = (_POOLS % 75).splitlines()
    swapped = "\n".join([*lines[:-2], lines[-1], lines[-2]])
    (changed,) = _list(_POOLS % 75, swapped)
    assert changed == "rebalance.nodePools (order): [web, batch] -> [batch, web]"


def test_a_pool_of_only_one_policy_is_shown_completely() -> None:
    (changed,) = _list(_POOLS % 75, "\n".join((_POOLS % 75).splitlines()[:-1]))
    assert changed.startswith("rebalance.nodePools[batch]: {")
    assert changed.endswith("} -> not set")
