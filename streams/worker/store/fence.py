"""A publisher whose rows the brokers take from one worker at a time, partition by partition.

    claim(topics, partition)   a producer of the partition's own; a record in each topic shuts out all before it
    write_rows(...)            through that producer; `LostOwnership` if another one claimed since

If a worker stood still for longer than its session, another worker has taken over, and the first
one does not know it. Its further writes would replace newer rows with old ones. Looking at a clock
before a write cannot prevent that: the worker may stop between the look and the write. So the
broker decides. Each partition has a producer of its own, under an id that belongs to the partition
and not to the worker. The broker numbers the producers that claim it, and when the newest has
written a record, it refuses records of older ones. No transactions are opened: the id alone makes
the fence, and there are no markers between records.

A claim holds in each topic that it names from its record in that topic on.

If a broker does not refuse (the embedded one, which has one worker; or one that has forgotten an id
that was unused for a week, `CLAIM_S`), a foreign record still shows: it stands between two writes.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from schemas.settings.connection import KafkaSettings
from schemas.storage.tables import row_key
from streams.stage.records import RowChange
from streams.worker.reader import read_range
from streams.worker.store.publisher import UNKNOWN_OWNER, LostOwnership, Publisher, Undelivered

logger = logging.getLogger(__name__)

#: A claim is made again after this time, in seconds: brokers forget it, by default after 7 days.
CLAIM_S = 86_400.0


class _PartitionPublisher(Publisher):
    """The producer of one partition; the newest of an id is the one that counts."""

    async def _started(self) -> Any:
        producer = await super()._started()
        # With its id it would insist on transactions, whose markers Faust's recovery waits for in
        # vain. The number under which the brokers know it is what the id was for.
        producer._txn_manager.transactional_id = None  # noqa: SLF001 - aiokafka names no other way
        return producer


@dataclass(slots=True)
class _Claim:
    publisher: Publisher
    made_at_s: float
    last: dict[str, int | None]
    """Offset written last, by topic; none: the broker did not say."""
    writing: int = 0
    """How many writes are on their way."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """None is."""

    @property
    def old(self) -> bool:
        """It must be made again, before brokers forget it."""
        return time.monotonic() - self.made_at_s > CLAIM_S


class FencedPublisher(Publisher):
    """Writes outputs as `Publisher` does, and the rows of claimed partitions through their fences."""

    def __init__(self, settings: KafkaSettings, **options: Any) -> None:
        """As for `Publisher`."""
        super().__init__(settings, **options)
        self._claims: dict[int, _Claim] = {}
        self._renewing = asyncio.Lock()
        self._stopping: set[asyncio.Task[None]] = set()

    async def claim(self, topics: Sequence[str], partition: int) -> dict[str, int]:
        """From now on no worker that claimed the partition of these topics before can write to it.

        Answers with the offsets of the records that say so, deletions of a row that never is; what
        others have written stands before them. Another claim of the same must name the same topic
        first.
        """
        self.release(partition)
        claim = await self._started_claim(topics, partition)
        self._claims[partition] = claim
        return await self._marked(claim, partition)

    async def _started_claim(self, topics: Sequence[str], partition: int) -> _Claim:
        publisher = _PartitionPublisher(
            self._settings, **self._options, transactional_id=f"{topics[0]}-{partition}"
        )
        publisher.written_bytes = self.written_bytes
        await publisher.start()
        claim = _Claim(publisher, time.monotonic(), dict.fromkeys(topics))
        claim.idle.set()
        return claim

    async def _marked(self, claim: _Claim, partition: int) -> dict[str, int]:
        """Write the records that say so; answers with their offsets."""
        topics = list(claim.last)
        mark = [RowChange(row_key(partition, "", "claim"), None)]
        await asyncio.gather(*(self._write(claim, topic, partition, mark) for topic in topics))
        claimed = {topic: last for topic, last in claim.last.items() if last is not None}
        for topic in topics:
            if topic not in claimed:
                raise Undelivered(f"the broker did not say at which offset of {topic} the claim is")
        return claimed

    async def write_rows(
        self, topic: str, partition: int, changes: Iterable[RowChange]
    ) -> list[int]:
        """Write row changes of a claimed partition, in their order; offset of each, -1 for unknown.

        Raises:
            LostOwnership: another worker has claimed the partition.
        """
        claim = self._claim_of(topic, partition)
        if claim.old:
            # Tables are written side by side: one of these writes makes the claim for all of them.
            async with self._renewing:
                claim = self._claim_of(topic, partition)
                if claim.old:
                    claim = await self._renewed(claim, topic, partition)
        return await self._write(claim, topic, partition, changes)

    def _claim_of(self, topic: str, partition: int) -> _Claim:
        claim = self._claims.get(partition)
        if claim is None:  # it was released meanwhile
            raise _lost(topic, partition)
        return claim

    async def _renewed(self, before: _Claim, topic: str, partition: int) -> _Claim:
        """A new claim in the place of an old one that still holds."""
        await before.idle.wait()  # the brokers refuse what comes through the old one from then on
        claim = await self._started_claim(list(before.last), partition)
        try:
            for each, offset in (await self._marked(claim, partition)).items():
                await self._check(offset, before.last[each], each, partition)
            self._check_still(before, topic, partition)
        except BaseException:
            self._leave(claim)
            raise
        self._claims[partition] = claim
        self._leave(before)
        return claim

    def _check_still(self, claim: _Claim, topic: str, partition: int) -> None:
        """The partition must not have been released, or claimed anew, meanwhile."""
        if self._claims.get(partition) is not claim:
            raise _lost(topic, partition)

    def release(self, partition: int) -> None:
        """Leave the partition to its next owner."""
        claim = self._claims.pop(partition, None)
        if claim is not None:
            self._leave(claim)

    def _leave(self, claim: _Claim) -> None:
        task = asyncio.get_running_loop().create_task(_stop(claim))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        """Disconnect, after what is on its way has arrived or failed."""
        for partition in list(self._claims):
            self.release(partition)
        await asyncio.gather(*self._stopping)
        await super().stop()

    async def _write(
        self, claim: _Claim, topic: str, partition: int, changes: Iterable[RowChange]
    ) -> list[int]:
        claim.writing += 1
        claim.idle.clear()
        try:
            offsets = await claim.publisher.write_rows(topic, partition, changes)
        except Undelivered as error:
            from aiokafka.errors import ProducerFenced

            if isinstance(error.__cause__, ProducerFenced):
                raise _lost(topic, partition) from error
            raise
        finally:
            claim.writing -= 1
            if not claim.writing:
                claim.idle.set()
        first = offsets[0] if offsets else -1
        if offsets:
            before = claim.last[topic]
            claim.last[topic] = offsets[-1] if offsets[-1] >= 0 else None
            if first >= 0:
                await self._check(first, before, topic, partition)
        return offsets

    async def _check(self, offset: int, before: int | None, topic: str, partition: int) -> None:
        """No record may stand between what was written last and what is written now."""
        if before is None or offset == before + 1:
            return
        if offset <= before or await read_range(
            self._settings, topic, partition, before + 1, offset
        ):
            raise _lost(topic, partition)


def _lost(topic: str, partition: int) -> LostOwnership:
    return LostOwnership(
        f"another worker writes to partition {partition} of {topic}, while this one held it for its "
        f"own: {UNKNOWN_OWNER}. Start it again; its partitions are read anew then"
    )


async def _stop(claim: _Claim) -> None:
    # Of a producer that was fenced off nothing is on its way any more that counts.
    with suppress(Exception):
        await claim.publisher.stop()
