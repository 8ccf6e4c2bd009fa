"""`loadstream replay verify` on the topics of a worker, on the embedded broker and a real Kafka."""

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

from connectors.kafka.client import connect
from loadstream.commands import app
from schemas.messages.clock import ClockTick
from schemas.messages.journal import JournalRecord
from schemas.topics.codec import decode_as, encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.streams.builders import CLUSTER, START_MS, nodes, numbered_request
from tests.streams.replaying import HOME, replay
from tests.streams.worker_process import Worker, client

pytestmark = pytest.mark.timeout(400)


def _append(broker: RunningBroker, topic: str, partition: int, value: bytes) -> None:
    producer = Producer({**broker.settings.librdkafka_options(), "log_level": 0})
    producer.produce(topic, value, key=str(partition), partition=partition)
    assert producer.flush(30) == 0


def _read_last(broker: RunningBroker, topic: str, partition: int) -> tuple[int, bytes]:
    """Return offset and value of the last record."""
    options = {**broker.settings.librdkafka_options(), "group.id": "test", "log_level": 0}
    consumer = Consumer(options)
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    consumer.assign([TopicPartition(topic, partition, end - 1)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return int(message.offset()), message.value()


async def test_the_journal_of_a_killed_worker_is_verified_and_a_forged_one_refused(
    broker: RunningBroker, tmp_path: Path
) -> None:
    with Worker(broker.settings, tmp_path) as worker:
        async with client(broker.settings, worker, "placement-decisions", "dead-letters") as kafka:
            await kafka.send("node-state", nodes())
            await kafka.send("scheduling-requests", map(numbered_request, range(10)))
            await kafka.until(lambda: len(kafka.of("placement-decisions")) >= 1)
            worker.kill()
            await kafka.send("scheduling-requests", map(numbered_request, range(10, 20)))
            await kafka.send_raw("scheduling-requests", b"\xff no JSON")
            worker.start()
            decided: set[str] = set()

            def all_decided() -> bool:
                decided.update(decision.pod.uid for decision in kafka.of("placement-decisions"))
                return len(decided) == 20 and len(kafka.of("dead-letters")) > 0

            await kafka.until(all_decided)
        assert worker.stop() == 0

    done = await asyncio.to_thread(replay, broker)
    assert done.exit_code == 0, done.output
    assert done.output.count(": equal: ") == 4, "every partition has a clock of its own"

    unknown = next(
        name
        for name in (f"x{number}" for number in range(100))
        if partition_for(name.encode(), 4) == HOME
    )
    done = await asyncio.to_thread(replay, broker, "--cluster", unknown)
    assert done.exit_code == 3, done.output
    assert f"nothing was compared. Cluster {unknown} has never been seen" in done.output
    done = await asyncio.to_thread(replay, broker, "--cluster", CLUSTER, "--json")
    assert done.exit_code == 0, done.output
    home = json.loads(done.stdout)
    assert (home["partition"], home["verdict"]) == (HOME, "equal")
    assert home["outputs"] >= 20
    assert home["inputs"] > 25, "nodes, requests, the bad record and the clock"

    done = await asyncio.to_thread(replay, broker, "--from", "2099-01-01")
    assert done.exit_code == 3, "nothing was compared"
    assert "nothing to compare" in done.output

    await asyncio.to_thread(_forge, broker)


def _forge(broker: RunningBroker) -> None:
    """Continue the journal as a worker would, with a wrong result of the next batch."""
    offset, value = _read_last(broker, "journal", HOME)
    head, content = value.split(b"\n", 1)
    batch = decode_as(JournalRecord, head)
    assert isinstance(batch, JournalRecord)
    assert batch.parts == 1
    at, _ = _read_last(broker, "clock", HOME)
    _append(broker, "clock", HOME, encode(ClockTick(partition=HOME, now_ms=START_MS * 2)))
    run = {"first_offset": batch.positions["clock"] + 1, "last_offset": at + 1}
    _append(broker, "journal", HOME, _forged_batch(batch, 1, content, run))

    done = replay(broker, "--partition", str(HOME), "--partition", str((HOME + 1) % 4))
    assert done.exit_code == 1, done.output
    assert f"partition {HOME}: DIFFERENT after" in done.output
    assert f"journal offset {offset + 1}" in done.output
    assert f"first input with a difference: clock, partition {HOME}, offset " in done.output
    assert "offsets.clock" in done.output
    assert ": equal: " in done.output

    run = {"first_offset": at + 2, "last_offset": at + 2}
    # The epoch has no writer. A batch of another partition would count as foreign.
    stray = batch.model_copy(update={"partition": (HOME + 1) % 4, "epoch": 1_000_000})
    _append(broker, "journal", (HOME + 1) % 4, _forged_batch(stray, 2, content, run))
    done = replay(broker, "--partition", str((HOME + 1) % 4))
    assert done.exit_code == 3, done.output
    assert "CANNOT BE REPLAYED: journal offset" in done.output


def _forged_batch(batch: JournalRecord, later: int, content: bytes, run: dict[str, int]) -> bytes:
    """Return a batch with the content of an earlier batch and other clock records."""
    index, values = content.split(b"\n", 1)
    of_batch: dict[str, Any] = orjson.loads(index)
    of_batch["inputs"] = [{"topic": "clock", **run}]
    head = batch.model_copy(update={"sequence": batch.sequence + later})
    return b"\n".join((encode(head), orjson.dumps(of_batch), values))


@pytest.mark.kafka
def test_a_journal_without_its_beginning_cannot_be_replayed(clean_kafka: RunningBroker) -> None:
    connection = connect(clean_kafka.settings)
    for _ in range(3):
        _append(clean_kafka, "journal", 1, b"{}")
    deleted = connection.admin.delete_records([TopicPartition("journal", 1, 2)])
    for answer in deleted.values():
        answer.result()
    done = replay(clean_kafka, "--partition", "1")
    assert done.exit_code == 3
    assert "journal offsets 0 to 1 are missing" in done.output
    assert "retention.ms" in done.output


def test_a_missing_partition_is_an_error(embedded: RunningBroker) -> None:
    elsewhere = str((HOME + 1) % 4)
    for arguments in (("--partition", "4"), ("--cluster", CLUSTER, "--partition", elsewhere)):
        assert replay(embedded, *arguments).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [("--from", "yesterday"), ("--to", "end"), ("--from", "1h", "--to", "2h")]
)
def test_wrong_times_are_errors(arguments: tuple[str, ...]) -> None:
    nowhere = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    done = CliRunner().invoke(app, ["replay", "verify", *arguments], env=nowhere)
    assert done.exit_code == 2
    assert arguments[-1] in done.output
