"""Rows are the state: random histories of all inputs, restored at random places, against one never restored."""

import random
from typing import Any

import pytest

from schemas.messages.dead_letters import DeadLetter
from schemas.topics.codec import decode_as
from streams.cluster import placement, rebalancer
from streams.migration import arbitration, drains, execution, tracking
from streams.rebalance import balancer
from streams.rebalance.thresholds import evictions
from tests.streams.cluster.history import History
from tests.streams.cluster.twins import Twins

pytestmark = pytest.mark.slow

#: Histories, each from its own seed; the seed of one that fails is in the name of the test.
SEEDS = range(24)
#: Limits of what one record or tick may do, which these histories reach.
SMALL: dict[Any, dict[str, int]] = {
    arbitration: {"ARBITRATED_PER_TICK_MAX": 2},
    drains: {"PODS_PER_TICK_MAX": 2},
    placement: {"UNITS_PER_TICK_MAX": 9},
    execution: {"STEPS_PER_TICK_MAX": 2, "COMMANDS_PER_TICK_MAX": 1},
    tracking: {"ENDED_PER_TICK_MAX": 1},
    balancer: {"PODS_PER_ROUND_MAX": 3},
    evictions: {"ORDERED_PER_CHECKED": 2},
    rebalancer: {"REFRESHED_PER_TICK_MAX": 2},
}
#: Steps of a history, each of one record or a few.
STEPS = 120


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stage_goes_on_from_its_rows_as_one_that_was_never_restored(seed: int) -> None:
    compare(seed)


@pytest.mark.parametrize("seed", SEEDS[:12])
def test_so_does_one_whose_ticks_leave_work_to_the_next_ones(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, limits in SMALL.items():
        for limit, value in limits.items():
            monkeypatch.setattr(module, limit, value)
    compare(seed)


def compare(seed: int) -> None:
    """One history, two stages."""
    history, twins, cuts = History(seed), Twins(seed), random.Random(seed)
    records = history.begin()
    for _ in range(STEPS):
        while len(records) < cuts.choice((1, 1, 2, 4, 12)):
            records += history.more()
        history.hear(list(twins.apply(records).outputs))
        records = []
        if cuts.random() < 0.2:
            twins.meet()
    twins.meet()
    for letter in twins.steady.dead_letters:
        read = decode_as(DeadLetter, letter.value)
        assert isinstance(read, DeadLetter)
        assert read.category != "internal", f"a defect of ours: {read.reason}"
