"""A process's place in a consumer group of which one member at a time is active for a cluster.

    Leadership.run(work)      joins the group and stays in it
    work(term)                runs as long as this process is the active one
    async with term.writing() comes in as soon as no other process can be active; around each write

The member that is assigned the cluster's partition of `placement-decisions` is active. When the
group is rebalanced, the active process begins no new write, finishes those under way and commits
how far it is; only then does the group go on. If the partition comes back to this process, and no
other process can have had it in between, the term goes on where it was; otherwise it is over.

What a term permits, and when: `connectors.kafka.term`.
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
from schemas.settings.connection import KafkaSettings
from schemas.topics.partitions import partition_for

logger = logging.getLogger(__name__)

#: Pause before a group is joined again, in seconds.
REJOIN_S = 1.0
#: How long a group waits for its members at a rebalance, in seconds: longer than writes may take to
#: come to their end, and the commit after them. One that is gone is given up after `SESSION_S`.
REBALANCE_S = END_S + 2 * SESSION_S
#: Records that are read and not asked for yet: the partition is not read on until some are.
AHEAD_MAX = 2_000
_POLL_MS = 100
_RECORDS_PER_POLL = 500

#: Where to begin in a topic and partition of which the group has done nothing yet.
Beginning = Callable[[str, int], Awaitable[int]]


class Leadership(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka exports no types
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
        self.term: LeaderTerm | None = None
        """The term of this process; none: it stands by."""
        self._kafka = kafka
        self._home = TopicPartition(LOCK, partition_for(cluster.encode(), kafka.partitions))
        self._kept = sorted(topics)
        self._newest = sorted(newest)
        self._read = (*self._kept, *self._newest)
        self._begin = begin
        self._work: Callable[[LeaderTerm], Awaitable[None]] = _nothing
        self._task: asyncio.Future[None] | None = None
        self._assigned: frozenset[Any] = frozenset()
        """What the group has given to this process; nothing while it is being rebalanced."""
        self._leaving = False
        self._why_out: str | None = None
        """Why it is out of the group, as the log has it; none: it has joined since."""
        self._consumer: Any = None

    async def run(self, work: Callable[[LeaderTerm], Awaitable[None]]) -> None:
        """Stay in the group, and do the work whenever this process is the active one.

        Returns only by cancellation, or raises what `work` raises; where that is aiokafka's
        KafkaError the group is joined again. The group is left either way.
        """
        self._work = work
        while True:
            try:
                await self._stay()
            except* KafkaError as errors:
                why = "; ".join(str(each) or type(each).__name__ for each in errors.exceptions)
                if why != self._why_out:
                    logger.warning("%s: left the group: %s; it is joined again", self.group, why)
                self._why_out = why
            await asyncio.sleep(REJOIN_S)

    async def _stay(self) -> None:
        """Join, and stay until something fails."""
        self._leaving, self._assigned = False, frozenset()
        self._consumer = AIOKafkaConsumer(
            **self._kafka.aiokafka_options(),
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # Each topic's partitions to the same members, so that the cluster's come together.
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=round(SESSION_S * 1000),
            heartbeat_interval_ms=round(SESSION_S * 1000 / 4),
            rebalance_timeout_ms=round(REBALANCE_S * 1000),
            max_partition_fetch_bytes=BATCH_BYTES_MAX,
        )
        try:
            await self._consumer.start()
            self._why_out = None
            self._consumer.subscribe(sorted({LOCK, *self._read}), listener=self)
            while True:
                await self._step()
        finally:
            self._leaving = True  # what the group assigns meanwhile is not taken
            try:
                if self.term is not None:
                    await self.term.suspend()
                    await self._end()
            finally:
                await self._consumer.stop()

    async def _step(self) -> None:
        """Begin or end a term, take records, commit, and look whether the work has failed."""
        if self.term is not None and self.term.over.is_set():
            await self._end()
        if self.term is None and self._home in self._assigned:
            await self._take_over()
        found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS_PER_POLL)
        term, task = self.term, self._task
        if term is None or task is None or term.over.is_set():
            return
        for place, records in found.items():
            if self._wanted(place):
                term.arrived(place.topic, records)
        for place in filter(self._wanted, self._consumer.assignment()):
            if term.ahead(place.topic) >= AHEAD_MAX:
                self._consumer.pause(place)
            elif term.ahead(place.topic) < AHEAD_MAX // 2:
                self._consumer.resume(place)
        if task.done():
            await task
            raise RuntimeError(f"{self.group}: the work has ended before its term")
        if term.is_commit_due:
            await term.confirm()

    def _wanted(self, place: Any) -> bool:
        return place.partition == self._home.partition and place.topic in self._read

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Before the group is rebalanced; it waits for this, and heartbeats go on meanwhile."""
        self._assigned = frozenset()
        if self.term is not None:
            await self.term.suspend()

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """After the group was rebalanced; nothing is waited for: there are no heartbeats until then.

        What is read goes on where it was, before anything is fetched. The rest is the next step's.
        """
        if self._leaving:
            return
        self._assigned = frozenset(assigned)
        self._consumer.pause(*assigned)
        term = self.term
        if term is None or term.over.is_set():
            return
        if self._foreign() or not term.is_unbroken:
            term.end()  # a new one begins where the group is, if the partition is ours
        else:
            self._seek(term.read_up_to)
            term.resume()

    def _foreign(self) -> list[str]:
        """Topics of which the cluster's partition is not assigned to this process."""
        number = self._home.partition
        topics = (LOCK, *self._read)
        return [each for each in topics if TopicPartition(each, number) not in self._assigned]

    async def _take_over(self) -> None:
        assigned = self._assigned
        if foreign := self._foreign():
            raise BrokerUnavailable(
                f"partition {self._home.partition} of {', '.join(foreign)} is another member's, though "
                f"that of {LOCK} is ours; expected is one number of partitions for all topics: see "
                "`loadstream topic check`"
            )
        positions = await self._positions()
        if self._assigned is not assigned:
            return  # the group has been rebalanced meanwhile
        self._seek(positions)
        logger.info("%s: this process is the active one", self.group)
        self.term = LeaderTerm(self._consumer, self._home.partition, positions, self._kept)
        self._task = asyncio.ensure_future(self._work(self.term))

    def _seek(self, positions: Mapping[str, int]) -> None:
        """Read on at these offsets."""
        for topic, offset in positions.items():
            place = TopicPartition(topic, self._home.partition)
            self._consumer.seek(place, offset)
            self._consumer.resume(place)

    async def _positions(self) -> dict[str, int]:
        """Where each topic that is read goes on."""
        kept = [TopicPartition(topic, self._home.partition) for topic in self._kept]
        newest = [TopicPartition(topic, self._home.partition) for topic in self._newest]
        found = {place: await self._consumer.committed(place) for place in kept}
        for place in [each for each in kept if found[each] is None]:
            found[place] = await self._begin(*place) if self._begin else 0
        if newest:
            ends = await self._consumer.end_offsets(newest)
            found.update({place: max(0, end - 1) for place, end in ends.items()})
        return {place.topic: offset for place, offset in found.items()}

    async def _end(self) -> None:
        """Another is the active one."""
        if self.term is None or self._task is None:
            return
        self.term.end()
        _, late = await asyncio.wait([self._task], timeout=END_S)
        for each in late:
            each.cancel()
        (ended,) = await asyncio.gather(self._task, return_exceptions=True)
        self.term = self._task = None
        if isinstance(ended, Exception) and not isinstance(ended, TermOver):
            logger.error("%s: the work has failed at its end", self.group, exc_info=ended)
        logger.info("%s: this process is not the active one any more", self.group)


async def _nothing(term: LeaderTerm) -> None:
    """The work before there is any."""
    await term.over.wait()
