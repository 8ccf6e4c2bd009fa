"""Reading a topic without committing offsets, and reporting deleted records."""

import asyncio
import io
import json
import secrets
import threading
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from typer.testing import CliRunner

from connectors.kafka.client import Connection, connect
from connectors.kafka.produce import produce_lines
from connectors.kafka.reader import Gap
from connectors.kafka.tail import Entry, Selection, format_json, parse_start, read_entries
from loadstream.commands import app
from schemas.base.refusals import Refusal
from schemas.messages.usage import PodUsage
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import decode, encode
from tests.conftest import RunningBroker
from tests.connectors.kafka.messages import NOW_MS, decision, usage

USAGE = TOPIC_BY_NAME["node-usage"]
CLOCK = TOPIC_BY_NAME["clock"]


def _ticks(connection: Connection, first: int, count: int, partition: int = 0) -> None:
    lines = (
        b'{"partition": %d, "now_ms": %d}\n' % (partition, NOW_MS + n)
        for n in range(first, first + count)
    )
    produce_lines(connection, CLOCK, io.BytesIO(b"".join(lines)))


def _entries(connection: Connection, start: Any = "beginning") -> list[Entry]:
    items = list(read_entries(connection, CLOCK, start, follow=False))
    assert [item for item in items if isinstance(item, Gap)] == []
    return [item for item in items if isinstance(item, Entry)]


def _write_raw(settings: KafkaSettings, topic: str, key: bytes | None, value: bytes | None) -> None:
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    producer.produce(topic, value, key=key, partition=1)
    assert producer.flush(30) == 0


def test_a_start_time_selects_records_from_that_time_on(broker: RunningBroker) -> None:
    connection = connect(broker.settings)
    _ticks(connection, 0, 100)
    assert [e.timestamp_ms - NOW_MS for e in _entries(connection, NOW_MS + 60)] == list(
        range(60, 100)
    )
    assert _entries(connection, NOW_MS + 100) == []
    assert len(_entries(connection, NOW_MS - 1)) == 100


def test_following_from_the_end_gives_only_new_records(broker: RunningBroker) -> None:
    connection = connect(broker.settings)
    _ticks(connection, 0, 50)
    seen = threading.Event()

    def write() -> None:
        n = 50
        while not seen.is_set():
            _ticks(connect(broker.settings), n, 5)
            n += 5

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reading = read_entries(connection, CLOCK, "end", follow=True)
        offsets = [item.offset for item, _ in zip(reading, range(10), strict=False)]  # type: ignore[union-attr]
        reading.close()  # type: ignore[attr-defined]  # a generator
    finally:
        seen.set()
        writer.join()
    assert offsets[0] >= 50
    assert offsets == list(range(offsets[0], offsets[0] + 10))


def test_an_unreadable_record_is_shown(broker: RunningBroker) -> None:
    connection = connect(broker.settings)
    _write_raw(broker.settings, "node-usage", b"blue/n1", b"\xff{")
    _write_raw(broker.settings, "node-usage", None, None)
    items = list(read_entries(connection, USAGE, "beginning", follow=False))
    assert [type(entry.message) for entry in items if isinstance(entry, Entry)] == [
        Refusal,
        Refusal,
    ]
    assert [entry.cluster for entry in items if isinstance(entry, Entry)] == ["blue", None]


def test_records_dropped_by_the_embedded_broker_are_reported(embedded: RunningBroker) -> None:
    connection = connect(embedded.settings)
    # Random names, since records that compress well would not fill the broker.
    lines = (
        encode(usage(node="n" * 200, usage={secrets.token_hex(126): n for n in range(60)}))
        for _ in range(1_000)
    )
    produce_lines(connection, USAGE, io.BytesIO(b"\n".join(lines)))
    gap, *entries = list(read_entries(connection, USAGE, "beginning", follow=False))
    assert isinstance(gap, Gap)
    assert gap.first_offset == 0 < gap.next_offset
    offsets = [item.offset for item in entries if isinstance(item, Entry)]
    assert offsets == list(range(gap.next_offset, 1_000))
    assert f"the broker has deleted the records 0 to {gap.next_offset - 1}" in str(gap)


async def _write_at(settings: KafkaSettings, timestamps: list[int]) -> None:
    async with AIOKafkaProducer(**settings.aiokafka_options()) as producer:
        await producer.partitions_for("clock")
        for timestamp_ms in timestamps:
            batch = producer.create_batch()
            batch.append(key=b"0", value=b"{}", timestamp=timestamp_ms)
            await (await producer.send_batch(batch, "clock", partition=0))


def test_records_of_any_time_are_shown_from_the_beginning(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example of a Go program that sets no time: the year 1."""
    times = [-1, -62_135_596_800_000, NOW_MS]
    asyncio.run(_write_at(broker.settings, times))
    assert [entry.timestamp_ms for entry in _entries(connect(broker.settings))] == times
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    first, *others = (
        CliRunner()
        .invoke(app, ["topic", "tail", "clock", "--from", "beginning"])
        .stdout.splitlines()
    )
    assert first.startswith("without a time 0:0 ")
    assert len(others) == 2


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", "beginning"),
        ("end", "end"),
        ("15m", NOW_MS - 900_000),
        ("0s", NOW_MS),
        ("1795000000000", 1_795_000_000_000),
        ("2026-11-18T11:06:40Z", NOW_MS),
        ("2026-11-18T11:06:40.500", NOW_MS + 500),
        ("2026-11-18 12:06:40+01:00", NOW_MS),
        ("2026-11-18", NOW_MS - (11 * 3600 + 6 * 60 + 40) * 1000),
    ],
)
def test_a_start_is_read_in_common_formats(text: str, start: Any) -> None:
    assert parse_start(text, NOW_MS) == start


def _entry(value: bytes | None, key: bytes | None = b"blue/n1") -> Entry:
    return Entry("node-usage", 1, 7, NOW_MS, key, value, decode("node-usage", value))


def test_records_are_selected_by_their_pods() -> None:
    pods = tuple(
        PodUsage(namespace="web", name=name, uid=name, usage={"cpu": 1}) for name in ("a", "b")
    )
    entries = [_entry(encode(usage(pods=group))) for group in (pods, pods[:1])]
    for pod, matching in ((("web", "a"), 2), (("web", "b"), 1), (("shop", "a"), 0)):
        selection = Selection.of(USAGE, None, pod, None)
        assert sum(map(selection.matches, entries)) == matching
    placed = decision()
    entry = Entry("placement-decisions", 1, 7, NOW_MS, b"blue", encode(placed), placed)
    topic = TOPIC_BY_NAME["placement-decisions"]
    assert Selection.of(topic, None, ("web", "front-1"), None).matches(entry)


def test_json_keeps_unknown_fields_and_is_one_line() -> None:
    value = json.dumps(json.loads(encode(usage())) | {"new": [1, "a\nb"]}, indent=2).encode()
    text = format_json(_entry(value))
    assert "\n" not in text
    whole = json.loads(text)
    assert whole["value"] == json.loads(value)
    assert (whole["topic"], whole["partition"], whole["offset"]) == ("node-usage", 1, 7)
    assert (whole["key"], whole["timestamp_ms"]) == ("blue/n1", NOW_MS)
