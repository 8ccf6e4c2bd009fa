"""Tell from the journal and the dead letters whether a worker has applied a record.

Every batch of the journal contains the last applied offset of each input topic. A record up to this
offset was refused if it has a dead letter, and applied otherwise. The worker writes dead letters to
the batch first, then to `dead-letters`. A batch counts if it is complete and its writer still owned
the partition. Committed offsets are not sufficient: a worker does not commit records that it reads
ahead, such as policies during a takeover.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.cluster_records import Arrivals, PastMessages, SearchProgress
from connectors.kafka.extents import read_topic_extents
from connectors.kafka.reader import Record, read_range
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.journal import JournalRecord, split_content
from schemas.topics.codec import decode

LETTERS = "dead-letters"
#: Journal records to search for the last complete batch; a large batch has several records.
BATCHES_MAX = 64
#: Records of `dead-letters` to search for refusals, newest first.
LETTERS_MAX = 5_000

#: Time between two checks, in seconds.
_CHECK_S = 0.5

#: Head and content of a journal record.
Part = tuple[JournalRecord, bytes]

APPLIED = "applied"
WAITING = "not applied yet"
REFUSED = "refused"


class AppliedRecords:
    """States of a topic's records, as of the last call of `refresh`."""

    def __init__(self, connection: Connection, topic: str) -> None:
        """Read the current state. Raises BrokerUnavailable."""
        self._connection = connection
        self._topic = topic
        self._letters = Arrivals(connection, LETTERS, topic)
        self._refused: dict[tuple[int, int], str] = {}
        self._next = self._find_next_offsets()
        # The source topic takes the place of a cluster: it is the key of dead letters.
        past = PastMessages(connection, LETTERS, topic, LETTERS_MAX)
        for record in past.records(SearchProgress()):
            self._note(decode(LETTERS, record.value))

    def refresh(self) -> None:
        """Read the current state again. Raises BrokerUnavailable."""
        # Read the journal first: then the dead letters of its older batches are already published.
        self._next = self._find_next_offsets()
        for record in self._letters.take():
            self._note(decode(LETTERS, record.value))

    def state(self, partition: int, offset: int) -> str:
        """Return `APPLIED`, `WAITING`, or `REFUSED` with the reason."""
        if (partition, offset) in self._refused:
            return f"{REFUSED}: {self._refused[partition, offset]}"
        return APPLIED if offset < self._next.get(partition, 0) else WAITING

    def _note(self, letter: object) -> None:
        if isinstance(letter, DeadLetter) and letter.topic == self._topic:
            self._refused[letter.partition, letter.offset] = letter.reason

    def _find_next_offsets(self) -> dict[int, int]:
        """Return the offset after the last applied record by partition; also note refusals."""
        next_offsets: dict[int, int] = {}
        for extent in read_topic_extents(self._connection, "journal"):
            first = max(extent.first_offset, extent.next_offset - BATCHES_MAX)
            records = read_range(
                self._connection, "journal", extent.partition, first, extent.next_offset
            )
            positions: dict[str, int] = {}
            for batch in complete_batches(records):
                positions = batch[-1][0].positions or positions
                for letter in _find_letters(batch):
                    self._note(letter)
            if positions:
                next_offsets[extent.partition] = positions.get(self._topic, -1) + 1
        return next_offsets


def wait_for_result(connection: Connection, topic: str, partition: int, offset: int) -> str:
    """Wait until a written record is applied or refused; return its state.

    Raises BrokerUnavailable with a sentence that says that the record is written.
    """
    try:
        applied = AppliedRecords(connection, topic)
        while (state := applied.state(partition, offset)) == WAITING:
            time.sleep(_CHECK_S)
            applied.refresh()
    except BrokerUnavailable as error:
        raise BrokerUnavailable(
            f"the record is written, but it is unknown whether a worker has applied it: {error}"
        ) from None
    return state


def complete_batches(records: Iterable[Record]) -> Iterator[list[Part]]:
    """Yield the parts of each complete and valid batch; the first batch may lack parts.

    Args:
        records: journal records of one partition, in order.
    """
    epoch = -1
    parts: list[Part] = []
    for record in records:
        batch = decode("journal", record.value)
        if isinstance(batch, Refusal) or batch.partition != record.partition:
            continue
        if batch.opens:
            epoch = record.offset
        # A batch of an older epoch comes from a writer that had lost the partition.
        elif batch.epoch >= epoch:
            epoch = batch.epoch
            if not batch.part:
                parts = []
            parts.append((batch, (record.value or b"").partition(b"\n")[2]))
            if batch.part == batch.parts - 1:
                yield parts


def _find_letters(parts: list[Part]) -> Iterator[object]:
    """Yield the dead letters among the outputs of a batch."""
    content = b"".join(content for _, content in parts)
    if len(parts) < parts[0][0].parts or LETTERS.encode() not in content:
        return
    with suppress(ValueError):  # a damaged batch, which the worker reports
        index, _, values = split_content(content)
        for (topic, *_), value in zip(index.outputs, values, strict=True):
            if topic == LETTERS:
                yield decode(LETTERS, value)
