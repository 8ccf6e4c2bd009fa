"""`loadstream partition reset` on a real Kafka: a damaged partition restarts without repeated actions."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from connectors.kafka.client import Connection, connect
from connectors.kafka.extents import Extent, read_topic_extents
from connectors.kafka.reader import read_range
from connectors.kafka.topics import changelog_name
from connectors.process.wall_clock import now_ms
from loadstream.commands import app
from schemas.base.message import Message
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.migrations import MigrationRequest
from schemas.messages.usage import NodeUsage
from schemas.storage.tables import WINDOWS, kind_of_key
from schemas.topics.partitions import partition_for
from simulation.cluster.cluster import Eviction, Observer, SimulatedCluster
from simulation.cluster.connected_cluster import ConnectedCluster
from simulation.cluster.kubelet import PodEvent
from simulation.cluster.machines import Machine
from tests.conftest import RunningBroker
from tests.simulation.cluster.builders import GIB, machines, pod, reference
from tests.streams.builders import node_in
from tests.streams.worker_process import POSITIONS, Client, Worker, client

_HOME = partition_for(b"c", 4)
_MEASURED = node_in(_HOME, 4, "c")
_POLICY = """
mode: enforce
reservationSeconds: 600
migration:
  defaultJobMode: EvictDirectly
  schedulerNames: [loadstream]
  evictAllBarePods: true
