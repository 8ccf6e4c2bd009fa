"""`loadstream mend` on a real Kafka: a worker that does not start from what it finds starts again."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from connectors.cli import app
from schemas.connection import KafkaSettings
from schemas.limits import BATCH_BYTES_MAX
from schemas.partitions import partition_for
from schemas.usage import NodeUsage
from streams.cluster.stage import TABLES
from streams.mend import mender
from streams.worker.publisher import LostOwnership
from tests.chaos.history import changelog, read_topic, rows_of
from tests.conftest import RunningBroker
from tests.streams.aggregate.builders import node_in
from tests.streams.builders import NOW_MS, nodes, request
from tests.streams.replaying import HOME
from tests.streams.worker_process import PATIENCE_S, POSITIONS, Client, Worker, client

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

_NODE = node_in(HOME, 4)
_WINDOWS = "node_percentiles"


def _mend(broker: RunningBroker, *arguments: str) -> Result:
    environment = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    return CliRunner().invoke(app, ["mend", "--partition", str(HOME), *arguments], env=environment)


def _produce(broker: RunningBroker, topic: str, key: str, value: bytes | None) -> None:
    options = {**broker.settings.librdkafka_options(), "message.max.bytes": BATCH_BYTES_MAX}
    producer = Producer({**options, "log_level": 0})
    producer.produce(topic, value, key=key.encode(), partition=HOME)
    assert producer.flush(30) == 0


async def _rows(broker: RunningBroker, table: str) -> dict[str, bytes]:
    topics = await read_topic(broker.settings, changelog(table))
    return rows_of(topics[changelog(table), HOME])


async def _use(kafka: Client, minutes: range) -> None:
    """The node's usage, a sample a minute."""
    for minute in minutes:
        at_ms = NOW_MS - 3_600_000 + minute * 60_000
        sample = NodeUsage(cluster="c", node=_NODE, sampled_at_ms=at_ms, usage={"cpu": 1_000})
        await kafka.send("node-usage", [sample], key=f"c/{_NODE}")


async def _all_in_rows(broker: RunningBroker) -> None:
    """Wait until nothing is left to redo: a damaged row is not lost if the journal holds it too.

    Rows are written after the journal, and the place that they reflect after them.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = await asyncio.to_thread(_mend, broker, "--json")
        if json.loads(found.stdout)["batches_redone"] == 0:
            return
        assert time.monotonic() < deadline, found.output


def test_a_partition_that_a_worker_writes_to_is_mended_after_the_workers_have_stopped(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(kafka: KafkaSettings, partition: int) -> None:
        raise LostOwnership("another worker writes to it. Start it again")

    monkeypatch.setattr(mender, "put_right", lost)
    found = _mend(embedded, "--yes")
    assert found.exit_code == 2
    assert found.stderr == (
        f"error: a worker writes to partition {HOME}, so mending was given up: stop all workers, "
        "and mend it again\n"
    )


def _placed(kafka: Client) -> set[str]:
    return {each.pod.uid for each in kafka.of("placement-decisions") if each.outcome == "placed"}


def _metrics(kafka: Client) -> list[int]:
    return [each.updated_at_ms for each in kafka.of("node-metrics") if each.node == _NODE]


async def test_a_worker_starts_again_from_what_could_be_kept_of_rows_journal_and_windows(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    broker = clean_kafka
    assert partition_for(f"c/{_NODE}".encode(), 4) == HOME
    worker = Worker(broker.settings, tmp_path)
    async with client(
        broker.settings, worker, "placement-decisions", "node-metrics", POSITIONS
    ) as kafka:
        with worker:
            await kafka.send("node-state", nodes())
            await kafka.send("scheduling-requests", [request(number) for number in range(5)])
            await _use(kafka, range(10))
            await kafka.until(lambda: len(_placed(kafka)) == 5 and len(_metrics(kafka)) >= 9)
            await kafka.until(
                lambda: (
                    kafka.applied("scheduling-requests") == 4 and kafka.applied("node-state") == 3
                )
            )
            await _all_in_rows(broker)
        nothing = await asyncio.to_thread(_mend, broker)
        assert (nothing.exit_code, "nothing is lost" in nothing.output) == (0, True), nothing.output
        progress = [key for key in await _rows(broker, _WINDOWS) if "/progress/" in key]
        # A row and a journal record as large as topics take them, and a tombstone.
        large = b'{"schema_version":1,"cluster":"c"' + b" " * 5_000_000
        for topic, key, value in (
            (changelog("nodes"), f"{HOME}/c/n3", large),
            ("journal", str(HOME), b'{"schema_version":2,"partition":%d,' % HOME + large),
            *((changelog(_WINDOWS), key, None) for key in progress),
        ):
            await asyncio.to_thread(_produce, broker, topic, key, value)
        worker.start()
        assert await asyncio.to_thread(worker.wait) != 0
        assert "loadstream mend" in worker.log()
        shown = await asyncio.to_thread(_mend, broker)
        assert shown.exit_code == 1, shown.output
        assert f"table nodes, row {HOME}/c/n3" in shown.output
        assert f"table {_WINDOWS}, row {HOME}/progress: missing" in shown.output
        assert "Nothing was written" in shown.output
        found = await asyncio.to_thread(_mend, broker, "--json")
        whole = json.loads(found.stdout)
        assert (found.exit_code, whole["partition"], whole["written"]) == (1, HOME, False)
        assert all(sentence in shown.output for sentence in whole["lost"])
        worker.start()
        assert await asyncio.to_thread(worker.wait) != 0
        mended = await asyncio.to_thread(_mend, broker, "--yes")
        assert mended.exit_code == 0, mended.output
        again = await asyncio.to_thread(_mend, broker)
        assert "nothing is lost" in again.output
        assert f"{HOME}/c/n3" not in await _rows(broker, TABLES[TABLES.index("nodes")])
        with worker:
            await kafka.send("scheduling-requests", [request(9)])
            await _use(kafka, range(10, 20))
            latest = NOW_MS - 3_600_000 + 19 * 60_000
            await kafka.until(lambda: "u9" in _placed(kafka) and latest in _metrics(kafka))
            assert worker.stop() == 0
