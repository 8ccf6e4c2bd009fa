"""The time in which a process is the active one of its group: what it may write, and what is done.

A process that stood still, or was cut off from its brokers, learns too late that another is active.
So `writing` asks the group's coordinator, by a commit, unless it has confirmed a moment ago. After
that the coordinator gives the partition to nobody else for the session timeout, and a confirmation
counts for half of it.

Not guaranteed: that a request which was sent before the term was over does not arrive later. What
is written must bear that: bindings and evictions name the pod's uid.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

logger = logging.getLogger(__name__)

#: The topic whose partition says who is active.
LOCK = "placement-decisions"
#: A member that was silent for this time is replaced, in seconds.
SESSION_S = 10.0
#: How long a confirmation counts, in seconds: well below the session timeout.
LEASE_S = SESSION_S / 2
#: How often what is done is committed, in seconds.
COMMIT_S = 1.0
#: Pause after a confirmation that failed, in seconds.
RETRY_S = 0.25
#: How long writes may take to come to their end at a rebalance, in seconds. The API server gives a
#: request up after a minute, and Kafka a record.
END_S = 75.0


class TermOver(Exception):
    """Another member is the active one, or will be: nothing more may be written."""


class LeaderTerm:
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
        self._suspended_at_s = float("-inf")
        """When the group confirmed, as it was about to be rebalanced, that this process is active."""
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
        """The records of a topic that is read, in their order; ends when the term is over."""
        while not self.over.is_set():
            record = await self._arrived[topic].get()
            if record is None:
                return
            yield record

    def ahead(self, topic: str) -> int:
        """Records of a topic that were read and not asked for yet."""
        return self._arrived[topic].qsize()

    def done(self, topic: str, next_offset: int) -> None:
        """Records of a topic before this offset need not come again.

        After the term it means nothing: the next active one begins with what was committed.
        """
        self._done[topic] = next_offset

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Around each write; waits while the group is being rebalanced or does not confirm.

        Raises TermOver.
        """
        await self._permitted()
        self._begin_write()
        try:
            yield
        finally:
            self._end_write()

    def under_way(self, written: asyncio.Future[Any]) -> None:
        """A write goes on after `writing` was left, until this is done."""
        self._begin_write()
        written.add_done_callback(self._end_write)

    async def during(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work until it ends, or drop it when the term is over; raises what it raises."""
        working = asyncio.ensure_future(work)
        over = asyncio.ensure_future(self.over.wait())
        try:
            await asyncio.wait((working, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            working.cancel()
            await asyncio.wait((working,))
        if not working.cancelled():
            working.result()

    async def confirm(self) -> bool:
        """Commit how far everything is; whether the coordinator took that from us."""
        async with self._confirming:
            if not self._going.is_set():
                return False  # a commit that is late must not meet the group's next generation
            if time.monotonic() - self._confirmed_at_s < RETRY_S:
                return True  # another has asked meanwhile
            return await self._commit()

    async def _commit(self) -> bool:
        asked_at_s = time.monotonic()
        done = {LOCK: 0, **self._done}
        offsets = {TopicPartition(topic, self.partition): at for topic, at in done.items()}
        try:
            # Not `wait_for`: with an answer that is there already it would lose a cancellation.
            async with asyncio.timeout(SESSION_S):
                await self._consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            logger.info("not confirmed as the active one: %s", why)
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
            async with asyncio.timeout(END_S):
                await self._quiet.wait()
        except TimeoutError:
            logger.warning("%d writes have not ended after %g s", self._writes, END_S)
        async with self._confirming:
            confirmed = await self._commit()
            self._suspended_at_s = self._confirmed_at_s if confirmed else float("-inf")
            self._confirmed_at_s = float("-inf")

    @property
    def is_unbroken(self) -> bool:
        """No other process was active since `suspend`: the group confirmed it a moment ago.

        A process that stood still may have been replaced meanwhile, and get the partition back.
        """
        return time.monotonic() - self._suspended_at_s < SESSION_S

    def resume(self) -> None:
        """The partition has come back to this process, and the term is unbroken."""
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

    def _begin_write(self) -> None:
        self._writes += 1
        self._quiet.clear()

    def _end_write(self, _: object = None) -> None:
        self._writes -= 1
        if not self._writes:
            self._quiet.set()

    async def _permitted(self) -> None:
        while True:
            await self._going.wait()
            if self.over.is_set():
                raise TermOver
            if time.monotonic() - self._confirmed_at_s < LEASE_S:
                return
            if not await self.confirm():
                await asyncio.sleep(RETRY_S)
