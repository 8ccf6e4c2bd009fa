"""The clusters around the workers in a chaos run: requests for nodes, and the binder. For evictions see `evictor`.

It sends the steps of a plan at their times and reacts to every decision as a binder and a kubelet would: once
per decision id, only before it expires, and never for a pod that is bound.
"""

import asyncio
import heapq
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from pydantic import BaseModel

from schemas.base.limits import BATCH_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.messages.commands import CommandOutcome
from schemas.messages.decisions import PlacementDecision, SchedulingRequest
from schemas.messages.pods import Pod, PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.settings.connection import KafkaSettings
from schemas.storage.percentiles import Progress
from schemas.storage.rows import PartitionRow
from schemas.storage.tables import PARTITION, WINDOWS, kind_of_key
from schemas.topics.catalog import CLUSTER_INPUTS, node_key
from schemas.topics.codec import decode_as, encode
from streams.aggregate.intake import INPUT as USAGE
from tests.chaos.evictor import Evictor
from tests.chaos.history import changelog
from tests.chaos.plan import NODES_PER_CLUSTER, STEP_S, Fate, Plan, Sampled, Step
from tests.streams.worker_process import POSITIONS

_DECISIONS = "placement-decisions"
_COMMANDS = "eviction-commands"
_STATUS = "status"
_WINDOWS = changelog(WINDOWS)
#: No further pods request a node while this many wait, which limits the backlog of an outage.
WAITING_MAX = 200
#: A binding does not start later than this before its decision expires.
_MARGIN_MS = 1_000


