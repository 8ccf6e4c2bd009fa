"""A burst of requests and a slow broker slow a worker down, and it holds no more of them than its limits say.

`LOADSTREAM_TEST_BURST=100000 .venv/bin/pytest tests/streams/test_burst.py` sends as many.
"""

import asyncio
import os
import signal
import urllib.request
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from connectors.process.local_ports import find_free_port
from schemas.messages.decisions import SchedulingRequest
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from streams.worker.consume.transport import MESSAGES_QUEUED_MAX
from streams.worker.packed_messages import PACKED_RECORDS_MAX
from streams.worker.store.pipeline import AHEAD_MAX
from tests.conftest import running
from tests.streams.builders import numbered_request
from tests.streams.worker_process import PATIENCE_S, Worker

REQUESTS = int(os.environ.get("LOADSTREAM_TEST_BURST", "8000"))
_CLUSTERS = 8
#: Makes a request so large, in bytes, that all of them would show in memory.
_FILLING = 6_000
_BATCH_RECORDS = 200
#: Seconds for which the broker is paused, and for which it answers.
_STILL_S, _ANSWERS_S = 0.3, 0.7
#: Copies of a record in memory: in Kafka's answer, as bytes, read, in the journal's record, on its
#: way. What stays of each request when it is decided about would be far above.
_COPIES = 5
#: Bytes that clients prefetch per partition of an input.
_FETCHED_BYTES = 1024 * 1024


def _request(number: int) -> SchedulingRequest:
    """A request that is refused and not kept, because it has an unsupported requirement."""
    return numbered_request(
        number,
        at_ms=1_800_000_000_000,
        cluster=f"c{number % _CLUSTERS}",
        cpu="1",
        annotations={"filling": "x" * _FILLING},
        unsupported=("required pod anti-affinity",),
    )


async def _burst(kafka: KafkaSettings) -> None:
    async with AIOKafkaProducer(linger_ms=20, **kafka.aiokafka_options()) as producer:
        for first in range(0, REQUESTS, 1_000):
            requests = [_request(number) for number in range(first, min(first + 1_000, REQUESTS))]
            sent = [
                await producer.send(
                    "scheduling-requests", key=request.cluster.encode(), value=encode(request)
                )
                for request in requests
            ]
            await asyncio.gather(*sent)


async def _slow(server: KafkaServer) -> None:
    """Let the broker stand still again and again, until cancelled."""
    pid = server.members[0].pid
    assert pid is not None
    try:
        while True:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(_STILL_S)
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(_ANSWERS_S)
    finally:
        os.kill(pid, signal.SIGCONT)


async def _decided(kafka: KafkaSettings) -> int:
    """Number of decisions."""
    topic = "placement-decisions"
    places = [TopicPartition(topic, number) for number in range(kafka.partitions)]
    async with AIOKafkaConsumer(**kafka.aiokafka_options()) as consumer:
        return sum((await consumer.end_offsets(places)).values())


def _metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    values = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)]
    assert values, f"{name} is not told"
    return max(values)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1_800)
async def test_a_burst_waits_in_kafka_and_not_in_the_worker(tmp_path: Path) -> None:
    assert len({partition_for(f"c{number}".encode(), 4) for number in range(_CLUSTERS)}) > 1
    with running(KafkaServer(tmp_path / "kafka")) as server:
        kafka = server.settings
        create_topics(connect(kafka), expected_topics(kafka))
        port = find_free_port()
        settings = {"metrics_port": str(port), "batch_records": str(_BATCH_RECORDS)}
        with Worker(kafka, tmp_path, **settings) as worker:
            await _until(worker, port, kafka, 0)
            before = _metric(port, "process_resident_memory_bytes")
            # All of it is there before the worker gets to it.
            worker.stall()
            await _burst(kafka)
            worker.resume()
            slow = asyncio.create_task(_slow(server))
            try:
                memory = await _until(worker, port, kafka, REQUESTS)
            finally:
                slow.cancel()
                await asyncio.gather(slow, return_exceptions=True)
            # In the queue, in a message before or after it, in a message that is being collected, and in a
            # batch that is collected, applied, waiting, journaled or published.
            limit = (MESSAGES_QUEUED_MAX + 3) * PACKED_RECORDS_MAX
            limit += (AHEAD_MAX + 4) * _BATCH_RECORDS
            in_flight = _metric(port, 'loadstream_in_flight_records_max{stage="cluster"}')
            fetched = _FETCHED_BYTES * kafka.partitions * 2
            bound = before + limit * _FILLING * _COPIES + fetched
            print(
                f"{REQUESTS} requests of {_FILLING} bytes: at most {in_flight:.0f} in flight of {limit} "
                f"allowed; memory {before / 2**20:.0f} MiB before, at most {memory / 2**20:.0f} MiB, "
                f"allowed {bound / 2**20:.0f} MiB"
            )
            assert _BATCH_RECORDS < in_flight <= limit < REQUESTS
            assert memory <= bound


async def _until(worker: Worker, port: int, kafka: KafkaSettings, decisions: int) -> float:
    """Wait for this many decisions; return the highest memory use of the worker."""
    memory, count, patience_s = 0.0, -1, PATIENCE_S
    while patience_s > 0:
        worker.check()
        await asyncio.sleep(0.5)
        try:
            memory = max(memory, await asyncio.to_thread(_metric, port, "process_resident_memory"))
        except OSError:
            patience_s -= 0.5  # it does not listen yet
            continue
        if (now := await _decided(kafka)) >= decisions:
            return memory
        # Patience is with standing still, not with slowness.
        patience_s = PATIENCE_S if now > count else patience_s - 0.5
        count = now
    pytest.fail(f"{count} of {decisions} decisions; the worker:\n{worker.log()}")
