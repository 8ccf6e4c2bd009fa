"""Elect the active process of a cluster: one member of a consumer group.

    Leadership.run(work)      joins the group and stays in it
    work(term)                runs while this process is active
    async with term.writing() around each write; waits while another process could be active

The member with the cluster's partition of `placement-decisions` is active. When the group rebalances,
the active process starts no further write, completes the writes under way and commits its position.
Only then the rebalance continues. If the partition comes back to this process, and no other process
can have been active meanwhile, the term continues; otherwise it ends. `connectors.kafka.term` has
the rules of a term.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from connectors.kafka.client import BrokerUnavailable
from connectors.kafka.term import END_S, LOCK, SESSION_S, LeaderTerm, TermOver
from schemas.base.limits import BATCH_BYTES_MAX
from schemas.settings.connection import KafkaSettings, name_duty_group
from schemas.topics.partitions import partition_for

logger = logging.getLogger(__name__)

#: Pause before joining a group again, in seconds.
REJOIN_S = 1.0
#: How long a rebalance waits for members, in seconds: longer than writes and the final commit may take.
#: The group removes a lost member after `SESSION_S`.
REBALANCE_S = END_S + 2 * SESSION_S
#: Most buffered records per topic; reading pauses until some are processed.
BUFFERED_MAX = 2_000
_POLL_MS = 100
_RECORDS_PER_POLL = 500

#: Returns the first offset to read in a topic and partition without a committed offset.
Beginning = Callable[[str, int], Awaitable[int]]


class Leadership(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka exports no types
    """A member of the group; call `run` once."""

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
        """Args:
        kafka: how to reach the brokers.
        cluster: the cluster whose partition decides who is active.
        duty: one word; there is one group per cluster and duty.
        topics: topics that the active member reads from the committed offset on.
        newest: topics that the active member reads from the newest record on.
        begin: first offset for `topics` without a committed offset; default: the first record.
        """
        self.group = name_duty_group(duty, cluster)
        self.term: LeaderTerm | None = None
        """The current term of this process; None: it stands by."""
        self._kafka = kafka
        self._home = TopicPartition(LOCK, partition_for(cluster.encode(), kafka.partitions))
        self._committed_topics = sorted(topics)
        self._newest_topics = sorted(newest)
        self._topics = (*self._committed_topics, *self._newest_topics)
        self._begin = begin
        self._work: Callable[[LeaderTerm], Awaitable[None]] = _wait_until_over
        self._task: asyncio.Future[None] | None = None
        self._assigned: frozenset[Any] = frozenset()
        """Partitions assigned to this process; empty during a rebalance."""
        self._leaving = False
        self._leave_reason: str | None = None
        """Logged reason why this process left the group; None: it has joined again."""
        self._consumer: Any = None

    async def run(self, work: Callable[[LeaderTerm], Awaitable[None]]) -> None:
        """Stay in the group, and run the work whenever this process is active.

        Joins the group again after a KafkaError. Ends, and leaves the group, only by cancellation or an
        exception of `work`.
        """
        self._work = work
        while True:
            try:
                await self._join()
            except* KafkaError as errors:
                reason = "; ".join(
                    str(error) or type(error).__name__ for error in errors.exceptions
                )
                if reason != self._leave_reason:
                    logger.warning("%s: left the group, joining again: %s", self.group, reason)
                self._leave_reason = reason
            await asyncio.sleep(REJOIN_S)

    async def _join(self) -> None:
        self._leaving, self._assigned = False, frozenset()
        self._consumer = AIOKafkaConsumer(
            **self._kafka.aiokafka_options(),
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # Assigns partition n of all topics to the same member.
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=round(SESSION_S * 1000),
            heartbeat_interval_ms=round(SESSION_S * 1000 / 4),
            rebalance_timeout_ms=round(REBALANCE_S * 1000),
            max_partition_fetch_bytes=BATCH_BYTES_MAX,
        )
        try:
            await self._consumer.start()
            self._leave_reason = None
            self._consumer.subscribe(sorted({LOCK, *self._topics}), listener=self)
            while True:
                await self._step()
        finally:
            self._leaving = True  # ignore assignments from now on
            try:
                if self.term is not None:
                    await self.term.suspend()
                    await self._end()
            finally:
                await self._consumer.stop()

    async def _step(self) -> None:
        """Start or end a term, deliver records, commit, and check whether the work has failed."""
        if self.term is not None and self.term.over.is_set():
            await self._end()
        if self.term is None and self._home in self._assigned:
            await self._take_over()
        batches = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS_PER_POLL)
        term, task = self.term, self._task
        if term is None or task is None or term.over.is_set():
            return
        for partition, records in batches.items():
            if self._is_read(partition):
                term.add_records(partition.topic, records)
        for partition in filter(self._is_read, self._consumer.assignment()):
            if term.count_buffered(partition.topic) >= BUFFERED_MAX:
                self._consumer.pause(partition)
            elif term.count_buffered(partition.topic) < BUFFERED_MAX // 2:
                self._consumer.resume(partition)
        if task.done():
            await task
            raise RuntimeError(f"{self.group}: the work ended before its term")
        if term.is_commit_due:
            await term.confirm()

    def _is_read(self, partition: Any) -> bool:
        return partition.partition == self._home.partition and partition.topic in self._topics

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Suspend the term; the rebalance waits for this method while heartbeats continue."""
        self._assigned = frozenset()
        if self.term is not None:
            await self.term.suspend()

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """Continue or end the term after a rebalance; `_step` starts a new one.

        This method must not wait, because there are no heartbeats until it returns.
        """
        if self._leaving:
            return
        self._assigned = frozenset(assigned)
        self._consumer.pause(*assigned)
        term = self.term
        if term is None or term.over.is_set():
            return
        if self._find_foreign() or not term.is_unbroken:
            term.end()  # if the partition is ours, a new term starts at the committed offsets
        else:
            self._seek(term.read_up_to)
            term.resume()

    def _find_foreign(self) -> list[str]:
        """Return topics whose partition for the cluster is assigned to another member."""
        number = self._home.partition
        topics = (LOCK, *self._topics)
        return [topic for topic in topics if TopicPartition(topic, number) not in self._assigned]

    async def _take_over(self) -> None:
        assigned = self._assigned
        if foreign := self._find_foreign():
            raise BrokerUnavailable(
                f"partition {self._home.partition} of {', '.join(foreign)} is assigned to another member, "
                f"but partition {self._home.partition} of {LOCK} to this process. Expected the same number "
                "of partitions in all topics: run `loadstream topic check`"
            )
        positions = await self._find_positions()
        if self._assigned is not assigned:
            return  # the group has rebalanced meanwhile
        self._seek(positions)
        logger.info("%s: this process is active", self.group)
        self.term = LeaderTerm(
            self._consumer, self._home.partition, positions, self._committed_topics
        )
        self._task = asyncio.ensure_future(self._work(self.term))

    def _seek(self, positions: Mapping[str, int]) -> None:
        for topic, offset in positions.items():
            partition = TopicPartition(topic, self._home.partition)
            self._consumer.seek(partition, offset)
            self._consumer.resume(partition)

    async def _find_positions(self) -> dict[str, int]:
        number = self._home.partition
        newest = [TopicPartition(topic, number) for topic in self._newest_topics]
        positions: dict[str, int] = {}
        for topic in self._committed_topics:
            offset = await self._consumer.committed(TopicPartition(topic, number))
            if offset is None:
                offset = await self._begin(topic, number) if self._begin else 0
            positions[topic] = offset
        if newest:
            ends = await self._consumer.end_offsets(newest)
            positions.update({key.topic: max(0, end - 1) for key, end in ends.items()})
        return positions

    async def _end(self) -> None:
        """End the term and wait for the work to stop."""
        if self.term is None or self._task is None:
            return
        self.term.end()
        _, late = await asyncio.wait([self._task], timeout=END_S)
        for task in late:
            task.cancel()
        (result,) = await asyncio.gather(self._task, return_exceptions=True)
        self.term = self._task = None
        if isinstance(result, Exception) and not isinstance(result, TermOver):
            logger.error("%s: the work failed at the end of its term", self.group, exc_info=result)
        logger.info("%s: this process is no longer active", self.group)


async def _wait_until_over(term: LeaderTerm) -> None:
    await term.over.wait()
