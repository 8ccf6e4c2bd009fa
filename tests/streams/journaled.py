"""The history of a partition: input topics and the journal of applied batches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from schemas.base.refusals import Refusal
from streams.cluster.stage import ClusterStage
from streams.replay.recorded import Recording
from streams.replay.verify import Difference, Verification, Window
from streams.stage import journal
from streams.stage.checkpoint import Checkpoint, CheckpointEncoder
from streams.stage.journal import join_parts, read_record
from streams.stage.packing import apply_changes
from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult


class Topics:
    """Input topics in memory, read as a replay reads them."""

    def __init__(
        self, records: Iterable[InputRecord], next_offsets: Mapping[str, int] | None = None
    ) -> None:
        """`next_offsets`: first offset to read of each topic; default: 0."""
        self._all: dict[str, list[InputRecord]] = {}
        for record in records:
            self._all.setdefault(record.topic, []).append(record)
        next_offsets = next_offsets or {}
        self._remaining = {
            topic: [record for record in records if record.offset >= next_offsets.get(topic, 0)]
            for topic, records in self._all.items()
        }

    def read_through(self, topic: str, last_offset: int) -> Iterator[InputRecord]:
        """Yield the next records up to an offset."""
        remaining = self._remaining.get(topic, [])
        while remaining and remaining[0].offset <= last_offset:
            yield remaining.pop(0)


class Journaled:
    """Applies batches and journals them; may be killed at any time."""

    def __init__(self, *, reset: bool = False) -> None:
        """`reset`: the partition was reset, so batches are numbered from 1 on."""
        self.topics: list[InputRecord] = []
        """Everything that was applied, in order."""
        self.journal: list[bytes] = []
        self._rows: dict[str, bytes] = {}
        self._place = journal.JournalPosition(sequence=0 if reset else -1)
        self.start()

    def start(self) -> None:
        """Start a new writer from the rows."""
        self.journal.append(journal.encode_opening(0))
        offset = len(self.journal) - 1
        self._place = replace(self._place, epoch=offset, offset=offset)
        self.stage = ClusterStage.restore(0, 1, self._rows)

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply and journal one batch."""
        result = self.stage.apply(records)
        self.write(records, result)
        self.topics += records
        apply_changes(self._rows, result.rows)
        return result

    def write(self, records: Sequence[InputRecord], result: StageResult) -> None:
        """Journal a batch with this result."""
        self.journal += journal.encode_batch(0, self._place, records, result)
        position, offset = self._place, len(self.journal) - 1
        self._place = journal.JournalPosition(position.epoch, position.sequence + 1, offset)

    def lost(self, records: Sequence[InputRecord], result: StageResult) -> None:
        """Journal a batch of a replaced writer after the opening record of its successor."""
        old = self._place
        self.start()
        self.journal += journal.encode_batch(0, old, records, result)

    @property
    def checkpoint(self) -> Checkpoint:
        """A checkpoint of the current rows."""
        return Checkpoint(self._place, self.stage.now_ms, tuple(self._rows.items()))

    def pieces(self, piece_bytes: int = 400) -> list[bytes]:
        """The pieces of this checkpoint as a worker writes them."""
        now = self.checkpoint
        encoder = CheckpointEncoder(0, now.position, now.now_ms, piece_bytes)
        return [*encoder.add(now.rows), *encoder.close()]

    def replay(
        self,
        *,
        topics: Iterable[InputRecord] | None = None,
        values: Iterable[bytes] | None = None,
        window: Window | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> tuple[Difference | None, Verification]:
        """Replay the history, or altered topics or values, from the start or a checkpoint."""
        verification = Verification(0, 1, window, checkpoint)
        start = verification.start
        entries = list(enumerate(self.journal if values is None else values))
        inputs = Topics(self.topics if topics is None else topics, start.next_offsets)
        recording = Recording(0, entries[start.position.offset + 1 :], inputs, start)
        return verification.verify(recording), verification


@dataclass
class Tail:
    """The combined effect of consecutive batches."""

    position: journal.JournalPosition
    """Position after the last record."""
    rows: dict[str, bytes | None] = field(default_factory=dict)
    """Newest value per key; None for a deleted row."""
    outputs: list[OutputRecord] = field(default_factory=list)
    foreign: list[Refusal] = field(default_factory=list)


def read_tail(reader: journal.JournalReader, entries: Iterable[tuple[int, bytes | None]]) -> Tail:
    """Read records with a reader that has read all earlier records."""
    tail = Tail(reader.position)
    for offset, value in entries:
        batch = reader.feed(offset, value)
        if isinstance(batch, Refusal):
            tail.foreign.append(batch)
        elif batch is not None:
            tail.rows |= {row.key: row.value for row in batch.rows}
            tail.outputs += batch.outputs
    tail.position = reader.position
    return tail


def as_record(value: bytes) -> dict[str, Any]:
    """A batch of one journal record as an object that can be altered; `from_record` is the way back."""
    read = read_record(value)
    assert not isinstance(read, Refusal)
    batch = join_parts([read])
    return {
        "partition": read[0].partition,
        "epoch": batch.epoch,
        "sequence": batch.sequence,
        "inputs": [run.model_dump(exclude_none=True) for run in batch.inputs],
        "rows": [{"key": row.key, "value": row.value and row.value.decode()} for row in batch.rows],
        "outputs": [
            {
                "topic": output.topic,
                "key": output.key,
                "value": output.value.decode(),
                "timestamp_ms": output.timestamp_ms,
            }
            for output in batch.outputs
        ],
    }


def from_record(record: dict[str, Any]) -> bytes:
    """The journal record of a batch as `as_record` gives it."""
    rows = [(row["key"], row["value"]) for row in record["rows"]]
    outputs = [
        OutputRecord(item["topic"], item["key"], item["value"].encode(), item["timestamp_ms"])
        for item in record["outputs"]
    ]
    result = StageResult(
        tuple(outputs), tuple(RowChange(key, value and value.encode()) for key, value in rows)
    )
    position = journal.JournalPosition(record["epoch"], record["sequence"] - 1)
    (value,) = journal.encode_batch(record["partition"], position, (), result)
    head, index, values = value.split(b"\n", 2)
    index = orjson.dumps({**orjson.loads(index), "inputs": record["inputs"]})
    return b"\n".join((head, index, values))


def altered(records: Iterable[InputRecord], which: InputRecord, value: bytes) -> list[InputRecord]:
    """The records with another value for one of them."""
    assert value != which.value
    return [replace(record, value=value) if record is which else record for record in records]
