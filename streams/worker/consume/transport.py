"""Faust's app and its Kafka transport, adapted where Faust has no settings.

- **Latency.** Faust lets a broker delay an answer without records by 1.5 s. The embedded broker delays
  records of other partitions as well. So the delay is shortened before the consumer starts.
- **Cost per record.** Faust's conductor, queue, stream and acknowledgement take longer per message than
  a decision. So several records of a partition are one `PackedMessage`. Faust still does flow control,
  generations and commits. Messages of changelogs, which Faust reads itself, have one record each.
- **Rebalances.** Faust drops records that a fetch returns during a rebalance, although the consumer's
  position is already behind them. If a changelog has no further record, recovery would wait forever. So
  `read_again` seeks back to the first dropped record.
- **Offsets without a record.** Faust's recovery waits for records at the end of a changelog even if these
  offsets have no records. A `PackedMessage` without records shows that these offsets were read.
- **Standby copies.** Faust empties its queues whenever it resumes the flow, also after recovery. Standby
  copies would silently lose rows in the queues. So `_Flow` does not resume an active flow.
- **Companions.** Faust starts the tasks of an app after the recovery of its tables. Companions are tasks that
  start with the app.
"""

import asyncio
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
)
from functools import cached_property
from typing import Any

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from mode.utils.queues import FlowControlEvent

from schemas.settings.connection import KafkaSettings
from streams.worker.membership import GroupStatus, read_group_status
from streams.worker.packed_messages import FetchedRange, pack_message, split_range

#: Most messages that wait in a stream before the consumer stops fetching.
MESSAGES_QUEUED_MAX = 32


def broker_urls(settings: KafkaSettings) -> list[str]:
    """Return Faust's setting `broker`. Raises NoBroker if no address is configured or announced."""
    return [f"kafka://{server}" for server in settings.servers()]


def broker_credentials(settings: KafkaSettings) -> Any:
    """Return Faust's setting `broker_credentials`: login and encryption; None without both."""
    context = settings.ssl_context()
    if settings.logs_in:
        return faust.SASLCredentials(
            username=settings.sasl_username,
            password=settings.password(),
            ssl_context=context,
            mechanism=settings.sasl_mechanism,
        )
    return faust.SSLCredentials(context) if context is not None else None


def count_in_flight(consumer: Any, topics: Collection[str]) -> int:
    """Return the number of records that are fetched and not acknowledged."""
    return sum(len(message.records) for message in consumer.unacked if message.topic in topics)


class _FetchThread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        app: Any = self.app
        consumer._fetch_max_wait_ms = app.fetch_wait_ms  # noqa: SLF001 - Faust has no setting
        return consumer

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: Any,
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> Any:
        """Return the fetched ranges by partition; wait for the first range."""
        until_s = time.monotonic() + (timeout or 0)
        fetcher = consumer._fetcher  # noqa: SLF001 - Faust uses it, too
        while True:
            assignment = _get_assignment(consumer)
            before = _get_positions(assignment, fetcher._records)  # noqa: SLF001
            # With a timeout of 0 the call does not wait, so nothing seeks between the two positions.
            records = await super()._fetch_records(consumer, active_partitions, 0, max_records)
            if _get_assignment(consumer) is not assignment:
                before = {}
            after = _get_positions(_get_assignment(consumer), {*before, *records})
            ranges = {}
            for tp, end in after.items():
                tp_records = records.get(tp, ())
                first = before.get(tp, tp_records[0].offset if tp_records else end)
                if first < end:
                    ranges[tp] = FetchedRange(first, end, tp_records)
            left_s = until_s - time.monotonic()
            if ranges or left_s <= 0 or not self.consumer.flow_active:
                return ranges
            waiter = fetcher._create_fetch_waiter()  # noqa: SLF001
            finished, _ = await asyncio.wait([waiter], timeout=left_s)
            waiter.cancel()
            if fetcher._closed:  # noqa: SLF001 - the worker ends
                return {}
            for task in finished:
                task.result()  # raises errors of the brokers

    def read_again(self, unread: Mapping[Any, tuple[int, int]]) -> None:
        """Seek back to the first offset of each range, if the position is still at the end of the range.

        Call this method in the fetching thread, so that nothing else seeks meanwhile.
        """
        consumer: Any = self._ensure_consumer()
        positions = _get_positions(_get_assignment(consumer), unread)
        for tp, (first, end) in unread.items():
            if positions.get(tp) == end:
                consumer.seek(tp, first)


def _get_assignment(consumer: Any) -> Any:
    subscription = consumer._subscription.subscription  # noqa: SLF001 - method `position` may wait
    return None if subscription is None else subscription.assignment


def _get_positions(assignment: Any, partitions: Collection[Any]) -> dict[Any, int]:
    """Return the valid positions of partitions."""
    states = {} if assignment is None else {tp: assignment.state_value(tp) for tp in partitions}
    return {
        tp: state.position
        for tp, state in states.items()
        if state is not None and state.has_valid_position
    }


