"""Applied offsets according to the journal."""

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from connectors.kafka.applied import APPLIED, REFUSED, WAITING, AppliedRecords
from connectors.kafka.client import connect
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import build_dead_letter
from schemas.storage.rows import PartitionRow
from schemas.storage.tables import PARTITION, row_key
from schemas.topics.codec import encode
from streams.stage import journal
from streams.stage.records import OutputRecord, RowChange, StageResult
from tests.conftest import RunningBroker

_TOPIC, _PARTITION = "policies", 0


class Writer:
    """The writer of the journal of one partition."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self.place = journal.JournalPosition(epoch=0, sequence=-1, offset=0)

    def append(self, *values: bytes) -> None:
        producer = Producer({**self._broker.settings.librdkafka_options(), "log_level": 0})
        for value in values:
            producer.produce("journal", value, partition=_PARTITION)
        assert producer.flush(30) == 0

    def batch(self, applied_to: int, long: bool = False, refused: str = "") -> list[bytes]:
        """Return the records of a batch that applies the topic up to an offset.

        `refused` is the reason why the record at that offset was refused, or None.
        """
        row = PartitionRow(partition=_PARTITION, offsets={_TOPIC: applied_to})
        output = OutputRecord("placement-decisions", "c", b"x" * journal.PART_BYTES, 0)
        rows = (RowChange(row_key(_PARTITION, "", PARTITION), encode(row)),)
        result = StageResult((output,) if long else (), rows, _letters(applied_to, refused))
        values = journal.encode_batch(_PARTITION, self.place, (), result)
        self.place = replace(self.place, sequence=self.place.sequence + 1)
        return values


def _letters(offset: int, refused: str) -> tuple[OutputRecord, ...]:
    if not refused:
        return ()
    why = Refusal("invalid", refused)
    letter = build_dead_letter(_TOPIC, _PARTITION, offset, 0, b"c", b"{}", why)
    return (OutputRecord("dead-letters", _TOPIC, encode(letter), 0),)


@pytest.fixture
def writer(embedded: RunningBroker) -> Writer:
    """A writer that has opened epoch 0."""
    writer = Writer(embedded)
    writer.append(journal.encode_opening(_PARTITION))
    return writer


def _states(broker: RunningBroker, count: int) -> list[bool]:
    """Return the states of the first records of the topic."""
    applied = AppliedRecords(connect(broker.settings), _TOPIC)
    states = [applied.state(_PARTITION, offset) for offset in range(count)]
    assert set(states) <= {APPLIED, WAITING}
    return [state == APPLIED for state in states]


def test_a_batch_of_a_writer_without_the_partition_is_ignored(
    embedded: RunningBroker, writer: Writer
) -> None:
    writer.append(*writer.batch(0))
    successor = Writer(embedded)
    successor.append(journal.encode_opening(_PARTITION))
    successor.place = replace(writer.place, epoch=2)
    writer.append(*writer.batch(2))
    assert _states(embedded, 3) == [True, False, False]
    successor.append(*successor.batch(1))
    writer.append(*writer.batch(2))
    assert _states(embedded, 3) == [True, True, False]


def _letter(embedded: RunningBroker, offset: int) -> None:
    """Write the dead letter of a record that was not applied."""
    letter = build_dead_letter(
        _TOPIC, _PARTITION, offset, None, None, b"", Refusal("future", "not yet")
    )
    options = {**embedded.settings.librdkafka_options(), "partitioner": "murmur2_random"}
    producer = Producer({**options, "log_level": 0})
    producer.produce("dead-letters", encode(letter), key=_TOPIC.encode())
    assert producer.flush(30) == 0


def test_a_record_that_is_refused_during_the_first_read_is_not_reported_as_applied(
    embedded: RunningBroker, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = AppliedRecords._find_next_offsets

    def look_and_refuse(applied: AppliedRecords) -> dict[int, int]:
        writer.append(*writer.batch(0))
        _letter(embedded, 0)
        return look(applied)

    monkeypatch.setattr(AppliedRecords, "_find_next_offsets", look_and_refuse)
    applied = AppliedRecords(connect(embedded.settings), _TOPIC)
    assert applied.state(_PARTITION, 0) == f"{REFUSED}: not yet"


@pytest.mark.parametrize("long", [False, True])
def test_a_record_is_refused_before_its_dead_letter_is_written(
    embedded: RunningBroker, writer: Writer, long: bool
) -> None:
    applied = AppliedRecords(connect(embedded.settings), _TOPIC)
    writer.append(*writer.batch(0, long, refused="it is wrong"), *writer.batch(1))
    for records in (applied, AppliedRecords(connect(embedded.settings), _TOPIC)):
        records.refresh()
        assert records.state(_PARTITION, 0) == "refused: it is wrong"
        assert records.state(_PARTITION, 1) == APPLIED
