"""Faust's app and its Kafka transport, with what Faust has no settings for.

Faust lets a fetch of idle partitions wait for 1.5 s at the broker, without a setting for it. A
broker may hold back one partition's records for as long while another one is idle; the embedded
broker does. That would be the latency of a decision, so the wait is shortened before the consumer
starts.

Faust hands over message by message, which takes longer than a decision may: conductor, queue,
stream and acknowledgement each have their share. So what a fetch brought of a partition travels as
a `Parcel`, one message to Faust with many records in it: flow control, generations and commits stay
Faust's, and cost once a parcel. Changelogs, which Faust reads for itself, come as always.

A fetch that is under way while partitions change hands may bring records that no worker may have at
that moment. Faust drops them although its consumer has read past them. In a changelog no other
record might follow, and recovery would wait for them for ever. Here they are given back: reading
goes on from the first of them.

A fetch may end with offsets without a record. Faust's recovery would wait for their records, so a parcel
without records stands for them behind a changelog's last row.

Faust also empties its queues each time that it resumes the flow, which it does once more when
recovery is over. Rows of a standby copy that wait in one at that moment are not read again: the
copy would lack them for ever, without a notice. Here a flow that goes on already is left as it is.

Faust starts an app's tasks only when its tables are recovered; its companions run from the start
on.
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

from streams.worker.membership import Standing, standing
from streams.worker.parcels import FetchedRange, make_parcel, split

#: Most parcels that wait in a stream before the consumer stops fetching.
PARCELS_QUEUED_MAX = 32


def in_flight(consumer: Any, topics: Collection[str]) -> int:
    """Records of these topics that were fetched and are not acknowledged."""
    return sum(len(parcel.records) for parcel in consumer.unacked if parcel.topic in topics)


class _PromptThread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        app: Any = self.app
        consumer._fetch_max_wait_ms = app.fetch_wait_ms  # noqa: SLF001 - Faust names no other way
        return consumer

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: Any,
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> Any:
        """Return what has been read through; waits for the first of it."""
        until_s = time.monotonic() + (timeout or 0)
        fetcher = consumer._fetcher  # noqa: SLF001 - Faust itself reads through it
        while True:
            assignment = _assignment(consumer)
            before = _positions(assignment, fetcher._records)  # noqa: SLF001
            # Does not wait where partitions stay: nobody seeks between the two positions.
            records = await super()._fetch_records(consumer, active_partitions, 0, max_records)
            if _assignment(consumer) is not assignment:
                before = {}
            after = _positions(_assignment(consumer), {*before, *records})
            found = {}
            for tp, following in after.items():
                of_tp = records.get(tp, ())
                first = before.get(tp, of_tp[0].offset if of_tp else following)
                if first < following:
                    found[tp] = FetchedRange(first, following, of_tp)
            left_s = until_s - time.monotonic()
            if found or left_s <= 0 or not self.consumer.flow_active:
                return found
            waiter = fetcher._create_fetch_waiter()  # noqa: SLF001
            done, _ = await asyncio.wait([waiter], timeout=left_s)
            waiter.cancel()
            if fetcher._closed:  # noqa: SLF001 - the worker ends
                return {}
            for each in done:
                each.result()  # raises what the brokers refuse

    def group_standing(self) -> Standing:
        """How the client stands with its group; in the thread that fetches."""
        return standing(self._consumer)

    def read_again(self, left: Mapping[Any, tuple[int, int]]) -> None:
        """Let reading go on from the first of two offsets, where it has come to the second and
        nowhere else.

        In the thread that fetches, so that no seek comes in between.
        """
        consumer: Any = self._ensure_consumer()
        positions = _positions(_assignment(consumer), left)
        for tp, (first, following) in left.items():
            if positions.get(tp) == following:
                consumer.seek(tp, first)


def _assignment(consumer: Any) -> Any:
    """The assignment of a consumer of aiokafka; None: it has none."""
    subscription = consumer._subscription.subscription  # noqa: SLF001 - its own `position` may wait
    return None if subscription is None else subscription.assignment


def _positions(assignment: Any, partitions: Collection[Any]) -> dict[Any, int]:
    """Where reading stands in those of the partitions where it stands somewhere."""
    states = {} if assignment is None else {tp: assignment.state_value(tp) for tp in partitions}
    return {
        tp: state.position
        for tp, state in states.items()
        if state is not None and state.has_valid_position
    }


class _PromptConsumer(Consumer):
    app: Any

    def _new_consumer_thread(self) -> Any:
        return _PromptThread(self, loop=self.loop, beacon=self.beacon)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[Any, Any]]:
        """What a fetch brought: parcels of the app's own topics, single messages of all others."""
        generation = self.app.consumer_generation_id
        records: Any
        records, active = await self._wait_next_records(timeout)
        if not records or self.should_stop:
            return
        left = {tp: (found.first, found.following) for tp, found in records.items()}
        closed: set[Any] = set()
        for tp, message in self._messages(records):
            if not self._goes_on(generation):
                break
            if tp in closed:
                continue
            if not (active is None or tp in active or tp in self._buffered_partitions):
                closed.add(tp)
                continue
            self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
            yield tp, message
            left[tp] = (message.offset + 1, left[tp][1])
        left = {tp: span for tp, span in left.items() if span[0] < span[1]}
        if left and not self.should_stop:
            thread: Any = self._thread
            await thread.call_thread(thread.read_again, left)

    async def group_standing(self) -> Standing:
        """How the client stands with its group; it tries again to join after an error."""
        thread: Any = self._thread
        if thread is None or not thread.started:
            return Standing(member=False)
        found: Standing = await thread.call_thread(thread.group_standing)
        return found

    async def _seek(self, partition: Any, offset: int) -> None:
        # In the thread that fetches: Faust would clear that thread's buffers from this one, and a
        # fetch that is being handed over just then would end the worker.
        thread: Any = self._thread
        await thread.call_thread(thread.seek, partition, offset)

    def _goes_on(self, generation: int) -> bool:
        """No rebalance has begun since."""
        return self.flow_active and bool(self.app.consumer_generation_id == generation)

    def _messages(self, fetched: Mapping[Any, FetchedRange]) -> Iterator[tuple[Any, Any]]:
        packed: Collection[str] = self.app.packed_topics
        scheduler: Any = self.scheduler
        generation = self.app.consumer_generation_id
        parcels = {tp: list(split(each)) for tp, each in fetched.items() if tp.topic in packed}
        if len(parcels) < len(fetched):
            others = {tp: each for tp, each in fetched.items() if tp not in parcels}
            rows = {tp: each.records for tp, each in others.items() if each.records}
            for tp, record in scheduler.iterate(rows):
                yield tp, self._to_message(tp, record)
            for tp, (first, following, records) in others.items():
                behind = records[-1].offset + 1 if records else first
                if behind < following:
                    yield tp, make_parcel(tp, FetchedRange(behind, following, ()), generation)
        for number in range(max(map(len, parcels.values()), default=0)):
            for tp, pieces in parcels.items():
                if number < len(pieces):
                    yield tp, make_parcel(tp, pieces[number], generation)

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        if tp.topic not in self.app.packed_topics:
            await super()._add_gap(tp, offset_from, offset_to)

    def _new_offset(self, tp: Any) -> int | None:
        """What to commit; parcels of a partition are acknowledged in their order."""
        if tp.topic not in self.app.packed_topics:
            return super()._new_offset(tp)
        acked = self._acked[tp]
        if not acked:
            return None
        following = max(acked) + 1
        acked.clear()
        self._acked_index[tp].clear()
        return following


