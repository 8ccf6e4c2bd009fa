"""A process's place in a consumer group of which one member at a time is active for a cluster.

    Membership.run(work)      joins the group and stays in it
    work(turn)                runs as long as this process is the active one
    async with turn.writing() comes in as soon as nobody else can be active; around each write

The member that is assigned the cluster's partition of `placement-decisions` is active. When the group is
rebalanced, nothing new is written, what is being written comes to its end, and how far everything
is, is committed; only then does the group go on. If the partition comes back to this process, the
turn goes on where it was, and otherwise it is over.

A process that stood still, or was cut off from its brokers, learns too late that another is active.
So `writing` asks the group's coordinator, by a commit, unless it has confirmed a moment ago. After
that the coordinator gives the partition to nobody else for the session time-out, and a confirmation
counts for half of it.

Not guaranteed: that a request which was sent before the turn was over does not arrive later. What is
written must bear that: bindings and evictions name the pod's uid.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from schemas.connection import KafkaSettings
from schemas.limits import BATCH_BYTES_MAX
from schemas.partitions import partition_for

logger = logging.getLogger(__name__)

#: The topic whose partition says who is active.
LOCK = "placement-decisions"
#: A member that was not heard of for so long is replaced, in seconds.
SESSION_S = 10.0
#: How long a confirmation counts, in seconds: well below the session time-out.
LEASE_S = SESSION_S / 2
#: How often what is done is committed, in seconds.
COMMIT_S = 1.0
#: Pause after a confirmation that failed, in seconds.
RETRY_S = 0.25
#: Pause before a group is joined anew, in seconds.
REJOIN_S = 1.0
#: How long writes may take to come to their end at a rebalance, in seconds. The API server gives a
#: request up after a minute; a group waits for a member for five.
END_S = 75.0
#: Records that are read and not asked for yet: the partition is not read on until some are.
AHEAD_MAX = 2_000
_POLL_MS = 100
_RECORDS_PER_POLL = 500

#: Where to begin in a topic and partition of which the group has done nothing yet.
Beginning = Callable[[str, int], Awaitable[int]]


class TurnOver(Exception):
    """Another member is the active one, or will be: nothing more may be written."""


class Turn:
    """The time in which this process is the active one."""

    def __init__(
        self,
        consumer: Any,
        partition: int,
        positions: Mapping[str, int],
        committed: Collection[str],
    ) -> None:
        """`positions` are the offsets from which the topics that are read go on; of those among
        `committed` it is kept how far they are done."""
        self.partition = partition
        """The cluster's partition of every topic."""
        self.over = asyncio.Event()
        """Set once another may be the active one."""
        self.read_up_to = dict(positions)
        """Offset that follows on the newest record read, by topic."""
        self._consumer = consumer
        self._done = {topic: positions[topic] for topic in committed}
        self._committed: dict[str, int] = {}
        self._confirmed_at_s = float("-inf")
        self._confirming = asyncio.Lock()
        self._going = asyncio.Event()
        self._going.set()
        self._writes = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._arrived: dict[str, asyncio.Queue[Any]] = {
            topic: asyncio.Queue() for topic in positions
        }

    async def records(self, topic: str) -> AsyncIterator[Any]:
        """The records of a topic that is read, in their order; ends when the turn is over."""
        while not self.over.is_set():
            record = await self._arrived[topic].get()
            if record is None:
                return
            yield record

    def ahead(self, topic: str) -> int:
        """Records of a topic that were read and nobody has asked for yet."""
        return self._arrived[topic].qsize()

    def done(self, topic: str, next_offset: int) -> None:
        """Records of a topic before this offset need not come again."""
        self._done[topic] = next_offset

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Around each write; waits while the group is being rebalanced or nobody confirms.

        Raises TurnOver.
        """
        await self._permitted()
        self._writes += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._writes -= 1
            if not self._writes:
                self._quiet.set()

    async def confirm(self) -> bool:
        """Commit how far everything is; whether the coordinator took that from us."""
        async with self._confirming:
            asked_at_s = time.monotonic()
            if asked_at_s - self._confirmed_at_s < RETRY_S:
                return True  # another has asked meanwhile
            done = {LOCK: 0, **self._done}
            offsets = {TopicPartition(topic, self.partition): at for topic, at in done.items()}
            try:
                await asyncio.wait_for(self._consumer.commit(offsets), SESSION_S)
            except (CommitFailedError, IllegalStateError, KafkaError, TimeoutError) as error:
                logger.info("not confirmed as the active one: %s", error or type(error).__name__)
                return False
            self._confirmed_at_s = asked_at_s
            self._committed = done
            return True

    @property
    def is_commit_due(self) -> bool:
        """More is done than was committed a moment ago."""
        more = any(self._committed.get(topic) != at for topic, at in self._done.items())
        return more and time.monotonic() - self._confirmed_at_s > COMMIT_S

    async def suspend(self) -> None:
        """The group is being rebalanced: begin nothing, and let what has begun come to its end."""
        self._going.clear()
        try:
            await asyncio.wait_for(self._quiet.wait(), END_S)
        except TimeoutError:
            logger.warning("%d writes have not ended after %g s", self._writes, END_S)
        self._confirmed_at_s = float("-inf")
        await self.confirm()
        self._confirmed_at_s = float("-inf")

    def resume(self) -> None:
        """The partition has come back to this process."""
        self._going.set()

    def end(self) -> None:
        """The partition is another's."""
        self.over.set()
        self._going.set()
        for queue in self._arrived.values():
            queue.put_nowait(None)

    def arrived(self, topic: str, records: Sequence[Any]) -> None:
        """Records of a topic have come."""
        for record in records:
            self._arrived[topic].put_nowait(record)
        self.read_up_to[topic] = records[-1].offset + 1

    async def _permitted(self) -> None:
        while True:
            await self._going.wait()
            if self.over.is_set():
                raise TurnOver
            if time.monotonic() - self._confirmed_at_s < LEASE_S:
                return
            if not await self.confirm():
                await asyncio.sleep(RETRY_S)


