"""Checks of the reader that benchmarks use."""

from benchmarks import messages
from benchmarks.rig import Receiver, Sender, encoded
from tests.conftest import RunningBroker


def test_all_sent_records_are_read_once(broker: RunningBroker) -> None:
    records = encoded("scheduling-requests", map(messages.request, range(500)))
    with Receiver(broker.settings, ["scheduling-requests"]) as live:
        Sender(broker.settings).send(records)
        came: list[bytes] = []
        while len(came) < len(records):
            came += (item.value for item in live.arrivals(5.0))
    with Receiver(broker.settings, ["scheduling-requests"], from_beginning=True) as late:
        assert [item.value for item in late.whole()] == came == [item.value for item in records]
