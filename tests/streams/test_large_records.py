"""Records of any size that Kubernetes allows go through, and a worker that was killed starts again over them."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from schemas.base.limits import BATCH_BYTES_MAX
from schemas.messages.dead_letters import DeadLetter, restore_record
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.pods import PodLifecycle
from schemas.topics.codec import encode
from streams.stage.journal import TOPIC as JOURNAL
from tests.conftest import RunningBroker
from tests.streams.builders import CLUSTER, nodes, numbered_pod, numbered_request
from tests.streams.replaying import HOME, replay
from tests.streams.worker_process import POSITIONS, Worker, client
from tests.streams.world import placed_uids

pytestmark = pytest.mark.timeout(400)

_PODS = 34
#: Kubernetes allows 256 KiB of annotations per object; a quote takes two bytes in nested JSON.
_ANNOTATION = '"' * 125_000


def _running(number: int) -> PodLifecycle:
    name = f"large{number}"
    large = numbered_pod(
        number,
        name=name,
        uid=name,
        cpu="1m",
        memory="1Mi",
        node="n0",
        annotations={"note": _ANNOTATION},
    )
    return PodLifecycle(cluster=CLUSTER, event="running", pod=large)


def _large_request() -> SchedulingRequest:
    annotations = {f"a{number}": "x" * 230_000 for number in range(10)}
    return numbered_request(1_000, annotations=annotations)


def _produce(broker: RunningBroker, topic: str, value: bytes, key: bytes = b"by mistake") -> None:
    options = {**broker.settings.librdkafka_options(), "message.max.bytes": BATCH_BYTES_MAX}
    producer = Producer({**options, "log_level": 0})
    producer.produce(topic, value, key=key, partition=HOME)
    assert producer.flush(30) == 0


@pytest.mark.kafka
async def test_a_worker_that_was_killed_starts_again_over_large_rows_and_foreign_records(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    """On a real Kafka: the embedded broker keeps no more than 5 MiB of a partition."""
    broker = clean_kafka
    with Worker(broker.settings, tmp_path) as worker:
        topics = ("placement-decisions", "dead-letters", POSITIONS)
        async with client(broker.settings, worker, *topics) as kafka:
            await kafka.send("node-state", nodes())
            for number in range(_PODS):
                await kafka.send("pod-lifecycle", [_running(number)])
            large = encode(_large_request())
            await asyncio.to_thread(
                _produce, broker, "scheduling-requests", large, CLUSTER.encode()
            )
            await kafka.until(lambda: kafka.applied("pod-lifecycle") == _PODS - 1)
            await kafka.until(lambda: kafka.applied("scheduling-requests") == 0)
            await asyncio.to_thread(_produce, broker, JOURNAL, b"not ours")
            await kafka.send("scheduling-requests", [numbered_request(1)])
            await kafka.until(lambda: len(kafka.of("placement-decisions")) >= 2)
            worker.kill()
            await asyncio.to_thread(_produce, broker, JOURNAL, b'{"partition":7}')
            worker.start()
            await kafka.send("scheduling-requests", [numbered_request(2)])
            await kafka.until(
                lambda: "u2" in {decision.pod.uid for decision in kafka.of("placement-decisions")}
            )
            # Topics have no order among them.
            await kafka.until(lambda: len(kafka.of("dead-letters")) >= 2)
            placed = set(placed_uids(kafka.of("placement-decisions")))
            assert {"u1000", "u1", "u2"} <= placed
            letters = [item for item in kafka.of("dead-letters") if isinstance(item, DeadLetter)]
            assert {letter.topic for letter in letters} == {JOURNAL}
            values = {restore_record(letter)[1] for letter in letters}
            assert values == {b"not ours", b'{"partition":7}'}
        assert worker.stop() == 0
    done = await asyncio.to_thread(replay, broker, "--cluster", CLUSTER)
    assert done.exit_code == 0, done.output
