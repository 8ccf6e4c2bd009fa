"""Markers of transactions are offsets without a record: a worker starts, recovers and keeps time."""

import asyncio
import re
import time
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from connectors.kafka.topics import changelog_name
from connectors.process.local_ports import find_free_port
from connectors.process.wall_clock import now_ms
from schemas.messages.clock import ClockTick
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.settings.connection import KafkaSettings
from schemas.storage.tables import TABLES, row_key
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.streams.builders import CLUSTER, numbered_request
from tests.streams.worker_process import Client, Worker, client

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

_HOME = partition_for(CLUSTER.encode(), 4)
_SMALL = {"cpu": "100m", "memory": "64Mi"}
#: Longest time between two ticks of a worker that has no gap to read, on a crowded machine.
_TICK_MAX_MS = 10_000


class _Transactions:
    """A producer that writes each record in a transaction of its own, every second one aborted."""

    def __init__(self, kafka: KafkaSettings) -> None:
        options = {**kafka.librdkafka_options(), "transactional.id": "of a producer"}
        self._producer = Producer({**options, "log_level": 0})
        self._producer.init_transactions(60)

    def write(
        self, topic: str, partition: int, value: bytes | None, key: bytes = CLUSTER.encode()
    ) -> None:
        """One record and one marker, and another record and another marker."""
        for end in (self._producer.abort_transaction, self._producer.commit_transaction):
            self._producer.begin_transaction()
            self._producer.produce(topic, value, key=key, partition=partition)
            assert self._producer.flush(60) == 0
            end(60)


def _leave_markers(kafka: KafkaSettings) -> None:
    """At the end of the journal, of all changelogs and of all inputs of the cluster's partition."""
    transactions = _Transactions(kafka)
    transactions.write("journal", _HOME, b"of somebody else")
    for table in TABLES:
        row = row_key(_HOME, CLUSTER, "nobody").encode()
        transactions.write(changelog_name(table.name), _HOME, None, row)
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "10000"}
    state = NodeState(cluster=CLUSTER, node="n", event="added", allocatable=allocatable)
    transactions.write("node-state", _HOME, encode(state))
    tick = ClockTick(partition=_HOME, now_ms=now_ms())
    transactions.write("clock", _HOME, encode(tick), str(_HOME).encode())
    for topic in ("pod-lifecycle", "policies", "command-outcomes", "migration-requests"):
        transactions.write(topic, _HOME, b"not read by anybody")


def _outcome(kafka: Client, name: str) -> Any:
    decisions = kafka.of("placement-decisions")
    return next((decision for decision in decisions if decision.pod.name == name), None)


async def _place_pod(kafka: Client, number: int) -> None:
    usage = {"cpu": 100, "memory": 2**30}
    metric = NodeMetric(cluster=CLUSTER, node="n", updated_at_ms=now_ms(), usage=usage)
    await kafka.send("node-metrics", [metric])
    request = numbered_request(number, at_ms=now_ms(), **_SMALL)
    await kafka.send("scheduling-requests", [request])
    await kafka.until(lambda: _outcome(kafka, f"p{number}") is not None)
    assert _outcome(kafka, f"p{number}").outcome == "placed"


def _ticks(kafka: Client) -> list[int]:
    """Times of the ticks in this partition."""
    return sorted(tick.now_ms for tick in kafka.of("clock") if tick.partition == _HOME)


def _count(port: int, metric: str) -> float:
    """A counter of the worker, over all its labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^{metric}\{{.*\}} (\S+)$", text, re.M))


async def test_a_worker_starts_recovers_and_keeps_time_among_markers(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    settings = clean_kafka.settings
    port = find_free_port()
    worker = Worker(settings, tmp_path, metrics_port=str(port))
    async with client(settings, worker, "placement-decisions", "clock") as kafka:
        await asyncio.to_thread(_leave_markers, settings)
        with worker:
            await _place_pod(kafka, 1)
            transactions = await asyncio.to_thread(_Transactions, settings)
            await asyncio.to_thread(transactions.write, "journal", _HOME, b"of somebody else")
            await _place_pod(kafka, 2)
            worker.kill()
            await asyncio.to_thread(_leave_markers, settings)
            worker.start()
            await _place_pod(kafka, 3)

            ahead = _count(port, "loadstream_records_read_ahead_total")
            transactions = await asyncio.to_thread(_Transactions, settings)
            until_s = time.monotonic() + 10
            begun_ms = now_ms()
            while time.monotonic() < until_s:
                for topic in ("pod-lifecycle", "policies", "command-outcomes"):
                    await asyncio.to_thread(transactions.write, topic, _HOME, b"of somebody else")
                await asyncio.sleep(0.5)
            ended_ms = now_ms()
            await kafka.until(lambda: any(at_ms > ended_ms for at_ms in _ticks(kafka)))
            assert _count(port, "loadstream_records_read_ahead_total") == ahead
            assert _count(port, "loadstream_healed_records_total") == 0
        ticks = [at_ms for at_ms in _ticks(kafka) if at_ms > begun_ms]
        assert max(later - sooner for sooner, later in pairwise(ticks)) < _TICK_MAX_MS
        assert "were not delivered" not in worker.whole_log()
