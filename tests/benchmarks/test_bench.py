"""What keeps a benchmark from printing a figure that is none."""

import os
import time
from typing import Any

import orjson
import pytest

from benchmarks import messages
from benchmarks.__main__ import benchmarks, main
from benchmarks.decisions import check_decisions
from benchmarks.figures import Unproven
from benchmarks.rig import usage
from benchmarks.wire import Receiver, Sender, encoded
from schemas.base.refusals import Refusal
from schemas.topics.codec import decode
from tests.conftest import RunningBroker, eventually


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


@pytest.mark.parametrize(
    ("topic", "made"),
    [
        ("node-state", messages.node_states(3)),
        ("node-metrics", messages.node_metrics(3)),
        ("pod-lifecycle", messages.running_pods(2, 2)),
        ("scheduling-requests", map(messages.request, range(10))),
        ("node-usage", messages.usage_samples(2, 2, 3)),
    ],
)
def test_what_producers_say_is_readable(topic: str, made: Any) -> None:
    records = encoded(topic, made)
    assert records
    assert not [each for each in records if isinstance(decode(topic, each.value), Refusal)]


def test_what_is_sent_is_read_once_and_to_the_end(broker: RunningBroker) -> None:
    records = encoded("scheduling-requests", map(messages.request, range(500)))
    with Receiver(broker.settings, ["scheduling-requests"]) as live:
        Sender(broker.settings).send(records)
        came: list[bytes] = []
        while len(came) < len(records):
            came += (each.value for each in live.arrivals(5.0))
    with Receiver(broker.settings, ["scheduling-requests"], from_beginning=True) as late:
        assert [each.value for each in late.whole()] == came == [each.value for each in records]


def test_a_look_that_does_not_wait_finds_what_has_come(broker: RunningBroker) -> None:
    requests = encoded("scheduling-requests", map(messages.request, range(3)))
    found: list[Any] = []
    with Receiver(broker.settings, ["scheduling-requests"]) as receiver:
        Sender(broker.settings).send(requests)

        def all_have_come() -> bool:
            found.extend(receiver.arrivals(0.0))
            return len(found) == 3

        assert eventually(all_have_come)


def test_a_process_is_seen_to_work() -> None:
    before = usage(os.getpid())
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = usage(os.getpid())
    assert after.cpu_s - before.cpu_s >= 0.05
    assert after.rss_mib > 1


def test_benchmarks_are_listed_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(benchmarks())
    assert main(["nonsense"]) == 2
    assert "no benchmark nonsense; there are: " in capsys.readouterr().err
