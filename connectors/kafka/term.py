"""The term of the active process of a group: when the process may write, and its progress.

A process that was suspended, or disconnected from its brokers, learns too late that another process
is active. Therefore `writing` first commits to the group's coordinator, unless a commit succeeded
recently. After a commit the coordinator gives the partition to no other member for the session
timeout; we rely on half of that time.

A request that was sent before the end of the term can still arrive later. Such a request must be
harmless: bindings and evictions have the pod's uid as precondition.
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

#: The member with the cluster's partition of this topic is active.
LOCK = "placement-decisions"
#: A member without heartbeats for this time is replaced, in seconds.
SESSION_S = 10.0
#: How long a commit permits writes, in seconds: well below the session timeout.
LEASE_S = SESSION_S / 2
#: Time between two commits of progress, in seconds.
COMMIT_S = 1.0
#: Pause after a failed commit, in seconds.
RETRY_S = 0.25
#: How long a rebalance waits for writes, in seconds. The API server aborts a request after a minute;
#: a request to Kafka also times out after a minute.
END_S = 75.0


class TermOver(Exception):
    """Another member is or will be active: no further write is permitted."""


class LeaderTerm:
    """The time in which this process is active."""

    def __init__(
        self,
        consumer: Any,
        partition: int,
        positions: Mapping[str, int],
        committed: Collection[str],
    ) -> None:
        """`positions`: first offset to read, by topic; `committed`: topics with committed progress."""
        self.partition = partition
        """The cluster's partition in every topic."""
        self.over = asyncio.Event()
        """Set when another member may be active."""
        self.read_up_to = dict(positions)
        """Offset after the newest record read, by topic."""
        self._consumer = consumer
        self._done = {topic: positions[topic] for topic in committed}
        self._committed: dict[str, int] = {}
        self._confirmed_at_s = float("-inf")
        self._suspended_at_s = float("-inf")
        """Time of the commit at the beginning of the last rebalance."""
        self._confirming = asyncio.Lock()
        self._running = asyncio.Event()
        self._running.set()
        self._writes = 0
        self._no_writes = asyncio.Event()
        self._no_writes.set()
        self._queues: dict[str, asyncio.Queue[Any]] = {
            topic: asyncio.Queue() for topic in positions
        }

    async def records(self, topic: str) -> AsyncIterator[Any]:
        """Yield the records of a topic in order, until the term is over."""
        while not self.over.is_set():
            record = await self._queues[topic].get()
            if record is None:
                return
            yield record

    def count_buffered(self, topic: str) -> int:
        """Return the number of a topic's records that are read and not yet processed."""
        return self._queues[topic].qsize()

    def mark_done(self, topic: str, next_offset: int) -> None:
        """Mark the records of a topic before this offset as done.

        After the term this has no effect: the next active process starts at the committed offset.
        """
        self._done[topic] = next_offset

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Wrap each write; waits during a rebalance, and until a commit succeeds.

        Raises TermOver.
        """
        await self._wait_for_permission()
        self._begin_write()
        try:
            yield
        finally:
            self._end_write()

    def track_write(self, written: asyncio.Future[Any]) -> None:
        """Count a write that continues after `writing`, until the future is done."""
        self._begin_write()
        written.add_done_callback(self._end_write)

    async def run_during(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work until it ends or the term is over; raises exceptions of the work."""
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
        """Commit the progress; tell whether the coordinator accepted it."""
        async with self._confirming:
            if not self._running.is_set():
                return False  # a late commit must not reach the next generation of the group
            if time.monotonic() - self._confirmed_at_s < RETRY_S:
                return True  # another task has committed meanwhile
            return await self._commit()

    async def _commit(self) -> bool:
        requested_at_s = time.monotonic()
        done = {LOCK: 0, **self._done}
        offsets = {TopicPartition(topic, self.partition): offset for topic, offset in done.items()}
        try:
            # Not `wait_for`, which loses a cancellation if the answer has already arrived.
            async with asyncio.timeout(SESSION_S):
                await self._consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            logger.info("the group did not confirm that this process is active: %s", reason)
            return False
        self._confirmed_at_s = requested_at_s
        self._committed = done
        return True

    @property
    def is_commit_due(self) -> bool:
        """Whether there is uncommitted progress and the last commit is old enough."""
        changed = any(self._committed.get(topic) != offset for topic, offset in self._done.items())
        return changed and time.monotonic() - self._confirmed_at_s > COMMIT_S

    async def suspend(self) -> None:
        """Before a rebalance: block new writes, wait for the writes under way, and commit."""
        self._running.clear()
        try:
            async with asyncio.timeout(END_S):
                await self._no_writes.wait()
        except TimeoutError:
            logger.warning("%d writes were not complete after %g s", self._writes, END_S)
        async with self._confirming:
            confirmed = await self._commit()
            self._suspended_at_s = self._confirmed_at_s if confirmed else float("-inf")
            self._confirmed_at_s = float("-inf")

    @property
    def is_unbroken(self) -> bool:
        """Whether the commit of `suspend` is so recent that no other process was active since then.

        A suspended process may have been replaced meanwhile and get the partition back.
        """
        return time.monotonic() - self._suspended_at_s < SESSION_S

    def resume(self) -> None:
        self._running.set()

    def end(self) -> None:
        self.over.set()
        self._running.set()
        for queue in self._queues.values():
            queue.put_nowait(None)

    def add_records(self, topic: str, records: Sequence[Any]) -> None:
        for record in records:
            self._queues[topic].put_nowait(record)
        self.read_up_to[topic] = records[-1].offset + 1

    def _begin_write(self) -> None:
        self._writes += 1
        self._no_writes.clear()

    def _end_write(self, _: object = None) -> None:
        self._writes -= 1
        if not self._writes:
            self._no_writes.set()

    async def _wait_for_permission(self) -> None:
        while True:
            await self._running.wait()
            if self.over.is_set():
                raise TermOver
            if time.monotonic() - self._confirmed_at_s < LEASE_S:
                return
            if not await self.confirm():
                await asyncio.sleep(RETRY_S)
