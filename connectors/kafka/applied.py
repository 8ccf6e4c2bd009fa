"""Whether a worker has applied a record: how far its journal has come, and what it has refused.

Every batch of the journal says which offset of each input topic was applied last. So a record up to
that offset was applied, unless there is a dead letter of it: in `dead-letters`, or in the batch,
which the worker writes first. A batch counts if it is whole and its writer had not lost the
partition. Committed offsets of the consumer group would not do: a worker never commits what it
reads ahead, such as policies when it takes a partition over.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from connectors.kafka.backwards import Arrivals, Looked, Past
from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.extents import extents_of
from connectors.kafka.reader import Record, read_range
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.journal import JournalRecord, cut
from schemas.topics.codec import decode

#: Topic of what was refused.
LETTERS = "dead-letters"
#: Records of a partition's journal that are looked at for its row; a large batch takes several.
BATCHES_MAX = 64
#: Records of `dead-letters` that are looked at for refusals, newest first.
LETTERS_MAX = 5_000

#: Time between two looks whether a record was applied, in seconds.
_LOOK_S = 0.5

#: Head and content of a record of the journal.
Part = tuple[JournalRecord, bytes]

APPLIED = "applied"
WAITING = "not applied yet"
REFUSED = "refused"


class Applied:
    """How far the records of a topic have been applied; `look` again for news."""

    def __init__(self, connection: Connection, topic: str) -> None:
        """Look. Raises BrokerUnavailable."""
        self._connection = connection
        self._topic = topic
        self._letters = Arrivals(connection, LETTERS, topic)
        self._refused: dict[tuple[int, int], str] = {}
        self._next = self._followed()
        # Letters have their source topic as key, so they are where a cluster of that name would be.
        past = Past(connection, LETTERS, topic, LETTERS_MAX)
        for letter in past.newest(Looked(), any_cluster=True):
            self._note(letter)

    def look(self) -> None:
        """Look again. Raises BrokerUnavailable."""
        # Positions first: letters of batches that are looked at no more have been written by then.
        self._next = self._followed()
        for record in self._letters.take():
            self._note(decode(LETTERS, record.value))

    def state(self, partition: int, offset: int) -> str:
        """Applied, not applied yet, or refused and why."""
        if (partition, offset) in self._refused:
            return f"{REFUSED}: {self._refused[partition, offset]}"
        return APPLIED if offset < self._next.get(partition, 0) else WAITING

    def results(self, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, str]]:
        """Partition and state of each record, as soon as it is applied or refused.

        Raises BrokerUnavailable.
        """
        left = list(places)
        while left:
            for place in list(left):
                state = self.state(*place)
                if state != WAITING:
                    left.remove(place)
                    yield place[0], state
            if left:
                time.sleep(_LOOK_S)
                self.look()

    def _note(self, letter: object) -> None:
        if isinstance(letter, DeadLetter) and letter.topic == self._topic:
            self._refused[letter.partition, letter.offset] = letter.reason

    def _followed(self) -> dict[int, int]:
        """The offset that follows what was applied last, by partition; notes what was refused."""
        following: dict[int, int] = {}
        for extent in extents_of(self._connection, "journal"):
            first = max(extent.first_offset, extent.next_offset - BATCHES_MAX)
            records = read_range(
                self._connection, "journal", extent.partition, first, extent.next_offset
            )
            positions: dict[str, int] = {}
            for batch in batches(records):
                positions = batch[-1][0].positions or positions
                for letter in _letters(batch):
                    self._note(letter)
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


def batches(records: Iterable[Record]) -> Iterator[list[Part]]:
    """The batches that are whole and count, each as its parts; of the first one some may be missing.

    Args:
        records: of the journal of one partition, in order.
    """
    epoch = -1
    parts: list[Part] = []
    for record in records:
        batch = decode("journal", record.value)
        if isinstance(batch, Refusal) or batch.partition != record.partition:
            continue
        if batch.opens:
            epoch = record.offset
        # Otherwise it is of a writer that had lost the partition.
        elif batch.epoch >= epoch:
            epoch = batch.epoch
            if not batch.part:
                parts = []
            parts.append((batch, (record.value or b"").partition(b"\n")[2]))
            if batch.part == batch.parts - 1:
                yield parts


def _letters(parts: list[Part]) -> Iterator[object]:
    """The dead letters that a batch emits."""
    content = b"".join(content for _, content in parts)
    if len(parts) < parts[0][0].parts or LETTERS.encode() not in content:
        return
    with suppress(ValueError):  # it is made up, and a worker says what is wrong with it
        index, _, values = cut(content)
        for (topic, *_), value in zip(index.outputs, values, strict=True):
            if topic == LETTERS:
                yield decode(LETTERS, value)
