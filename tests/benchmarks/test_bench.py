"""What keeps a benchmark from printing a figure that is none."""

from typing import Any

import orjson
import pytest

from benchmarks import messages
from benchmarks.__main__ import benchmarks, main
from benchmarks.figures import Unproven
from benchmarks.rig import Receiver, Sender, check_decisions, encoded
from tests.conftest import RunningBroker


def decision(name: str, **fields: Any) -> bytes:
    """As much of a decision as is looked at."""
    whole = {"pod": {"name": name}, "outcome": "placed", "nodes": 3, "stale_nodes": 0}
    return orjson.dumps(whole | fields)


def test_every_request_placed_once_is_right() -> None:
    check_decisions([decision("a"), decision("b")], {"a", "b"}, nodes=3)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([decision("a")], "1 requests have no decision"),
        ([decision("a"), decision("b"), decision("c")], "1 have no request"),
        ([decision("a"), decision("a"), decision("b")], "a was placed twice"),
        ([decision("a"), decision("b", outcome="waiting")], "b was not placed"),
        ([decision("a"), decision("b", nodes=2)], "b was not placed among 3 nodes"),
        ([decision("a"), decision("b", stale_nodes=1)], "b met 1 stale nodes"),
    ],
)
def test_anything_else_is_no_figure(values: list[bytes], complaint: str) -> None:
    with pytest.raises(Unproven, match=complaint):
        check_decisions(values, {"a", "b"}, nodes=3)


def test_what_is_sent_is_read_once_and_to_the_end(broker: RunningBroker) -> None:
    records = encoded("scheduling-requests", map(messages.request, range(500)))
    with Receiver(broker.settings, ["scheduling-requests"]) as live:
        Sender(broker.settings).send(records)
        came: list[bytes] = []
        while len(came) < len(records):
            came += (each.value for each in live.arrivals(5.0))
    with Receiver(broker.settings, ["scheduling-requests"], from_beginning=True) as late:
        assert [each.value for each in late.whole()] == came == [each.value for each in records]


def test_benchmarks_are_listed_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(benchmarks())
    assert main(["nonsense"]) == 2
    assert "no benchmark nonsense; there are: " in capsys.readouterr().err