class Membership(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka exports no types
    """Joins a group; `run` is called once."""

    def __init__(
        self,
        kafka: KafkaSettings,
        cluster: str,
        duty: str,
        *,
        topics: Collection[str] = (),
        newest: Collection[str] = (),
        begin: Beginning | None = None,
    ) -> None:
        """Join with the first call.

        Args:
            kafka: how to reach the brokers.
            cluster: whose partition counts.
            duty: one word; there is one group per cluster and duty.
            topics: are read by the active member, from what the group has not done yet.
            newest: are read by it from their newest record on.
            begin: where to begin in those of which it has done nothing; without it: at the first
                record that there is.
        """
        self.group = f"loadstream-{duty}-{cluster}"
        self.turn: Turn | None = None
        """The turn of this process; none: it stands by."""
        self._kafka = kafka
        self._partition = partition_for(cluster.encode(), kafka.partitions)
        self._kept = sorted(topics)
        self._newest = sorted(newest)
        self._read = (*self._kept, *self._newest)
        self._begin = begin
        self._work: Callable[[Turn], Awaitable[None]] = _nothing
        self._task: asyncio.Future[None] | None = None
        self._leaving = False
        self._consumer: Any = None

    async def run(self, work: Callable[[Turn], Awaitable[None]]) -> None:
        """Stay in the group, and do the work whenever it is this process's turn.

        Returns only by cancellation, or raises what `work` raises. The group is left either way.
        """
        self._work = work
        while True:
            try:
                await self._stay()
            except KafkaError as error:
                why = str(error) or type(error).__name__
                logger.warning("%s: left the group: %s; it is joined anew", self.group, why)
                await asyncio.sleep(REJOIN_S)

    async def _stay(self) -> None:
        """Join, and stay until something fails."""
        self._leaving = False
        self._consumer = AIOKafkaConsumer(
            **self._kafka.aiokafka_options(),
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # Each topic's partitions to the same members, so that the cluster's come together.
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=round(SESSION_S * 1000),
            heartbeat_interval_ms=round(SESSION_S * 1000 / 4),
            max_partition_fetch_bytes=BATCH_BYTES_MAX,
        )
        try:
            await self._consumer.start()
            self._consumer.subscribe(sorted({LOCK, *self._read}), listener=self)
            while True:
                await self._step()
        finally:
            self._leaving = True  # what the group assigns meanwhile is not taken
            try:
                if self.turn is not None:
                    await self.turn.suspend()
                    await self._end()
            finally:
                await self._consumer.stop()

    async def _step(self) -> None:
        """Take records, commit, and look whether the work has failed."""
        found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS_PER_POLL)
        turn, task = self.turn, self._task
        if turn is None or task is None:
            return
        for place, records in found.items():
            if self._wanted(place):
                turn.arrived(place.topic, records)
        for place in filter(self._wanted, self._consumer.assignment()):
            if turn.ahead(place.topic) >= AHEAD_MAX:
                self._consumer.pause(place)
            elif turn.ahead(place.topic) < AHEAD_MAX // 2:
                self._consumer.resume(place)
        if task.done():
            await task
            raise RuntimeError(f"{self.group}: the work has ended before its turn")
        if turn.is_commit_due:
            await turn.confirm()

    def _wanted(self, place: Any) -> bool:
        return place.partition == self._partition and place.topic in self._read

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Before the group is rebalanced; it waits for this."""
        if self.turn is not None:
            await self.turn.suspend()

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """After the group was rebalanced."""
        if self._leaving:
            return
        others = [place for place in assigned if not self._wanted(place)]
        self._consumer.pause(*others)
        if TopicPartition(LOCK, self._partition) not in assigned:
            await self._end()
        elif self.turn is not None:
            for topic, offset in self.turn.read_up_to.items():
                self._consumer.seek(TopicPartition(topic, self._partition), offset)
            self.turn.resume()
        else:
            await self._take_over()

    async def _take_over(self) -> None:
        positions = await self._positions()
        if self._leaving:
            return
        logger.info("%s: this process is the active one", self.group)
        self.turn = Turn(self._consumer, self._partition, positions, self._kept)
        self._task = asyncio.ensure_future(self._work(self.turn))

    async def _positions(self) -> dict[str, int]:
        """Where each topic that is read goes on; the consumer is put there."""
        kept = [TopicPartition(topic, self._partition) for topic in self._kept]
        newest = [TopicPartition(topic, self._partition) for topic in self._newest]
        found = {place: await self._consumer.committed(place) for place in kept}
        for place in [each for each in kept if found[each] is None]:
            found[place] = await self._begin(*place) if self._begin else 0
        if newest:
            ends = await self._consumer.end_offsets(newest)
            found.update({place: max(0, end - 1) for place, end in ends.items()})
        for place, offset in found.items():
            self._consumer.seek(place, offset)
        return {place.topic: offset for place, offset in found.items()}

    async def _end(self) -> None:
        """Another is the active one."""
        turn, task = self.turn, self._task
        self.turn = self._task = None
        if turn is None or task is None:
            return
        turn.end()
        _, late = await asyncio.wait([task], timeout=END_S)
        for each in late:
            each.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, Exception) and not isinstance(ended, TurnOver):
            logger.error("%s: the work has failed at its end", self.group, exc_info=ended)
        logger.info("%s: this process is not the active one any more", self.group)


async def _nothing(turn: Turn) -> None:
    """The work before there is any."""
    await turn.over.wait()