"""


class _Done(Observer):
    """Counts bindings and evictions per pod."""

    def __init__(self) -> None:
        self.bound: Counter[str] = Counter()
        self.evictions: Counter[str] = Counter()

    def on_pod_event(self, event: PodEvent) -> None:
        if event.event == "bound":
            self.bound[event.pod.uid] += 1

    def on_eviction(self, eviction: Eviction) -> None:
        self.evictions[eviction.pod.uid] += 1


class _World:
    """A simulated cluster that sends its messages to Kafka."""

    def __init__(self, seen: Client) -> None:
        self.cluster = SimulatedCluster("c", machines(3), now_ms())
        self.done = _Done()
        self.cluster.observers.append(self.done)
        self._messages: list[tuple[str, Any]] = []
        self.connected = ConnectedCluster(
            self.cluster, lambda topic, message: self._messages.append((topic, message))
        )
        self._seen = seen

    async def send(self) -> None:
        """Send the messages of all changes."""
        self.connected.publish()
        for topic, message in self._messages:
            await self._seen.send(topic, [message])
        self._messages.clear()

    async def list_again(self) -> None:
        """Send a full list and the waiting requests, as a watch does."""
        self.connected.begin("list-2")
        await self.send()
        for plan in self.cluster.waiting_pods.values():
            request = SchedulingRequest(cluster="c", pod=plan.pod, requested_at_ms=plan.at_ms)
            await self._seen.send("scheduling-requests", [request])

    async def carry_out(self, commands: Sequence[Any]) -> None:
        """Carry out bindings and evictions."""
        self.cluster.advance(now_ms())
        self.connected.rules.advance_clock(now_ms())
        for command in commands:
            self.connected.carry_out(command)
        await self.send()


def _reset(broker: RunningBroker, *arguments: str) -> Result:
    environment = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    return CliRunner().invoke(app, ["partition", "reset", *arguments], env=environment)


def _placed(seen: Client) -> list[Any]:
    return [item for item in seen.of("placement-decisions") if item.outcome == "placed"]


def _delete_row(broker: RunningBroker, table: str, kind: str) -> None:
    """Delete one row of a kind, as an operator might by mistake."""
    connection, topic = connect(broker.settings), changelog_name(table)
    extent = read_topic_extents(connection, topic)[_HOME]
    rows = _rows(connection, topic, extent)
    (key, *_) = sorted(key for key in rows if kind_of_key(key.decode()) == kind)
    producer = Producer({**broker.settings.librdkafka_options(), "log_level": 0})
    producer.produce(topic, None, key=key, partition=_HOME)
    assert producer.flush(30) == 0


def _rows(connection: Connection, topic: str, extent: Extent) -> dict[bytes, bytes]:
    values: dict[bytes, bytes | None] = {}
    for record in read_range(connection, topic, _HOME, extent.first_offset, extent.next_offset):
        values[record.key or b""] = record.value
    return {key: value for key, value in values.items() if value is not None}


def _migrate(number: int) -> Message:
    return MigrationRequest(
        request_id=f"request-{number}",
        cluster="c",
        action="migrate",
        pod=reference(pod("p0")),
        requested_at_ms=now_ms(),
    )


async def _send_usage(seen: Client, seconds: range) -> None:
    """Send a usage sample per second of a node of the partition."""
    for second in seconds:
        usage = NodeUsage(
            cluster="c",
            node=_MEASURED,
            sampled_at_ms=now_ms() - 3_600_000 + second * 60_000,
            usage={"cpu": 1_000},
        )
        await seen.send("node-usage", [usage])


@pytest.mark.kafka
@pytest.mark.timeout(400)
async def test_after_a_reset_waiting_pods_are_placed_and_nothing_is_done_twice(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    broker = clean_kafka
    worker = Worker(broker.settings, tmp_path)
    outputs = "placement-decisions", "eviction-commands", "clock", "dead-letters", "node-metrics"
    async with client(broker.settings, worker, POSITIONS, *outputs) as seen:
        with worker:
            world = _World(seen)
            world.connected.begin("list-1")
            world.connected.apply_policy(_POLICY, "")
            for number in range(10):
                world.cluster.request_node(pod(f"p{number}", cores=2, at_ms=now_ms()))
            world.cluster.request_node(pod("large", cores=40, at_ms=now_ms()))
            await world.send()
            await _send_usage(seen, range(5))
            await seen.until(lambda: len(_placed(seen)) == 10)
            # The binder carries out half of the decisions, the evictor none of its commands.
            await world.carry_out([item for item in _placed(seen) if int(item.pod.uid[1:]) < 5])
            # Topics are read in no common order. The worker must know that p0 runs before p0 is to migrate.
            sent = read_topic_extents(connect(broker.settings), "pod-lifecycle")[_HOME].next_offset
            await seen.until(lambda: seen.applied("pod-lifecycle") >= sent - 1)
            await seen.send("migration-requests", [_migrate(1)])
            await seen.until(lambda: bool(seen.of("eviction-commands") and seen.of("node-metrics")))
            running = await asyncio.to_thread(_reset, broker, str(_HOME), "--yes")
            assert (running.exit_code, "stop all workers first" in running.stderr) == (1, True)
            assert await asyncio.to_thread(worker.stop) == 0

        await asyncio.to_thread(_delete_row, broker, "cluster", "clusters")
        await asyncio.to_thread(_delete_row, broker, WINDOWS, "progress")
        worker.start()
        assert await asyncio.to_thread(worker.wait) == 1
        assert f"loadstream partition reset {_HOME}" in worker.log()
        shown = await asyncio.to_thread(_reset, broker, str(_HOME))
        assert (shown.exit_code, "Nothing was written" in shown.output) == (1, True)
        assert "policies is read from its beginning: 1 records" in shown.output
        done = await asyncio.to_thread(_reset, broker, str(_HOME), "--yes")
        assert done.exit_code == 0, done.output

        before, metrics = len(_placed(seen)), len(seen.of("node-metrics"))
        with worker:
            await seen.until(lambda: any(tick.state_lost for tick in seen.of("clock")))
            await world.list_again()
            world.cluster.add_machine(Machine("n4", 64_000, 256 * GIB))
            await world.send()
            waited = {f"p{number}" for number in range(5, 10)} | {"large"}
            await seen.until(lambda: {item.pod.uid for item in _placed(seen)[before:]} >= waited)
            assert {item.pod.uid for item in _placed(seen)[before:]} == waited
            await seen.send("migration-requests", [_migrate(2)])
            await seen.until(lambda: len(seen.of("eviction-commands")) == 2)
            await world.carry_out(_placed(seen))
            await world.carry_out(seen.of("eviction-commands"))
            await _send_usage(seen, range(5, 10))
            await seen.until(lambda: len(seen.of("node-metrics")) > metrics)
            assert await asyncio.to_thread(worker.stop) == 0
    assert world.done.bound == dict.fromkeys([*(f"p{n}" for n in range(10)), "large"], 1)
    assert world.done.evictions == {"p0": 1}
    assert not seen.of("dead-letters")


@pytest.mark.broker
def test_the_embedded_broker_is_not_reset(embedded: RunningBroker) -> None:
    refused = _reset(embedded, "0", "--yes")
    assert refused.exit_code == 1
    assert "the embedded broker keeps no data" in refused.stderr
