"""A publisher that accepts rows of a partition only from the worker that claimed it last.

    claim(topics, partition)   creates a producer for the partition, and writes a record to each topic
    write_rows(...)            uses that producer; raises LostOwnership after another worker's claim

A worker that was suspended for longer than its session does not know that another worker has taken over.
Its writes would replace newer rows by old rows. Checking a clock before a write is not sufficient, because
the worker can be suspended between the check and the write. So the broker decides: each partition has a
producer with a transactional id that belongs to the partition. The broker numbers the producers of an id.
After a record of the newest producer, the broker refuses records of older producers. No transactions are
used, so there are no transaction markers.

Some brokers do not refuse records: the embedded broker, and a broker that has forgotten an unused id after
a week (therefore `CLAIM_S`). So each write also checks that no foreign record precedes it.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from connectors.kafka.partition_records import read_range
from schemas.settings.connection import KafkaSettings
from schemas.storage.tables import row_key
from streams.stage.records import RowChange
from streams.worker.store.publisher import (
    LOST_OWNERSHIP_REASONS,
    LostOwnership,
    NotAcknowledged,
    Publisher,
)

logger = logging.getLogger(__name__)

#: A claim is renewed after this time, in seconds, because brokers forget claims after 7 days by default.
CLAIM_S = 86_400.0


class _PartitionPublisher(Publisher):
    async def _connect(self) -> Any:
        producer = await super()._connect()
        # The producer has its number from the brokers already. With the id, aiokafka would use transactions,
        # and Faust's recovery would wait forever for records at the offsets of transaction markers.
        producer._txn_manager.transactional_id = None  # noqa: SLF001 - aiokafka has no option
        return producer


@dataclass(slots=True)
class _Claim:
    publisher: Publisher
    made_at_s: float
    newest_offsets: dict[str, int | None]
    """Last written offset by topic; None: unknown."""


class FencedPublisher(Publisher):
    """Writes outputs as `Publisher` does, and rows with the producers of claimed partitions."""

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__(settings)
        self._claims: dict[int, _Claim] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    async def claim(self, topics: Sequence[str], partition: int) -> dict[str, int]:
        """Claim a partition of topics, so that earlier owners cannot write to it any more.

        All claims of a partition must have the same first topic.

        Returns:
            The offset of the claim's record in each topic; rows of earlier owners are before this offset.
        """
        self.release(partition)
        claim = await self._start_claim(topics, partition)
        self._claims[partition] = claim
        return await self._write_claim_records(claim, partition)

    async def _start_claim(self, topics: Sequence[str], partition: int) -> _Claim:
        publisher = _PartitionPublisher(self._settings, transactional_id=f"{topics[0]}-{partition}")
        publisher.written_bytes = self.written_bytes
        await publisher.start()
        return _Claim(publisher, time.monotonic(), dict.fromkeys(topics))

    async def _write_claim_records(self, claim: _Claim, partition: int) -> dict[str, int]:
        """Write a deletion of a row that does not exist to each topic; return the offsets."""
        deletion = [RowChange(row_key(partition, "", "claim"), None)]
        await self._write(claim, partition, dict.fromkeys(claim.newest_offsets, deletion))
        claimed = {}
        for topic, offset in claim.newest_offsets.items():
            if offset is None:
                raise NotAcknowledged(
                    f"the broker did not report the offset of the claim in {topic}"
                )
            claimed[topic] = offset
        return claimed

    async def write_rows(
        self, partition: int, changes: Mapping[str, Collection[RowChange]]
    ) -> dict[str, list[int]]:
        """Write row changes of a claimed partition to changelogs, each in order; return their offsets.

        A further call for the partition must wait for this one.

        Raises:
            LostOwnership: another worker has claimed the partition, or the claim was released.
        """
        claim = self._claims.get(partition)
        if claim is None:
            raise _build_ownership_error(partition)
        if time.monotonic() - claim.made_at_s > CLAIM_S:
            claim = await self._renew(claim, partition)
        return await self._write(claim, partition, changes)

    async def _renew(self, old_claim: _Claim, partition: int) -> _Claim:
        """Replace an old claim that is still valid."""
        claim = await self._start_claim(list(old_claim.newest_offsets), partition)
        try:
            for topic, offset in (await self._write_claim_records(claim, partition)).items():
                last_offset = old_claim.newest_offsets[topic]
                await self._check_no_gap(last_offset, offset, topic, partition)
        except BaseException:
            self._stop_later(claim)
            raise
        if self._claims.get(partition) is not old_claim:  # released meanwhile
            self._stop_later(claim)
            raise _build_ownership_error(partition)
        self._claims[partition] = claim
        self._stop_later(old_claim)
        return claim

    def release(self, partition: int) -> None:
        """Give up the claim of a partition."""
        claim = self._claims.pop(partition, None)
        if claim is not None:
            self._stop_later(claim)

    def _stop_later(self, claim: _Claim) -> None:
        task = asyncio.get_running_loop().create_task(_stop(claim))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        """Disconnect after pending writes."""
        for partition in list(self._claims):
            self.release(partition)
        await asyncio.gather(*self._stopping)
        await super().stop()

    async def _write(
        self, claim: _Claim, partition: int, changes: Mapping[str, Collection[RowChange]]
    ) -> dict[str, list[int]]:
        try:
            offsets = await claim.publisher.write_rows(partition, changes)
        except NotAcknowledged as error:
            from aiokafka.errors import ProducerFenced

            if isinstance(error.__cause__, ProducerFenced):
                raise _build_ownership_error(partition) from error
            raise
        for topic, topic_offsets in offsets.items():
            if topic_offsets:
                first, last = topic_offsets[0], topic_offsets[-1]
                before = claim.newest_offsets[topic]
                claim.newest_offsets[topic] = last if last >= 0 else None
                if first >= 0:
                    await self._check_no_gap(before, first, topic, partition)
        return offsets

    async def _check_no_gap(
        self, last_offset: int | None, offset: int, topic: str, partition: int
    ) -> None:
        """Check that there is no foreign record between the last write and a write at `offset`."""
        if last_offset is None or offset == last_offset + 1:
            return
        if offset <= last_offset or await read_range(
            self._settings, topic, partition, last_offset + 1, offset
        ):
            raise _build_ownership_error(partition)


def _build_ownership_error(partition: int) -> LostOwnership:
    return LostOwnership(
        f"another worker owns partition {partition}, and this worker did not notice: "
        f"{LOST_OWNERSHIP_REASONS}. Start this worker again, so that it reads its partitions again"
    )


async def _stop(claim: _Claim) -> None:
    # A fenced producer has no effective writes in flight.
    with suppress(Exception):
        await claim.publisher.stop()
