"""A worker applies the events of an outage before it applies later ticks."""

import asyncio
from pathlib import Path

import pytest

from connectors.process.wall_clock import now_ms
from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from streams.stage.journal import TOPIC as JOURNAL
from streams.stage.journal import JournalBatch, join_parts, read_record
from tests.conftest import RunningBroker
from tests.streams.builders import CLUSTER, numbered_pod, numbered_request
from tests.streams.worker_process import Client, Worker, client

_RESERVATION_S = 4
#: Records that stand before the confirmations.
_OTHERS = 3_000
_PODS = 20
_PARTITION = partition_for(CLUSTER.encode(), 4)
_SMALL = {"cpu": "100m", "memory": "64Mi"}


def _placed(kafka: Client) -> dict[str, PlacementDecision]:
    decisions = kafka.of("placement-decisions")
    return {decision.pod.name: decision for decision in decisions if decision.outcome == "placed"}


def _expired(kafka: Client) -> set[str]:
    decisions = kafka.of("placement-decisions")
    return {decision.pod.name for decision in decisions if decision.outcome == "expired"}


async def _begin(kafka: Client) -> None:
    """All pods get a node at a time after which no other comes: no reservation ends here."""
    tick = encode(ClockTick(partition=_PARTITION, now_ms=now_ms()))
    await kafka.send_raw("clock", tick, key=str(_PARTITION), partition=_PARTITION)
    policy = f"reservationSeconds: {_RESERVATION_S}\n"
    record = PolicyRecord(cluster=CLUSTER, document=policy, applied_at_ms=now_ms())
    await kafka.send("policies", [record])
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "10000"}
    state = NodeState(cluster=CLUSTER, node="n", event="added", allocatable=allocatable)
    await kafka.send("node-state", [state])
    # Topics have no common order, and a pod that waits for a node is only tried again at a tick.
    await kafka.until(lambda: _applied(kafka) >= {"clock", "policies", "node-state"})
    requests = [numbered_request(number, at_ms=now_ms(), **_SMALL) for number in range(_PODS)]
    await kafka.send("scheduling-requests", requests)
    await kafka.until(lambda: len(_placed(kafka)) == _PODS)


@pytest.mark.timeout(400)
async def test_reservations_that_were_confirmed_in_an_outage_do_not_end_after_it(
    broker: RunningBroker, tmp_path: Path
) -> None:
    before = Worker(broker.settings, tmp_path, clock="external")
    async with client(broker.settings, before, "placement-decisions", JOURNAL) as kafka:
        with before:
            await _begin(kafka)
    worker = Worker(broker.settings, tmp_path)
    async with client(broker.settings, worker, "placement-decisions", JOURNAL) as kafka:
        others = [numbered_pod(_PODS + number, **_SMALL) for number in range(_OTHERS)]
        bound = [numbered_pod(number, node="n", **_SMALL) for number in range(_PODS)]
        events = [PodLifecycle(cluster=CLUSTER, event="seen", pod=member) for member in others]
        events += [PodLifecycle(cluster=CLUSTER, event="bound", pod=member) for member in bound]
        await kafka.send("pod-lifecycle", events)
        usage = {"cpu": 100, "memory": 2**30}
        metric = NodeMetric(cluster=CLUSTER, node="n", updated_at_ms=now_ms(), usage=usage)
        await kafka.send("node-metrics", [metric])
        later = numbered_request(0, at_ms=now_ms(), name="later", uid="u-later", **_SMALL)
        await kafka.send("scheduling-requests", [later])
        await asyncio.sleep(_RESERVATION_S + 1)
        again_ms = now_ms()
        with worker:
            await kafka.until(lambda: "later" in _placed(kafka))

            # The unconfirmed reservation of the last pod may have expired.
            assert _expired(kafka) <= {"later"}
            placed = _placed(kafka)["later"]
            assert placed.expires_at_ms is not None
            assert placed.expires_at_ms > again_ms, "it was not decided by a time long gone"
            await kafka.until(lambda: _has_second_epoch(kafka))
            assert _first_of_clock(kafka) > _last_of_lifecycle(kafka, len(events))


def _journal(kafka: Client) -> list[JournalBatch]:
    values = [value for topic, _, value in kafka.received if topic == JOURNAL]
    records = [read_record(value) for value in values]
    return [
        join_parts([part])
        for part in records
        if not isinstance(part, Refusal) and part[0].partition == _PARTITION and not part[0].opens
    ]


def _applied(kafka: Client) -> set[str]:
    """Topics with applied records."""
    return {run.topic for batch in _journal(kafka) for run in batch.inputs}


def _ticks(kafka: Client) -> list[JournalBatch]:
    """Batches with ticks."""
    return [batch for batch in _journal(kafka) if any(run.topic == "clock" for run in batch.inputs)]


def _has_second_epoch(kafka: Client) -> bool:
    """The second writer has applied a tick."""
    return len({batch.epoch for batch in _ticks(kafka)}) == 2


def _first_of_clock(kafka: Client) -> int:
    """The first batch of the second writer with a tick."""
    epoch = max(batch.epoch for batch in _ticks(kafka))
    return min(batch.sequence for batch in _ticks(kafka) if batch.epoch == epoch)


def _last_of_lifecycle(kafka: Client, count: int) -> int:
    """The batch that applied the last event of the outage."""
    return min(
        batch.sequence
        for batch in _journal(kafka)
        for run in batch.inputs
        if run.topic == "pod-lifecycle" and run.last_offset >= count - 1
    )
