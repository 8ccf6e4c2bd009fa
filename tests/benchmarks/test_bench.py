"""What keeps a benchmark from printing a figure that is none."""

import pytest

from benchmarks import messages
from benchmarks.__main__ import benchmarks, main
from benchmarks.rig import Receiver, Sender, to_records
from tests.conftest import RunningBroker


def test_what_is_sent_is_read_once_and_to_the_end(broker: RunningBroker) -> None:
    records = to_records("scheduling-requests", map(messages.request, range(500)))
    with Receiver(broker.settings, ["scheduling-requests"]) as live:
        Sender(broker.settings).send(records)
        came: list[bytes] = []
        while len(came) < len(records):
            came += (each.value for each in live.receive(5.0))
    with Receiver(broker.settings, ["scheduling-requests"], from_beginning=True) as late:
        assert (
            [each.value for each in late.receive_all()] == came == [each.value for each in records]
        )


def test_benchmarks_are_listed_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(benchmarks())
    assert main(["nonsense"]) == 2
    assert "no benchmark nonsense; there are: " in capsys.readouterr().err
