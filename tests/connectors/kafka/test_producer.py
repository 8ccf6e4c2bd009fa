"""Records out, and whether they have arrived."""

import pytest

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka.client import BrokerUnavailable, Connection, connect
from connectors.kafka.producer import Sender
from connectors.kafka.reader import Reader, Record
from schemas.messages.clock import ClockTick
from schemas.messages.lists import ListBegin
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.connectors.kafka.messages import NOW_MS


def test_a_message_goes_to_the_partition_of_its_key_or_to_the_one_that_it_names(
    broker: RunningBroker,
) -> None:
    connection = connect(broker.settings)
    out = Sender(connection)
    lists = [ListBegin(cluster=f"c{number}", list_id="l") for number in range(8)]
    ticks = [ClockTick(partition=number, now_ms=NOW_MS) for number in range(4)]
    for message in lists:
        out.send("node-state", message)
    for tick in ticks:
        out.send("clock", tick)
    out.flush()
    assert not out.has_failed
    out.close()
    places = [(topic, partition) for topic in ("node-state", "clock") for partition in range(4)]
    found: list[Record] = []
    with Reader(connection, dict.fromkeys(places, 0)) as reader:
        while len(found) < 12:
            found += (each for each in reader.more(due=True) if isinstance(each, Record))
    for record in found:
        decoded = decode(record.topic, record.value)
        if isinstance(decoded, ClockTick):
            assert (record.partition, record.timestamp_ms) == (decoded.partition, NOW_MS)
        else:
            assert decoded in lists
            assert record.partition == partition_for(decoded.cluster.encode(), 4)


def _with_one_record(connection: Connection) -> Sender:
    """A sender that has sent a record; another one, where this process stood still for too long."""
    while True:
        out = Sender(connection)
        out.send("clock", ClockTick(partition=0, now_ms=NOW_MS))
        try:
            out.flush()
        except BrokerUnavailable:
            out.close()
        else:
            return out


@pytest.mark.broker
def test_a_broker_that_goes_away_is_reported_with_what_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.kafka.producer.DELIVERY_TIMEOUT_MS", 1500)
    with EmbeddedBroker() as embedded:
        out = _with_one_record(connect(embedded.settings))
        embedded.stop()
        for number in range(3):
            out.send("clock", ClockTick(partition=0, now_ms=NOW_MS + number))
        with pytest.raises(BrokerUnavailable, match=r"3 of 4 records .* from record 2 on"):
            out.flush()
        assert out.has_failed
        out.close()
