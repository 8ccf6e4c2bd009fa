"""A worker that stood still, woke up and went on, while another one had its partition."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from schemas.settings.connection import KafkaSettings
from schemas.storage.tables import WINDOWS
from streams.aggregate.collect_policies import AggregateLimits
from streams.aggregate.stage import AggregateStage
from streams.stage.records import AppliedBatch, InputRecord, StageResult
from streams.worker.consume.transport import WorkerApp, broker_urls
from streams.worker.store import fence
from streams.worker.store.fence import FencedPublisher
from streams.worker.store.publisher import LostOwnership
from streams.worker.store.writethrough import WriteThrough
from streams.worker.tables import RowTable
from tests.conftest import RunningBroker
from tests.streams.aggregate.observer import AggregateWorker, observer
from tests.streams.aggregate.test_agent import NODES, assert_complete, minutes, settled
from tests.streams.builders import MINUTE, pod_usage, sample
from tests.streams.world import Log, aggregate_stage

pytestmark = pytest.mark.timeout(400)

#: A node is looked for after every record, and forgotten soon.
LIMITS = AggregateLimits(sweep_records=1, forget_after_ms=MINUTE)
DAY_S = 86_400


class Owner:
    """The part of a worker that owns one partition: it opens, applies and commits."""

    def __init__(self, kafka: KafkaSettings) -> None:
        app: Any = WorkerApp("test", broker=broker_urls(kafka), store="memory://")
        self.table = RowTable(app, WINDOWS, 1)
        self.publisher = FencedPublisher(kafka)
        self.durability = WriteThrough(kafka, self.publisher, self.table)
        self.stage = aggregate_stage(limits=LIMITS)

    async def open(self) -> AggregateStage:
        """Take the partition over with an empty state."""
        opened = await self.durability.open(0, {}, {})
        self.stage = aggregate_stage(opened, limits=LIMITS)
        return self.stage

    async def go_on(self, records: list[InputRecord]) -> StageResult:
        """Apply records and make them durable."""
        result = self.stage.apply(records)
        await self.durability.commit([AppliedBatch(0, records, result)])
        return result


@asynccontextmanager
async def owners(kafka: KafkaSettings, count: int) -> AsyncIterator[list[Owner]]:
    """Owners one after the other, though the first ones do not know."""
    owners = [Owner(kafka) for _ in range(count)]
    try:
        yield owners
    finally:
        for owner in owners:
            await owner.publisher.stop()


def nodes_of(subject: AggregateStage) -> Any:
    """The state of a stage that must survive a takeover."""
    return subject.positions, {
        name: (
            node.since_offset,
            node.reported_at_ms,
            node.samples.times.tolist(),
            node.pods.compute_means(0, node.samples.resources),
        )
        for name, node in subject.state.nodes.items()
    }


def history() -> tuple[Log, list[InputRecord], list[InputRecord], list[InputRecord]]:
    """A node is there; it is forgotten, and rows with it; it comes back with other pods."""
    log = Log()
    first = log.add(
        *(sample(at, node="n0", pods=[pod_usage("old", at)]) for at in range(10)),
        *(sample(DAY_S + at, node="n1", pods=[pod_usage("p", at)]) for at in range(5)),
    )
    gone = log.add(*(sample(DAY_S + at, node="n1") for at in range(10, 30)))
    back = log.add(
        *(
            sample(
                DAY_S + at,
                node=node,
                pods=[pod_usage("new", at), pod_usage("other", 1)],
            )
            for at in range(40, 50)
            for node in ("n0", "n1")
        )
    )
    return log, first, gone, back


@pytest.mark.kafka
async def test_the_broker_refuses_writes_of_a_replaced_worker(
    clean_kafka: RunningBroker,
) -> None:
    """Its write would remove the row of a node that reported to its successor."""
    log, first, gone, back = history()
    straight = aggregate_stage(limits=LIMITS)
    straight.apply(log.records)
    async with owners(clean_kafka.settings, 3) as (stalled, successor, third):
        await stalled.open()
        await stalled.go_on(first)
        await successor.open()
        assert successor.stage.positions == {"node-usage": first[-1].offset}
        await successor.go_on(gone + back)
        rows = stalled.stage.apply(gone).rows
        assert [row.key for row in rows if row.value is None and "/members/" in row.key]
        with pytest.raises(LostOwnership, match="another worker owns partition 0"):
            await stalled.durability.commit([AppliedBatch(0, gone, StageResult((), rows))])
        await third.open()
        assert nodes_of(third.stage) == nodes_of(successor.stage) == nodes_of(straight)
        more = log.add(sample(DAY_S + 120, node="n0", pods=[pod_usage("new", 7)]))
        assert (await third.go_on(more)).outputs == straight.apply(more).outputs != ()


@pytest.mark.kafka
async def test_rows_written_before_the_partition_was_claimed_are_not_lost(
    clean_kafka: RunningBroker,
) -> None:
    """The successor has recovered the table already when its predecessor writes for the last time."""
    log, first, gone, back = history()
    async with owners(clean_kafka.settings, 2) as (before, successor):
        await before.open()
        await before.go_on(first)
        recovered = before.table.read_rows([0])[0]
        await before.go_on(gone)
        opened = await successor.durability.open(0, dict(recovered), {})
        assert opened == before.table.read_rows([0])[0] != recovered
        successor.stage = aggregate_stage(opened, limits=LIMITS)
        await successor.go_on(back)
        with pytest.raises(LostOwnership):
            await before.go_on(back)
    assert log.records[-1].offset == successor.stage.positions["node-usage"]


async def test_without_fencing_both_workers_notice_each_other(
    embedded: RunningBroker,
) -> None:
    _, first, gone, back = history()
    async with owners(embedded.settings, 2) as (stalled, successor):
        await stalled.open()
        await stalled.go_on(first)
        await successor.open()
        await successor.go_on(gone)
        with pytest.raises(LostOwnership):
            await stalled.go_on(gone)
        with pytest.raises(LostOwnership):
            await successor.go_on(back)


async def test_a_renewed_claim_fences_only_earlier_claims(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first, gone, back = history()
    async with owners(broker.settings, 2) as (stalled, successor):
        await stalled.open()
        await stalled.go_on(first)
        monkeypatch.setattr(fence, "CLAIM_S", -1.0)
        await stalled.go_on(gone)
        await successor.open()
        # It claims the partition again, and finds that somebody has written since.
        with pytest.raises(LostOwnership):
            await stalled.go_on(back)


@pytest.mark.kafka
async def test_a_worker_that_resumes_late_does_no_harm(
    clean_kafka: RunningBroker, tmp_path: Path
) -> None:
    settings = clean_kafka.settings
    async with observer(settings) as kafka:
        with (
            AggregateWorker(settings, tmp_path / "one") as one,
            AggregateWorker(settings, tmp_path / "two") as two,
        ):
            two.kill()
            await kafka.send(minutes(0, 6))
            await settled(kafka, one)
            # The owner stalls with records that it has not applied.
            await kafka.send(minutes(6, 9))
            one.stall()
            two.start()
            await kafka.send(minutes(9, 12))
            await settled(kafka, two)
            one.resume()
            await kafka.send(minutes(12, 15))
            await settled(kafka)
            one.kill()
            two.kill()
            two.start()
            await kafka.send(minutes(15, 18))
            await settled(kafka, two)
            await kafka.until(lambda: len(kafka.published()) >= NODES * 17, two)
            assert_complete(kafka)
