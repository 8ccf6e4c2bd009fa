"""`loadstream replay verify` from a checkpoint, on what a worker has left in a real Kafka that has lost its beginning."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from streams.stage.checkpoint import CheckpointFinder, FoundCheckpoint
from tests.conftest import RunningBroker, delete_topic
from tests.streams.builders import nodes, numbered_request
from tests.streams.replaying import HOME, replay
from tests.streams.worker_process import Worker, client

pytestmark = [pytest.mark.timeout(400), pytest.mark.kafka]


def _home(broker: RunningBroker, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = replay(broker, "--partition", str(HOME), "--json", *arguments)
    verdict = json.loads(done.stdout)
    return done.exit_code, verdict


def _read(broker: RunningBroker, topic: str) -> list[Any]:
    """All messages of the home partition."""
    options = {**broker.settings.librdkafka_options(), "group.id": "test", "log_level": 0}
    consumer = Consumer(options)
    first, end = consumer.get_watermark_offsets(TopicPartition(topic, HOME), timeout=30)
    consumer.assign([TopicPartition(topic, HOME, first)])
    messages: list[Any] = []
    while len(messages) < end - first:
        messages += consumer.consume(1000, timeout=1)
    consumer.close()
    return messages


def _checkpoints(broker: RunningBroker) -> list[FoundCheckpoint]:
    finder = CheckpointFinder(HOME)
    for message in _read(broker, "checkpoints"):
        finder.feed(message.offset(), message.value())
    return finder.found


def _delete(broker: RunningBroker, topic: str, below: int) -> None:
    connection = connect(broker.settings)  # answers come while it lives
    for answer in connection.admin.delete_records([TopicPartition(topic, HOME, below)]).values():
        answer.result()


async def test_a_history_without_its_beginning_is_replayed_from_a_checkpoint(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    broker = clean_kafka
    await _work(broker, tmp_path)
    checkpoints = await asyncio.to_thread(_checkpoints, broker)
    assert len(checkpoints) >= 3
    code, whole = await asyncio.to_thread(_home, broker)
    assert (code, whole["verdict"], whole["checkpoint_offset"]) == (0, "equal", None)

    await asyncio.to_thread(_with_a_time, broker, checkpoints, whole)
    await asyncio.to_thread(_without_the_beginning, broker, checkpoints, whole)
    await asyncio.to_thread(_with_an_altered_input, broker, checkpoints[0])
    await asyncio.to_thread(_without_checkpoints, broker)


async def _work(broker: RunningBroker, directory: Path) -> None:
    """A worker with a checkpoint every two seconds, which is killed once."""
    settings = {"checkpoint_interval_s": "2", "tick_interval_s": "0.2"}
    worker = Worker(broker.settings, directory, **settings)
    async with client(broker.settings, worker, "placement-decisions", "checkpoints") as kafka:
        decided: set[str] = set()

        def all_decided(count: int) -> bool:
            decided.update(decision.pod.uid for decision in kafka.of("placement-decisions"))
            return len(decided) == count

        def kept() -> bool:
            """A checkpoint is newer than all decisions."""
            last_ms = max(decision.decided_at_ms for decision in kafka.of("placement-decisions"))
            ours = (piece for piece in kafka.of("checkpoints") if piece.partition == HOME)
            return any(piece.end is not None and (piece.now_ms or 0) > last_ms for piece in ours)

        # The first checkpoint contains the nodes: a worker applies earlier records first.
        await kafka.send("node-state", nodes(64))
        with worker:
            for number in range(4):
                if number == 2:
                    worker.kill()
                    worker.start()
                await kafka.send(
                    "scheduling-requests",
                    map(numbered_request, range(number * 10, number * 10 + 10)),
                )
                await kafka.until(lambda n=number: all_decided(n * 10 + 10))  # type: ignore[misc]
                await kafka.until(kept)
            await kafka.send("scheduling-requests", map(numbered_request, range(40, 60)))
            await kafka.until(lambda: all_decided(60))
            assert worker.stop() == 0


def _with_a_time(
    broker: RunningBroker, checkpoints: list[FoundCheckpoint], whole: dict[str, Any]
) -> None:
    """`--from` uses the newest earlier checkpoint; the verdict stays equal."""
    second = checkpoints[1]
    assert second.now_ms is not None
    code, after = _home(broker, "--from", str(second.now_ms + 1))
    assert (code, after["verdict"]) == (0, "equal")
    assert after["checkpoint_offset"] == second.position.offset
    assert after["first_batch"] == second.position.sequence + 1
    assert 0 < after["batches"] < whole["batches"]
    assert after["last_ms"] == whole["last_ms"]


def _without_the_beginning(
    broker: RunningBroker, checkpoints: list[FoundCheckpoint], whole: dict[str, Any]
) -> None:
    """The journal's first records and those of the inputs before the first checkpoint are gone."""
    first = checkpoints[0]
    assert first.now_ms is not None
    _delete(broker, "node-state", 4)
    _delete(broker, "clock", 1)
    code, rest = _home(broker)
    assert (code, rest["verdict"], rest["checkpoint_offset"]) == (0, "equal", first.position.offset)
    _delete(broker, "journal", first.position.offset)
    assert _home(broker) == (code, rest)
    assert rest["batches"] == whole["batches"] - first.position.sequence - 1
    assert rest["outputs"] >= 40

    done = replay(broker, "--partition", str(HOME))
    assert done.exit_code == 0
    assert (
        f"; started with batch {first.position.sequence + 1} after the checkpoint of 20"
        in done.output
    )

    code, early = _home(broker, "--from", str(first.now_ms))
    assert (code, early["verdict"]) == (3, "unknown")
    assert "A replay is possible from 20" in early["problem"]


