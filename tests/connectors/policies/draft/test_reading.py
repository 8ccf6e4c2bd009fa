"""The loads of a history."""

import pytest

from connectors.policies.draft.reading import Reading, compute_loads

CAPACITIES = {"a": {"cpu": 1000}, "b": {"cpu": 2000}}


def test_usage_is_a_share_of_each_node() -> None:
    shares = [0.2, 0.4, 0.6, 0.8]
    readings = [Reading("a", at, {"cpu": round(1000 * share)}) for at, share in enumerate(shares)]
    readings += [Reading("b", at, {"cpu": round(2000 * share)}) for at, share in enumerate(shares)]
    load = compute_loads(readings, CAPACITIES)["cpu"]
    assert load.p75 == pytest.approx(0.65)
    assert load.hot_share == 0.25


def test_a_resource_that_no_node_both_reports_and_has_gets_no_load() -> None:
    readings = [Reading("a", 0, {"memory": 5}), Reading("unknown", 0, {"cpu": 5})]
    assert compute_loads(readings, CAPACITIES) == {}