class Load:
    """Sends steps and reacts to decisions until it is stopped."""

    def __init__(self, plan: Plan, producer: Any, consumer: Any) -> None:
        self._plan = plan
        self._producer, self._consumer = producer, consumer
        self._sent: set[asyncio.Future[Any]] = set()
        self._failed: BaseException | None = None
        self._answered: set[str] = set()
        self._running: list[tuple[float, str, str]] = []
        """When a pod will have finished, its uid and its cluster."""
        self._ending = False
        self._step_number = 0
        self.evictor = Evictor(plan, self._send, self._ask)
        self._began_ms = _now_ms()
        self.requested: dict[str, tuple[Pod, int]] = {}
        """Pods that want a node, and the step in which they asked."""
        self.bound: dict[str, str] = {}
        """Pods that have got one."""
        self.decided_at_s: dict[int, float] = {}
        """When a decision came last, by partition."""
        self.applied: dict[int, dict[str, int]] = {}
        """How far the rows say that the inputs of a partition were applied."""

    async def begin(self) -> None:
        """Send policies, nodes, and the first pods of services."""
        for cluster in self._plan.clusters:
            await self._policy(cluster, paused=False)
            for number in range(NODES_PER_CLUSTER):
                await self._send("node-state", self._plan.node(cluster, number))
        await self.evictor.begin()

    async def run(self) -> None:
        """Send the plan's steps until stopped; a started step is completed."""
        for number, step in enumerate(self._plan.steps()):
            if self._ending:
                return
            due_s = time.monotonic() + STEP_S
            self._step_number = self.evictor.step = number
            await self._step(step)
            await self._work()
            while time.monotonic() < due_s or self.waiting_count > WAITING_MAX:
                if self._ending:
                    return
                await self._work()
                await asyncio.sleep(max(STEP_S / 10, due_s - time.monotonic()))
            if self._failed is not None:
                raise self._failed

    async def listen(self) -> None:
        """React to decisions until cancelled."""
        while True:
            for partition, records in (await self._consumer.getmany(timeout_ms=50)).items():
                for record in records:
                    if partition.topic == POSITIONS:
                        if kind_of_key(record.key.decode()) != PARTITION:
                            continue
                        row = PartitionRow.model_validate_json(record.value)
                        self.applied.setdefault(row.partition, {}).update(row.offsets)
                    elif partition.topic == _WINDOWS:
                        self._windows(partition.partition, record.key, record.value)
                    elif partition.topic == _COMMANDS:
                        await self.evictor.command(record.value)
                    elif partition.topic == _STATUS:
                        self.evictor.status(record.value)
                    else:
                        self.decided_at_s[partition.partition] = time.monotonic()
                        await self._answer(record.value)

    def _windows(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Read the applied offset from a row of the aggregate stage."""
        if value is not None and b"/progress/" in key:
            progress = Progress.model_validate_json(value)
            self.applied.setdefault(partition, {})[USAGE] = progress.position

    def stop(self) -> None:
        """Send no more steps, which ends `run`."""
        self._ending = True

    async def clear(self) -> None:
        """Remove pauses and cordons of the last step; call after `run` has ended."""
        for cluster in self._plan.clusters:
            await self._policy(cluster, paused=False)
            for number in range(NODES_PER_CLUSTER):
                await self._send("node-state", self._plan.node(cluster, number))
        await self.evictor.calm()

    async def settle(self) -> bool:
        """Let pods finish; return whether all pods are bound and all inputs applied."""
        await self._work()
        if self.waiting_count:
            return False
        # No more evictions, so that no pod requests a node at the end.
        self.evictor.open = False
        if not self.evictor.idle:
            return False
        await self._producer.flush()
        return not await self.unapplied()

    @property
    def waiting(self) -> list[str]:
        """Pods without a node."""
        return [uid for uid in self.requested if uid not in self.bound]

    @property
    def waiting_count(self) -> int:
        return len(self.requested) - len(self.bound)

    async def unapplied(self) -> list[str]:
        """Partitions of inputs that are not fully applied according to the rows, except for the clock."""
        places = [
            TopicPartition(topic, partition)
            for topic in (USAGE, *CLUSTER_INPUTS)
            if topic != "clock"
            for partition in range(self._plan.partitions)
        ]
        ends = await self._consumer.end_offsets(places)
        return [
            f"{partition.topic}/{partition.partition}: {applied} of {ends[partition] - 1}"
            for partition in places
            if (applied := self.applied.get(partition.partition, {}).get(partition.topic, -1))
            < ends[partition] - 1
        ]

    # --- what is sent ---------------------------------------------------------------------------

    async def _step(self, step: Step) -> None:
        for cluster, pod in step.requests:
            await self._ask(cluster, pod)
        for topic, cluster, value, partition in step.spoilt:
            await self._send_bytes(topic, cluster, value, partition)
        for sampled in step.samples:
            await self._sample(sampled)
        if step.request is not None:
            await self.evictor.carry_out(step.request)
        if step.policy_of is not None:
            await self._policy(step.policy_of, paused=step.paused)
        if step.cordon is not None:
            cluster, node, closed = step.cordon
            await self._send("node-state", self._plan.node(cluster, node, closed=closed))

    async def _sample(self, sampled: Sampled) -> None:
        sample = self._plan.sample(sampled, self._began_ms)
        key = node_key(sample.cluster, sample.node)
        for _ in range(sampled.times):
            await self._send_bytes(USAGE, key, encode(sample))
        if not sampled.times:
            await self._send_bytes(USAGE, key, b'{"cluster": ')

    async def _ask(self, cluster: str, pod: Pod) -> None:
        self.requested[pod.uid] = pod, self._step_number
        request = SchedulingRequest(cluster=cluster, pod=pod, requested_at_ms=_now_ms())
        await self._send("scheduling-requests", request)

    async def _policy(self, cluster: str, *, paused: bool) -> None:
        document = self._plan.policy(cluster)
        now_ms = _now_ms()
        record = PolicyRecord(
            cluster=cluster, document=document, paused=paused, applied_at_ms=now_ms
        )
        await self._send("policies", record)

    async def _work(self) -> None:
        await self.evictor.work()
        await self._finish_pods()

    async def _finish_pods(self) -> None:
        while self._running and self._running[0][0] <= time.monotonic():
            _, uid, cluster = heapq.heappop(self._running)
            pod = self.requested[uid][0].model_copy(
                update={"node": self.bound[uid], "phase": "Succeeded"}
            )
            await self._send(
                "pod-lifecycle", PodLifecycle(cluster=cluster, event="finished", pod=pod)
            )

    # --- answers --------------------------------------------------------------------------------

    async def _answer(self, value: bytes) -> None:
        decision = decode_as(PlacementDecision, value)
        assert not isinstance(decision, Refusal), f"a decision that cannot be read: {value!r}"
        if decision.outcome != "placed" or decision.decision_id in self._answered:
            return
        self._answered.add(decision.decision_id)
        uid = decision.pod.uid
        pod, step = self.requested[uid]
        fate = self._plan.fate(uid, decision.attempt, step)
        if uid in self.bound:
            await self._outcome(decision, "refused")
        elif (decision.expires_at_ms or 0) < _now_ms() + _MARGIN_MS:
            await self._outcome(decision, "expired")
        elif fate is Fate.FAILED:
            await self._outcome(decision, "failed")
        elif fate is Fate.DONE:
            assert decision.node is not None
            await self._bind(decision, pod.model_copy(update={"node": decision.node}))

    async def _bind(self, decision: PlacementDecision, pod: Pod) -> None:
        cluster, uid = decision.cluster, pod.uid
        self.bound[uid] = pod.node or ""
        await self._outcome(decision, "done")
        await self._send("pod-lifecycle", PodLifecycle(cluster=cluster, event="bound", pod=pod))
        if pod.owners:
            await self.evictor.bound(cluster, pod)
        else:
            ends_s = time.monotonic() + self._plan.life_s(uid)
            heapq.heappush(self._running, (ends_s, uid, cluster))

    async def _outcome(self, decision: PlacementDecision, result: Any) -> None:
        outcome = CommandOutcome(
            command_id=decision.decision_id,
            cluster=decision.cluster,
            command="bind",
            pod=decision.pod,
            node=decision.node,
            result=result,
            happened_at_ms=_now_ms(),
        )
        await self._send("command-outcomes", outcome)

    async def _send(self, topic: str, message: BaseModel) -> None:
        await self._send_bytes(topic, vars(message)["cluster"], encode(message))

    async def _send_bytes(
        self, topic: str, cluster: str, value: bytes | None, partition: int | None = None
    ) -> None:
        sent = await self._producer.send(
            topic, key=cluster.encode(), value=value, partition=partition
        )
        self._sent.add(sent)
        sent.add_done_callback(self._note)

    def _note(self, sent: asyncio.Future[Any]) -> None:
        self._sent.discard(sent)
        if not sent.cancelled() and sent.exception() is not None:
            self._failed = sent.exception()


@asynccontextmanager
async def open_load(plan: Plan, kafka: KafkaSettings) -> AsyncIterator[Load]:
    """Connect the load of a plan."""
    options = kafka.aiokafka_options()
    # Allows oversized records.
    producer = AIOKafkaProducer(
        enable_idempotence=True, max_request_size=BATCH_BYTES_MAX, **options
    )
    consumer = AIOKafkaConsumer(
        _DECISIONS,
        _COMMANDS,
        _STATUS,
        POSITIONS,
        _WINDOWS,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        **options,
    )
    await producer.start()
    try:
        await consumer.start()
        try:
            yield Load(plan, producer, consumer)
        finally:
            await consumer.stop()
    finally:
        await producer.stop()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
