"""Reading partitions forward, endlessly or up to an offset."""

import asyncio
import io
import secrets
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka.client import BrokerUnavailable, Connection, connect
from connectors.kafka.partition_records import read_newest, read_range, read_since
from connectors.kafka.produce import produce_lines
from connectors.kafka.reader import Cursor, Gap, Reader, Record
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import encode
from tests.conftest import RunningBroker
from tests.connectors.kafka.messages import NOW_MS, usage


def _ticks(connection: Connection, first: int, count: int) -> None:
    lines = (
        b'{"partition": 1, "now_ms": %d}\n' % (NOW_MS + n) for n in range(first, first + count)
    )
    produce_lines(connection, TOPIC_BY_NAME["clock"], io.BytesIO(b"".join(lines)))


def test_each_record_is_read_once_and_only_on_request(broker: RunningBroker) -> None:
    connection = connect(broker.settings)
    _ticks(connection, 0, 3_000)
    cursor = Cursor(connection, "clock", 1)
    try:
        for first, last in ((0, 0), (1, 9), (10, 9), (10, 2_500), (2_501, 2_999), (3_000, 10_000)):
            records = list(cursor.through(last))
            assert [record.offset for record in records] == list(range(first, min(last, 2_999) + 1))
            assert all(record.timestamp_ms == NOW_MS + record.offset for record in records)
            assert all(record.key == b"1" for record in records)
    finally:
        cursor.close()


def test_records_of_aborted_transactions_are_read_as_workers_read_them(
    clean_kafka: RunningBroker,
) -> None:
    """Workers apply them, so a replay must read them."""
    options = {**clean_kafka.settings.librdkafka_options(), "transactional.id": "of a producer"}
    producer = Producer({**options, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("node-state", b"taken back", partition=2)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    cursor = Cursor(connect(clean_kafka.settings), "node-state", 2)
    assert [record.value for record in cursor.through(10)] == [b"taken back"]
    cursor.close()
    records = asyncio.run(read_range(clean_kafka.settings, "node-state", 2, 0, 2))
    assert [entry.value for entry in records] == [b"taken back"]


async def test_ends_of_transactions_are_not_reported_as_lost_records(
    clean_kafka: RunningBroker,
) -> None:
    settings = clean_kafka.settings
    options = {**settings.librdkafka_options(), "transactional.id": "of a producer", "log_level": 0}
    producer = Producer(options)
    await asyncio.to_thread(producer.init_transactions, 60)
    for value in (b"first", b"second"):
        producer.begin_transaction()
        producer.produce("node-state", value, partition=2)
        await asyncio.to_thread(producer.commit_transaction, 60)
    records = await read_range(settings, "node-state", 2, 0, 4)
    assert [(record.offset, record.value) for record in records] == [(0, b"first"), (2, b"second")]
    newest_record = await read_newest(settings, "node-state", 2)
    assert newest_record is not None
    assert newest_record.value == b"second"
    assert [record.value async for record in read_since(settings, "node-state", 2, 0)] == [
        b"first",
        b"second",
    ]


def test_records_dropped_by_the_embedded_broker_are_skipped(embedded: RunningBroker) -> None:
    connection = connect(embedded.settings)
    # Random names, since records that compress well would not fill the broker.
    lines = (
        encode(usage(node="n" * 200, usage={secrets.token_hex(126): n for n in range(60)}))
        for _ in range(1_000)
    )
    produce_lines(connection, TOPIC_BY_NAME["node-usage"], io.BytesIO(b"\n".join(lines)))
    offsets: list[int] = []
    for partition in range(4):
        cursor = Cursor(connection, "node-usage", partition)
        offsets += [record.offset for record in cursor.through(999)]
        cursor.close()
    assert offsets == list(range(offsets[0], 1_000))
    assert offsets[0] > 0


PLACE = ("clock", 1)


def _read(reader: Reader, end: int) -> list[Record | Gap]:
    received: list[Record | Gap] = []
    while not reader.has_passed(PLACE, end):
        received += reader.more(due=True)
    return received


def _follow(reader: Reader, *, due: bool) -> None:
    while True:
        reader.more(due=due)


@pytest.mark.kafka
def test_deleted_records_are_one_gap_and_reading_continues(
    clean_kafka: RunningBroker,
) -> None:
    connection = connect(clean_kafka.settings)
    _ticks(connection, 0, 100)
    # Before the reader begins, since records that it has fetched are no gap.
    for answer in connection.admin.delete_records([TopicPartition(*PLACE, 40)]).values():
        answer.result()
    with Reader(connection, {PLACE: 0}) as reader:
        gap, *records = _read(reader, 100)
    assert gap == Gap("clock", 1, 0, 40)
    assert [item.offset for item in records if isinstance(item, Record)] == list(range(40, 100))


def test_an_offset_beyond_the_end_is_an_error_that_names_the_topic(broker: RunningBroker) -> None:
    connection = connect(broker.settings)
    _ticks(connection, 0, 10)
    with (
        Reader(connection, {PLACE: 50}) as reader,
        pytest.raises(
            BrokerUnavailable, match=r"clock partition 1 ends at offset 10; .* offset 50"
        ),
    ):
        _read(reader, 100)


def test_several_partitions_are_read_at_once_in_their_order(broker: RunningBroker) -> None:
    connection = connect(broker.settings)
    lines = (b'{"partition": %d, "now_ms": %d}\n' % (n % 4, NOW_MS + n) for n in range(400))
    produce_lines(connection, TOPIC_BY_NAME["clock"], io.BytesIO(b"".join(lines)))
    places = [("clock", partition) for partition in range(4)]
    received: list[Record | Gap] = []
    with Reader(connection, dict.fromkeys(places, 10), fetch_wait_ms=10) as reader:
        while not all(reader.has_passed(where, 100) for where in places):
            received += reader.poll(0.1)
    for where in places:
        items = [item for item in received if isinstance(item, Record) and item[:2] == where]
        assert [item.offset for item in items] == list(range(10, 100))


@pytest.mark.broker
@pytest.mark.parametrize("due", [True, False])
def test_the_loss_of_the_broker_ends_the_reading_with_an_error(due: bool) -> None:
    with EmbeddedBroker() as broker:
        connection = connect(broker.settings)
        _ticks(connection, 0, 10)
        # Only the reader has a short timeout; the other clients wait for the broker.
        impatient = broker.settings.model_copy(update={"connect_timeout_s": 1.0})
        with Reader(replace(connection, settings=impatient), {PLACE: 0}) as reader:
            broker.stop()
            with pytest.raises(BrokerUnavailable, match=impatient.bootstrap_servers):
                _follow(reader, due=due)