class PromptTransport(Transport):
    """The transport of a worker."""

    Consumer = _PromptConsumer


class _Flow(FlowControlEvent):
    """Queues are emptied when the flow begins again after a rebalance has stopped it, before
    anything is read anew; never while it goes on."""

    def resume(self) -> None:
        """Let records into the queues; does nothing where they are let in already."""
        if not self.is_active():
            super().resume()


class WorkerApp(faust.App):
    """A Faust app that reads through `PromptTransport`."""

    fetch_wait_ms: int = 100
    """Longest time that the broker waits for records before it answers a fetch with none."""
    packed_topics: frozenset[str] = frozenset()
    """Topics whose records come as parcels; `inputs` adds to them."""
    row_read_at_s: float = 0.0
    """When recovery read a row last, by the monotonic clock."""
    companions: tuple[Callable[[], Awaitable[None]], ...] = ()
    """Run beside the agents, also while tables are recovered; cancelled at the end."""

    @cached_property
    def flow_control(self) -> FlowControlEvent:
        """Whether records are let into the queues of streams and tables."""
        return _Flow(loop=self.loop)

    async def on_start(self) -> None:
        """Start the companions with the app."""
        await super().on_start()
        for companion in self.companions:
            self.add_future(companion())

    async def group_standing(self) -> Standing:
        """How the worker stands with its consumer group."""
        consumer: Any = self.consumer
        found: Standing = await consumer.group_standing()
        return found

    def inputs(self, topics: Collection[str]) -> Any:
        """A Faust topic for these topics; the messages of its stream are parcels."""
        self.packed_topics |= frozenset(topics)
        return self.topic(
            *topics, key_serializer="raw", value_serializer="raw", maxsize=PARCELS_QUEUED_MAX
        )

    def _new_transport(self) -> Any:
        return PromptTransport(self.conf.broker_consumer, self)
