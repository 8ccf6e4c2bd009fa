"""Whether a worker has applied a record: how far its journal has come, and what it has refused.

Every batch of the journal says which offset of each input topic was applied last. So a record up to
that offset was applied, unless `dead-letters` holds it. A batch counts if it is whole and its
writer had not lost the partition. Committed offsets of the consumer group would not do: a worker
never commits what it reads ahead, such as policies when it takes a partition over.
"""

import time
from collections.abc import Iterable, Iterator

import orjson

from connectors.kafka.arrivals import Arrivals
from connectors.kafka.backwards import Looked, Past
from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.extents import extents_of
from connectors.kafka.reader import Record, read_range
from schemas.codec import decode
from schemas.deadletters import DeadLetter
from schemas.journal import JournalPart, JournalRecord
from schemas.refusals import Refusal

#: Records of a partition's journal that are looked at for its row; a large batch takes several.
BATCHES_MAX = 64
#: Records of `dead-letters` that are looked at for refusals, newest first.
LETTERS_MAX = 5_000

#: Time between two looks whether a record was applied, in seconds.
_LOOK_S = 0.5

APPLIED = "applied"
WAITING = "not applied yet"
REFUSED = "refused"


class Applied:
    """How far the records of a topic have been applied; `look` again for news."""

    def __init__(self, connection: Connection, topic: str) -> None:
        """Look. Raises BrokerUnavailable."""
        self._connection = connection
        self._topic = topic
        self._letters = Arrivals(connection, "dead-letters", topic)
        self._refused: dict[tuple[int, int], str] = {}
        # Positions first: a dead letter is written behind its batch.
        self._next = self._followed()
        # Letters have their source topic as key, so they are where a cluster of that name would be.
        past = Past(connection, "dead-letters", topic, LETTERS_MAX)
        for letter in past.newest(Looked(), any_cluster=True):
            self._note(letter)

    def look(self) -> None:
        """Look again. Raises BrokerUnavailable."""
        self._next = self._followed()  # first, as above
        for record in self._letters.take():
            self._note(decode("dead-letters", record.value))

    def state(self, partition: int, offset: int) -> str:
        """Applied, not applied yet, or refused and why."""
        if (partition, offset) in self._refused:
            return f"{REFUSED}: {self._refused[partition, offset]}"
        return APPLIED if offset < self._next.get(partition, 0) else WAITING

    def results(self, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, str]]:
        """Partition and state of each record, once it is applied or refused.

        What looks applied is looked at once more: its dead letter may be on its way. Raises
        BrokerUnavailable.
        """
        left = list(places)
        seen: set[tuple[int, int]] = set()
        while left:
            for place in list(left):
                state = self.state(*place)
                if state == APPLIED and place not in seen:
                    seen.add(place)
                elif state != WAITING:
                    left.remove(place)
                    yield place[0], state
            if left:
                time.sleep(_LOOK_S)
                self.look()

    def _note(self, letter: object) -> None:
        if isinstance(letter, DeadLetter) and letter.topic == self._topic:
            self._refused[letter.partition, letter.offset] = letter.reason

    def _followed(self) -> dict[int, int]:
        """The offset that follows what was applied last, by partition."""
        following: dict[int, int] = {}
        for extent in extents_of(self._connection, "journal"):
            first = max(extent.first_offset, extent.next_offset - BATCHES_MAX)
            records = read_range(
                self._connection, "journal", extent.partition, first, extent.next_offset
            )
            positions = positions_after(records)
            if positions:
                following[extent.partition] = positions.get(self._topic, -1) + 1
        return following


def follow(
    connection: Connection, topic: str, places: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    """As `Applied.results`, of records that were written before.

    Raises BrokerUnavailable, which says that they are written all the same.
    """
    try:
        yield from Applied(connection, topic).results(places)
    except BrokerUnavailable as error:
        raise BrokerUnavailable(
            f"the record is written; whether a worker has applied it is not known: {error}"
        ) from None


def positions_after(records: Iterable[Record]) -> dict[str, int]:
    """Offset applied last of each input topic, by the newest batch that is whole and counts.

    Args:
        records: of the journal of one partition, in order.
    """
    found: dict[str, int] = {}
    epoch = -1
    of_batch: dict[str, int] = {}
    for record in records:
        batch = decode("journal", record.value)
        if isinstance(batch, Refusal) or batch.partition != record.partition:
            continue
        if isinstance(batch, JournalRecord) and batch.opens:
            epoch = record.offset
        # Otherwise it is of a writer that had lost the partition.
        elif batch.epoch >= epoch:
            epoch = batch.epoch
            of_batch = _positions(batch) or (of_batch if batch.part else {})
            if batch.part == batch.parts - 1 and of_batch:
                found = of_batch
    return found


def _positions(batch: JournalPart | JournalRecord) -> dict[str, int]:
    """Offset applied last of each input topic; nothing if the record does not say."""
    if isinstance(batch, JournalPart):
        return batch.positions
    for row in batch.rows:
        if row.table == "partitions" and row.value is not None:
            positions: dict[str, int] = orjson.loads(row.value)["offsets"]
            return positions
    return {}
