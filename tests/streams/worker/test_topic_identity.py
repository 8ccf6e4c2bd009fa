"""A topic that is not the one that was applied stops the worker, with what to do."""

import pytest
from faust.types import TP

from streams.worker.topic_identity import TopicChanged, check_ends, check_ids

PLACE = TP("node-usage", 2)


@pytest.mark.parametrize(("position", "end"), [(-1, 0), (-1, None), (6, 7), (6, 100)])
def test_an_input_that_holds_what_was_applied_is_well(position: int, end: int | None) -> None:
    check_ends({PLACE: position}, {PLACE: end})


@pytest.mark.parametrize("end", [0, None, 6])
def test_an_input_that_ends_before_says_where_and_what_to_do(end: int | None) -> None:
    with pytest.raises(TopicChanged, match=r"node-usage, partition 2 ends at offset .* to 6") as it:
        check_ends({PLACE: 6}, {PLACE: end})
    assert "loadstream partition reset 2`" in str(it.value)


def test_a_topic_with_another_id_is_named_with_all_partitions() -> None:
    with pytest.raises(TopicChanged, match=r"topic journal .*loadstream partition reset 0 1 2 3`"):
        check_ids({"clock": "A", "journal": "B"}, {"clock": "A", "journal": "C"}, 4)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"clock": "A"}, {"clock": "A", "journal": "B"}),
        ({"clock": "A"}, {}),
        ({}, {"clock": "A"}),
    ],
)
def test_an_id_that_is_unknown_is_no_other_id(before: dict[str, str], now: dict[str, str]) -> None:
    check_ids(before, now, 4)
