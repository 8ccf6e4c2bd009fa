"""Checks of the reader that benchmarks use."""

from benchmarks import messages
from benchmarks.rig import Receiver, Sender, to_records
from tests.conftest import RunningBroker


def test_all_sent_records_are_read_once(broker: RunningBroker) -> None:
    records = to_records("scheduling-requests", map(messages.make_request, range(500)))
    with Receiver(broker.settings, ["scheduling-requests"]) as live:
        Sender(broker.settings).send(records)
        came: list[bytes] = []
        while len(came) < len(records):
            came += (record.value for record in live.receive(5.0))
    with Receiver(broker.settings, ["scheduling-requests"], from_beginning=True) as late:
        sent = [record.value for record in records]
        assert [record.value for record in late.receive_all()] == came == sent
