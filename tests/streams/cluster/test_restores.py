"""Rows are the state: random histories of all inputs, restored at random places, against one never restored."""

import random

import pytest

from schemas.codec import decode_as
from schemas.deadletters import DeadLetter
from tests.streams.cluster.history import History
from tests.streams.cluster.twins import Twins

#: Histories, each from its own seed; the seed of one that fails is in the name of the test.
SEEDS = range(40)
#: Steps of a history, each of one record or a few.
STEPS = 120


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stage_goes_on_from_its_rows_as_one_that_was_never_restored(seed: int) -> None:
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
