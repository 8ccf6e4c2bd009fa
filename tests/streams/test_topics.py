"""Deleted, recreated or grown topics on a real Kafka: the worker stops and names the remedy."""

from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions
from typer.testing import CliRunner

from connectors.kafka.admin import create_topics
from connectors.kafka.client import Connection, connect
from connectors.kafka.topics import expected_topics
from connectors.process.wall_clock import now_ms
from loadstream.commands import app
from schemas.messages.decisions import SchedulingRequest
from tests.conftest import RunningBroker, delete_topic
from tests.streams.builders import nodes, numbered_request
from tests.streams.noticing import SEEN_WITHIN_S
from tests.streams.worker_process import PATIENCE_S, Client, Worker, client
from tests.streams.world import placed_uids

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

#: A worker may have to start, to notice and to end.
_ENDS_WITHIN_S = PATIENCE_S + SEEN_WITHIN_S


def _requests(first: int, count: int) -> list[SchedulingRequest]:
    at_ms = now_ms()
    return [
        numbered_request(number, at_ms=at_ms, cpu="100m") for number in range(first, first + count)
    ]


def _create(connection: Connection) -> None:
    create_topics(connection, expected_topics(connection.settings))


def _decided(seen: Client) -> set[str]:
    return set(placed_uids(seen.of("placement-decisions")))


def _stops(worker: Worker, sentence: str) -> None:
    """The worker ends in time, and its last line contains the reason."""
    assert worker.wait(_ENDS_WITHIN_S) == 1
    assert sentence in worker.log().splitlines()[-1]


def _reset_all(broker: RunningBroker) -> None:
    environment = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    command = ["partition", "reset", "0", "1", "2", "3", "--yes"]
    done = CliRunner().invoke(app, command, env=environment)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("topic", ["scheduling-requests", "node-usage", "journal"])
async def test_a_worker_stops_without_a_topic_and_starts_after_a_reset(
    clean_kafka: RunningBroker, tmp_path: Path, topic: str
) -> None:
    kafka = clean_kafka.settings
    connection = connect(kafka)
    worker = Worker(kafka, tmp_path)
    async with client(kafka, worker, "placement-decisions") as seen:
        with worker:
            await seen.send("node-state", nodes(cores=100, pods=500))
            await seen.send("scheduling-requests", _requests(0, 10))
            await seen.until(lambda: len(_decided(seen)) == 10)
            delete_topic(connection, topic)
            _stops(worker, f"topic {topic} was deleted")
            worker.start()
            assert worker.wait() == 1
            assert f"{topic}: topic: expected to exist, found none" in worker.log()
            _create(connection)
            # More records than were applied, so ends alone tell nothing.
            await seen.send("scheduling-requests", _requests(100, 50))
            worker.start()
            _stops(
                worker,
                f"topic {topic} was deleted and created again, so the stored offsets mean other",
            )
            assert "loadstream partition reset 0 1 2 3`" in worker.log()
            _reset_all(clean_kafka)
            worker.start()
            await seen.send("node-state", nodes(cores=100, pods=500))
            await seen.send("scheduling-requests", _requests(200, 10))
            new = {f"u{number}" for number in range(200, 210)}
            await seen.until(lambda: _decided(seen) >= new)
            assert worker.stop() == 0


async def test_a_worker_stops_when_a_topic_is_created_again_or_grows_while_it_runs(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    kafka = clean_kafka.settings
    connection = connect(kafka)
    worker = Worker(kafka, tmp_path)
    async with client(kafka, worker, "placement-decisions") as seen:
        with worker:
            await seen.send("node-state", nodes(cores=100, pods=500))
            await seen.send("scheduling-requests", _requests(0, 10))
            await seen.until(lambda: len(_decided(seen)) == 10)
            delete_topic(connection, "status")
            _create(connection)
            _stops(worker, "topic status was deleted")
            # The worker needs no old records of an output topic.
            worker.start()
            await seen.send("scheduling-requests", _requests(10, 10))
            await seen.until(lambda: len(_decided(seen)) == 20)
            grown = connection.admin.create_partitions([NewPartitions("scheduling-requests", 6)])
            for answer in grown.values():
                answer.result()
            _stops(worker, "topic scheduling-requests has 6 partitions; expected 4")
            worker.start()
            assert worker.wait() == 1
            assert "scheduling-requests: partitions: expected 4, found 6" in worker.log()
