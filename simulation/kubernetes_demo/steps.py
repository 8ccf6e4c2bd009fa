"""The steps of the demo. Each step waits until it is complete.

    1. nodes are created and measured     3. some nodes become hot
    2. pods ask for nodes and are bound   4. pods leave the hot nodes, replacements get other nodes

If a step takes too long, the summary reports a problem, and the next step starts. The demo acts like a
user of the cluster, and reads the API server and loadstream's topics.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from connectors.kafka.client import Connection
from connectors.kafka.extents import read_topic_extents
from connectors.kafka.reader import Gap, Reader
from connectors.kubernetes.api.errors import ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from schemas.base.refusals import Refusal
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import NodeMetric
from schemas.topics.codec import decode
from simulation.kubernetes_demo import cluster
from simulation.processes import LoadstreamProcess

READ_TOPICS = (
    "node-metrics",
    "placement-decisions",
    "eviction-commands",
    "command-outcomes",
)
#: A node is hot above this share of its CPU: the policy's high threshold.
HOT_PERCENT = 70
#: One node in this many becomes hot.
HOT_EVERY = 20
_POLL_S = 1.0


class RecordLost(RuntimeError):
    """The broker has dropped a record, or a message cannot be read."""


class TopicClient:
    """Receives messages of topics; a context manager. Each call may raise BrokerUnavailable.

    All partitions are read from their beginning. Lost records and unreadable messages are errors, because
    they would falsify the numbers of the demo.
    """

    def __init__(self, connection: Connection, topics: Sequence[str]) -> None:
        starts = {
            (topic, extent.partition): 0
            for topic in topics
            for extent in read_topic_extents(connection, topic)
        }
        self._reader = Reader(connection, starts, fetch_wait_ms=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def receive(self, timeout_s: float) -> Iterator[Any]:
        """Yield messages as they arrive, for `timeout_s` seconds. Raises RecordLost."""
        deadline_s = time.monotonic() + timeout_s
        left_s = timeout_s
        while True:
            for record in self._reader.poll(max(0.0, left_s)):
                if isinstance(record, Gap):
                    raise RecordLost(str(record))
                message = decode(record.topic, record.value)
                if isinstance(message, Refusal):
                    position = f"{record.topic} partition {record.partition} offset {record.offset}"
                    raise RecordLost(f"{position}: {message.reason}")
                yield message
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return


@dataclass
class Observations:
    """Counts of the records that loadstream has written, and the newest metric of each node."""

    cpu: dict[str, int] = field(default_factory=dict)
    """Mean CPU of each node, in millicores."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of outcomes, by command and result."""
    placements: int = 0
    eviction_commands: int = 0
    """Number of eviction commands that are not dry."""
    dry_run_commands: int = 0
    reason: str = ""
    """Reason of the newest eviction command."""

    def add(self, message: Any) -> None:
        """Add a message of one of the topics."""
        if isinstance(message, NodeMetric):
            if message.usage and "cpu" in message.usage:
                self.cpu[message.node] = message.usage["cpu"]
        elif isinstance(message, PlacementDecision):
            self.placements += message.outcome == "placed"
        elif isinstance(message, EvictionCommand):
            self.eviction_commands += not message.dry_run
            self.dry_run_commands += message.dry_run
            self.reason = message.reason
        elif isinstance(message, CommandOutcome):
            self.outcomes[message.command, message.result] += 1


@dataclass(frozen=True, slots=True)
class Size:
    """Size of the demo, and the longest time of a step."""

    nodes: int = 200
    pods: int = 1_000
    step_s: float = 240.0


@dataclass
class Snapshot:
    at_s: float
    step: str
    pods: Sequence[cluster.DemoPod]

    @property
    def cpu(self) -> dict[str, int]:
        """CPU usage of each node with pods, in millicores."""
        return cluster.sum_cpu(self.pods)

    @property
    def hot_nodes(self) -> list[str]:
        limit = cluster.NODE_MILLICORES * HOT_PERCENT / 100
        return sorted(node for node, used in self.cpu.items() if used > limit)

    @property
    def bound_pods(self) -> int:
        """Number of pods with a node."""
        return sum(bool(pod.node) for pod in self.pods)


@dataclass
class DemoRun:
    server: ApiServer
    client: TopicClient
    processes: Sequence[LoadstreamProcess]
    size: Size
    show: Callable[[Snapshot, Observations], None]
    observed: Observations = field(default_factory=Observations)
    problems: list[str] = field(default_factory=list)
    """Steps that took too long."""
    snapshots: list[Snapshot] = field(default_factory=list)
    """The last snapshot of each step."""
    heated_nodes: list[str] = field(default_factory=list)
    protected: set[str] = field(default_factory=set)
    """Uids of pods that are on hot nodes and may not be evicted."""
    began_s: float = field(default_factory=time.monotonic)
    seconds: dict[str, float] = field(default_factory=dict)

    async def run(self) -> None:
        size = self.size
        await self._run_step(
            "waiting for measurements",
            cluster.create_demo_nodes(self.server, size.nodes),
            lambda snapshot: len(self.observed.cpu) >= size.nodes,
        )
        await self._run_step(
            "placing pods",
            cluster.create_demo_pods(self.server, size.pods),
            lambda snapshot: snapshot.bound_pods >= size.pods,
        )
        await self._run_step("heating nodes", self._heat_nodes(), lambda seen: bool(seen.hot_nodes))
        await self._run_step(
            "relieving hot nodes",
            None,
            lambda snapshot: not snapshot.hot_nodes and snapshot.bound_pods >= size.pods,
        )

    async def _heat_nodes(self) -> None:
        count = max(1, self.size.nodes // HOT_EVERY)
        while not (demo_pods := await self._list_pods()):
            await asyncio.sleep(_POLL_S)
        self.heated_nodes = await cluster.heat_nodes(self.server, demo_pods, count)
        self.protected = {
            pod.uid
            for pod in demo_pods
            if pod.node in self.heated_nodes and pod.workload == cluster.PROTECTED
        }

    async def _run_step(
        self, name: str, action: Awaitable[Any] | None, is_complete: Callable[[Snapshot], bool]
    ) -> None:
        """Start a step, and wait until it is complete."""
        began_s = time.monotonic()
        if action is not None:
            with suppress(TimeoutError):  # the loop below reports a step that is not complete
                async with asyncio.timeout(self.size.step_s):
                    await action
        while True:
            snapshot = await self._take_snapshot(name)
            self.show(snapshot, self.observed)
            if is_complete(snapshot):
                break
            if time.monotonic() - began_s > self.size.step_s:
                self.problems.append(f"not within {self.size.step_s:.0f} s: {name}")
                break
        self.seconds[name] = time.monotonic() - began_s
        self.snapshots.append(snapshot)

    async def _take_snapshot(self, step: str) -> Snapshot:
        for message in await asyncio.to_thread(lambda: list(self.client.receive(_POLL_S))):
            self.observed.add(message)
        for process in self.processes:
            process.check()
        demo_pods = await self._list_pods()
        return Snapshot(time.monotonic() - self.began_s, step, demo_pods)

    async def _list_pods(self) -> list[cluster.DemoPod]:
        """Return all pods; empty while the API server is unreachable."""
        try:
            return await cluster.list_pods(self.server)
        except (ApiError, ApiUnreachable):
            return []
