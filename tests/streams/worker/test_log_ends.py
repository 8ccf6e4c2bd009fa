"""An input topic that ends before what was applied stops the worker."""

import pytest
from faust.types import TP

from streams.worker.log_ends import LogWentBack, check_ends

PLACE = TP("node-usage", 2)


@pytest.mark.parametrize(("position", "end"), [(-1, 0), (-1, None), (6, 7), (6, 100)])
def test_a_topic_that_holds_what_was_applied_is_well(position: int, end: int | None) -> None:
    check_ends({PLACE: position}, {PLACE: end}, ["journal"])


@pytest.mark.parametrize("end", [0, None, 6])
def test_a_topic_that_ends_before_says_where_and_what_to_do(end: int | None) -> None:
    with pytest.raises(
        LogWentBack, match=r"node-usage, partition 2 ends at offset .* up to 6"
    ) as it:
        check_ends({PLACE: 6}, {PLACE: end}, ["journal", "changelog"])
    assert "delete the topics journal, changelog" in str(it.value)
