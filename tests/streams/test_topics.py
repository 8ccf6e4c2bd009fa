"""Topics that are deleted, made again or grown under a worker, on a real Kafka: seen within seconds, and nothing is lost."""

from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from connectors.kafka.admin import create_topics
from connectors.kafka.client import Connection, connect
from connectors.kafka.topics import expected_topics
from connectors.local_ports import free_port
from connectors.wall_clock import now_ms
from schemas.requests import SchedulingRequest
from tests.conftest import RunningBroker, delete_topic, eventually
from tests.streams.builders import nodes, request
from tests.streams.noticing import SEEN_WITHIN_S, counted, problems
from tests.streams.worker_process import Client, Worker, client

_NODES = 10

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


def _requests(first: int, count: int) -> list[SchedulingRequest]:
    at_ms = now_ms()
    return [request(number, at_ms=at_ms, cpu="100m") for number in range(first, first + count)]


def _log(tmp_path: Path) -> str:
    return (tmp_path / "worker.log").read_text()


def _seen(worker: Worker, port: int, path: str, words: str, problem: str) -> None:
    """Health, metric and log say it in time."""
    assert eventually(lambda: words in problems(port, path), SEEN_WITHIN_S), worker.log()
    assert eventually(lambda: counted(port, problem), SEEN_WITHIN_S)


def _make_again(connection: Connection) -> None:
    create_topics(connection, expected_topics(connection.settings))


def _decided(seen: Client) -> set[str]:
    return {each.pod.uid for each in seen.of("placement-decisions") if each.outcome == "placed"}


def _all_decided(seen: Client, wanted: set[str]) -> bool:
    return wanted <= _decided(seen)


async def test_an_input_that_is_made_again_is_read_from_its_first_record_on(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    kafka, port = clean_kafka.settings, free_port(set())
    connection = connect(kafka)
    worker = Worker(kafka, tmp_path, metrics_port=str(port))
    async with client(kafka, worker, "placement-decisions") as seen:
        with worker:
            await seen.send("node-state", nodes(cpu=100, count=_NODES, pods=500))
            await seen.send("scheduling-requests", _requests(0, 200))
            await seen.until(lambda: len(_decided(seen)) == 200)
            delete_topic(connection, "scheduling-requests")
            _make_again(connection)
            await seen.send("scheduling-requests", _requests(200, 300))
            words = "topic scheduling-requests was deleted and made again"
            _seen(worker, port, "/healthz", words, "made again")
            assert words in _log(tmp_path)
            worker.kill()
            # Once more while no worker runs: more records than were applied, so ends alone tell nothing.
            worker.start()
            await seen.until(lambda: len(_decided(seen)) == 500)
            assert eventually(lambda: not problems(port, "/readyz")), worker.log()
            worker.stop()
            delete_topic(connection, "scheduling-requests")
            _make_again(connection)
            await seen.send("scheduling-requests", _requests(500, 700))
            worker.start()
            await seen.until(lambda: len(_decided(seen)) == 1200)
            assert worker.stop() == 0
    assert "reads it from its first record on" in _log(tmp_path)


async def test_a_topic_that_has_grown_holds_the_worker(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    kafka, port = clean_kafka.settings, free_port(set())
    connection = connect(kafka)
    worker = Worker(kafka, tmp_path, metrics_port=str(port))
    async with client(kafka, worker, "placement-decisions") as seen:
        with worker:
            await seen.send("node-state", nodes(cpu=100, count=_NODES, pods=500))
            await seen.send("scheduling-requests", _requests(0, 10))
            await seen.until(lambda: len(_decided(seen)) == 10)
            grown = connection.admin.create_partitions([NewPartitions("scheduling-requests", 6)])
            for answer in grown.values():
                answer.result()
            words = "topic scheduling-requests has 6 partitions; expected 4"
            _seen(worker, port, "/readyz", words, "partitions")
            # What the message says to do.
            worker.stop()
            delete_topic(connection, "scheduling-requests")
            _make_again(connection)
            worker.start()
            await seen.send("scheduling-requests", _requests(10, 10))
            await seen.until(lambda: len(_decided(seen)) == 20)


@pytest.mark.parametrize("topic", ["placement-decisions", "dead-letters"])
async def test_an_output_that_is_deleted_is_seen_and_made_again_gets_what_waited(
    clean_kafka: RunningBroker, tmp_path: Path, topic: str
) -> None:
    kafka, port = clean_kafka.settings, free_port(set())
    connection = connect(kafka)
    worker = Worker(kafka, tmp_path, metrics_port=str(port))
    with worker:
        async with client(kafka, worker, "placement-decisions") as seen:
            await seen.send("node-state", nodes(cpu=100, count=_NODES, pods=500))
            await seen.send("scheduling-requests", _requests(0, 10))
            await seen.until(lambda: len(_decided(seen)) == 10)
            delete_topic(connection, topic)
            await seen.send("scheduling-requests", _requests(10, 10))
            await seen.send_raw("scheduling-requests", b"no request")
            _seen(worker, port, "/readyz", f"topic {topic} is missing", "missing")
        _make_again(connection)
        async with client(kafka, worker, "placement-decisions", "dead-letters") as seen:
            await seen.until(lambda: {f"u{n}" for n in range(10, 20)} <= _decided(seen))
            await seen.until(lambda: bool(seen.of("dead-letters")))
            assert eventually(lambda: not problems(port, "/readyz")), worker.log()


async def test_a_journal_that_is_made_again_begins_behind_the_tables(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    kafka, port = clean_kafka.settings, free_port(set())
    connection = connect(kafka)
    worker = Worker(kafka, tmp_path, metrics_port=str(port))
    async with client(kafka, worker, "placement-decisions") as seen:
        with worker:
            await seen.send("node-state", nodes(cpu=100, count=_NODES, pods=500))
            await seen.send("scheduling-requests", _requests(0, 50))
            await seen.until(lambda: len(_decided(seen)) == 50)
            delete_topic(connection, "journal")
            await seen.send("scheduling-requests", _requests(50, 50))
            _seen(worker, port, "/readyz", "topic journal is missing", "missing")
            _make_again(connection)
            gone = "topic journal was deleted and made again"
            assert eventually(lambda: gone in _log(tmp_path) or worker.ended, SEEN_WITHIN_S)
            worker.kill()
            for kill in (True, False):
                worker.start()
                await seen.send("scheduling-requests", _requests(100 + 50 * kill, 50))
                wanted = {f"u{number}" for number in range(150 if not kill else 100)}
                await seen.until(partial(_all_decided, seen, wanted))
                worker.kill()
    decisions = {
        (each.pod.uid, each.decision_id)
        for each in seen.of("placement-decisions")
        if each.outcome == "placed"
    }
    assert len(decisions) == len(_decided(seen)), "a request was decided twice"
