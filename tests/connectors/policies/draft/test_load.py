"""What nodes used: shares, spread between nodes, hot spells."""

import pytest

from connectors.policies.draft.history import MeanUsage
from connectors.policies.draft.load import load_of

MINUTE_MS = 60_000
ALLOCATABLE = {"a": (1000, None), "b": (2000, None)}


def series(node: str, shares: list[float], capacity: int, begin_minute: int = 0) -> list[MeanUsage]:
    return [
        MeanUsage(node, (begin_minute + minute) * MINUTE_MS, (round(share * capacity), None))
        for minute, share in enumerate(shares)
    ]


def test_shares_are_of_what_each_node_can_give() -> None:
    readings = series("a", [0.2] * 10, 1000) + series("b", [0.6] * 10, 2000)
    load = load_of("cpu", readings, ALLOCATABLE)
    assert load is not None
    assert (load.readings, load.hot_share, load.spells) == (20, 0.0, 0)
    assert load.mean == pytest.approx(0.4)
    assert load.spread == pytest.approx(0.2)


def test_a_spell_lasts_until_the_first_reading_that_is_not_hot() -> None:
    shares = [0.5, 0.8, 0.9, 0.8, 0.5, 0.8, 0.5]
    load = load_of("cpu", series("a", shares, 1000), ALLOCATABLE)
    assert load is not None
    assert load.spells == 2
    assert load.spell_ms == 2 * MINUTE_MS  # of 3 and 1 minutes
    assert load.hot_share == pytest.approx(4 / 7)


def test_a_node_that_falls_silent_ends_its_spell() -> None:
    readings = series("a", [0.9, 0.9, 0.9], 1000) + series("a", [0.9, 0.9, 0.5], 1000, 30)
    load = load_of("cpu", readings, ALLOCATABLE)
    assert load is not None
    assert (load.spells, load.spell_ms) == (2, 2 * MINUTE_MS)


def test_a_resource_that_no_node_reports_and_can_give_has_no_load() -> None:
    readings = [MeanUsage("a", 0, (None, 5)), MeanUsage("unknown", 0, (5, 5))]
    assert load_of("cpu", readings, ALLOCATABLE) is None
    assert load_of("memory", readings, ALLOCATABLE) is None