def _with_an_altered_input(broker: RunningBroker, first: FoundCheckpoint) -> None:
    """The same requests once more, at the same offsets, but for one byte of one of them."""
    requests = _read(broker, "scheduling-requests")
    assert [request.offset() for request in requests] == list(range(60))
    changed = next(request for request in requests if b'"u35"' in request.value())
    _write_anew(broker, requests, changed, changed.value())
    code, verdict = _home(broker)
    assert (code, verdict["verdict"]) == (0, "equal"), "nothing is altered yet"

    # A quantity that is none: it is a dead letter where it was a decision.
    _write_anew(broker, requests, changed, changed.value().replace(b"500m", b"500x"))
    code, verdict = _home(broker)
    assert (code, verdict["verdict"]) == (1, "different")
    assert verdict["checkpoint_offset"] == first.position.offset
    culprit = verdict["difference"]["first_input"]
    assert (culprit["topic"], culprit["offset"]) == ("scheduling-requests", changed.offset())

    code, verdict = _home(broker, "--from", str(verdict["difference"]["now_ms"] + 60_000))
    assert code == 3, "nothing is that late"
    _delete(broker, "scheduling-requests", changed.offset() + 1)
    code, verdict = _home(broker)
    assert (code, verdict["verdict"]) == (0, "equal")
    assert verdict["checkpoint_offset"] > first.position.offset, (
        "the first one lacks what came after"
    )


def _write_anew(broker: RunningBroker, records: list[Any], which: Any, value: bytes) -> None:
    """Let the topic have these records, one of them with this value."""
    connection = connect(broker.settings)
    delete_topic(connection, which.topic())
    create_topics(connection, expected_topics(broker.settings))
    producer = Producer({**broker.settings.librdkafka_options(), "log_level": 0})
    for record in records:
        producer.produce(
            record.topic(),
            value if record is which else record.value(),
            key=record.key(),
            partition=HOME,
            timestamp=record.timestamp()[1],
        )
    assert producer.flush(30) == 0


def _without_checkpoints(broker: RunningBroker) -> None:
    _delete(broker, "checkpoints", -1)
    code, verdict = _home(broker)
    assert (code, verdict["verdict"]) == (3, "unknown")
    assert "topic checkpoints has no complete checkpoint" in verdict["problem"]