class _PackedConsumer(Consumer):
    app: Any

    def _new_consumer_thread(self) -> Any:
        return _FetchThread(self, loop=self.loop, beacon=self.beacon)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[Any, Any]]:
        """Yield packed messages of the app's inputs, and single messages of all other topics."""
        generation = self.app.consumer_generation_id
        records: Any
        records, active = await self._wait_next_records(timeout)
        if not records or self.should_stop:
            return
        unread = {tp: (fetched.first, fetched.end) for tp, fetched in records.items()}
        closed: set[Any] = set()
        for tp, message in self._build_messages(records):
            if not (self.flow_active and self.app.consumer_generation_id == generation):
                break  # a rebalance has begun
            if tp in closed:
                continue
            if not (active is None or tp in active or tp in self._buffered_partitions):
                closed.add(tp)
                continue
            self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
            yield tp, message
            unread[tp] = (message.offset + 1, unread[tp][1])
        unread = {tp: span for tp, span in unread.items() if span[0] < span[1]}
        if unread and not self.should_stop:
            thread: Any = self._thread
            await thread.call_thread(thread.read_again, unread)

    async def group_status(self) -> GroupStatus:
        """Return the status in the consumer group; after an error, let the client join again."""
        thread: Any = self._thread
        if thread is None or not thread.started:
            return GroupStatus(is_member=False)
        status: GroupStatus = await thread.call_thread(lambda: read_group_status(thread._consumer))  # noqa: SLF001
        return status

    async def _seek(self, partition: Any, offset: int) -> None:
        # Faust seeks in this thread, which clears buffers of the fetching thread. If a fetch returns at that
        # moment, the worker would fail.
        thread: Any = self._thread
        await thread.call_thread(thread.seek, partition, offset)

    def _build_messages(self, fetched: Mapping[Any, FetchedRange]) -> Iterator[tuple[Any, Any]]:
        packed: Collection[str] = self.app.packed_topics
        scheduler: Any = self.scheduler
        generation = self.app.consumer_generation_id
        unpacked = {tp: tp_range for tp, tp_range in fetched.items() if tp.topic not in packed}
        rows = {tp: tp_range.records for tp, tp_range in unpacked.items() if tp_range.records}
        for tp, record in scheduler.iterate(rows):
            yield tp, self._to_message(tp, record)
        for tp, (first, end, records) in unpacked.items():
            next_offset = records[-1].offset + 1 if records else first
            if next_offset < end:
                yield tp, pack_message(tp, FetchedRange(next_offset, end, ()), generation)
        pieces = {tp: list(split_range(fetched[tp])) for tp in fetched if tp.topic in packed}
        for number in range(max(map(len, pieces.values()), default=0)):
            for tp, tp_pieces in pieces.items():
                if number < len(tp_pieces):
                    yield tp, pack_message(tp, tp_pieces[number], generation)

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        if tp.topic not in self.app.packed_topics:
            await super()._add_gap(tp, offset_from, offset_to)

    def _new_offset(self, tp: Any) -> int | None:
        """Return the offset to commit; messages of a partition are acknowledged in order."""
        if tp.topic not in self.app.packed_topics:
            return super()._new_offset(tp)
        acked = self._acked[tp]
        if not acked:
            return None
        next_offset = max(acked) + 1
        acked.clear()
        self._acked_index[tp].clear()
        return next_offset


class WorkerTransport(Transport):
    Consumer = _PackedConsumer


class _Flow(FlowControlEvent):
    def resume(self) -> None:
        """Empty the queues and accept records, unless the flow is active."""
        if not self.is_active():
            super().resume()


class WorkerApp(faust.App):
    """A Faust app that reads through `WorkerTransport`."""

    fetch_wait_ms: int = 100
    """Longest time that a broker delays an answer without records."""
    packed_topics: frozenset[str] = frozenset()
    """Topics read as packed messages; `inputs` adds topics."""
    row_read_at_s: float = 0.0
    """When recovery last read a row, by the monotonic clock."""
    companions: tuple[Callable[[], Awaitable[None]], ...] = ()
    """Coroutines that run as long as the app, also during recovery."""

    @cached_property
    def flow_control(self) -> FlowControlEvent:
        return _Flow(loop=self.loop)

    async def on_start(self) -> None:
        await super().on_start()
        for companion in self.companions:
            self.add_future(companion())

    async def group_status(self) -> GroupStatus:
        consumer: Any = self.consumer
        status: GroupStatus = await consumer.group_status()
        return status

    def inputs(self, topics: Collection[str]) -> Any:
        """Return a Faust topic for these topics; its stream has packed messages."""
        self.packed_topics |= frozenset(topics)
        return self.topic(
            *topics, key_serializer="raw", value_serializer="raw", maxsize=MESSAGES_QUEUED_MAX
        )

    def _new_transport(self) -> Any:
        return WorkerTransport(self.conf.broker_consumer, self)
