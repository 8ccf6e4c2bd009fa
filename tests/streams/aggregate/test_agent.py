"""The aggregate stage in workers of its own, on the embedded broker and on a real Kafka."""

from collections import Counter
from pathlib import Path

import pytest

from schemas.messages.usage import NodeUsage
from schemas.topics.catalog import PARTITIONS_DEFAULT
from tests.conftest import RunningBroker
from tests.streams.aggregate.observer import CHANGELOG, AggregateWorker, Observer, observer
from tests.streams.builders import MINUTE, SECOND, START_MS, pod_usage, read_sample, sample

NODES = 12

pytestmark = pytest.mark.timeout(400)


def minutes(first: int, end: int) -> list[NodeUsage]:
    """Samples of all nodes every ten seconds, from one minute to another, as time goes on."""
    return [
        read_sample(
            sample(
                sampled_at_ms=START_MS + at_ms,
                node=f"n{node}",
                usage={"cpu": 1_000 + at_ms // SECOND * (node + 1) % 977, "memory": 2**30 + at_ms},
                pods=[pod_usage(f"p{index}", (at_ms // SECOND + index) % 97) for index in range(5)],
            )
        )
        for at_ms in range(first * MINUTE, end * MINUTE, 10 * SECOND)
        for node in range(NODES)
    ]


async def settled(kafka: Observer, *workers: AggregateWorker) -> None:
    """Everything sent so far is applied and its rows are written."""
    await kafka.until(lambda: kafka.applied() == kafka.sent, *workers)


def assert_complete(kafka: Observer, times_each: int | None = None) -> None:
    """Exactly the outputs of the pure stage were published; copies have the same bytes."""
    expected = Counter(
        (output.topic, output.key, output.value) for output in kafka.expected(PARTITIONS_DEFAULT)
    )
    published = kafka.published()
    assert set(published) == set(expected)
    if times_each is not None:
        assert set(published.values()) == {times_each}


async def test_a_killed_worker_resumes_with_its_windows(
    broker: RunningBroker, tmp_path: Path
) -> None:
    async with observer(broker.settings) as kafka:
        with AggregateWorker(broker.settings, tmp_path) as worker:
            await kafka.send(minutes(0, 18))
            await settled(kafka, worker)
            worker.kill()
            await kafka.send(minutes(18, 36))
            worker.start()
            await settled(kafka, worker)
            await kafka.until(lambda: len(kafka.published()) == NODES * 35, worker)
            # What was settled when the worker was killed was not published again.
            assert_complete(kafka, times_each=1)
            windows = {value.count(b'"duration_ms":1800000') for _, _, value in kafka.published()}
            assert windows == {0, 2}, "some metrics reach back over the restart"


@pytest.mark.kafka
async def test_another_worker_takes_over_with_the_windows_of_the_first(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    """On a real Kafka alone: a group of two is more than the embedded broker can do."""
    broker = clean_kafka
    async with observer(broker.settings) as kafka:
        # Either may stand still for a while without losing its partitions to the other.
        patient = {"session_timeout_s": "15"}
        with AggregateWorker(broker.settings, tmp_path / "one", **patient) as one:
            await kafka.send(minutes(0, 6))
            await settled(kafka, one)
            with AggregateWorker(broker.settings, tmp_path / "two", **patient) as two:
                await kafka.until(lambda: "owns the partitions" in two.log(), one, two)
                await kafka.send(minutes(6, 12))
                await settled(kafka, one, two)
                one.kill()
                await kafka.send(minutes(12, 18))
                await settled(kafka, two)
                await kafka.until(lambda: len(kafka.published()) >= NODES * 17, two)
                assert_complete(kafka)


async def test_an_unreadable_row_stops_the_worker_and_is_named_in_its_log(
    broker: RunningBroker, tmp_path: Path
) -> None:
    async with observer(broker.settings) as kafka:
        with AggregateWorker(broker.settings, tmp_path) as worker:
            await kafka.send(minutes(0, 2))
            await settled(kafka, worker)
            worker.kill()
            record = next(
                row for row in kafka.records[CHANGELOG] if row.key.endswith(b"/test/members/n0")
            )
            await kafka.write_row(record.partition, record.key.decode(), b"{}")
            worker.start()
            assert worker.wait() != 0
            log = (tmp_path / "worker.log").read_text()
            assert f"row {record.key.decode()}: " in log
