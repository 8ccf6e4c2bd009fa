"""The interface of a stage: input records, output records, changed rows, and the protocol `Stage`.

A stage applies `InputRecord`s in the order of the log and returns a `StageResult`: records to publish, and
changed table rows. It uses neither Faust nor Kafka. The worker makes the result durable, then acknowledges
the input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cramjam import lz4

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import build_dead_letter, split_letter
from schemas.storage.tables import ROW_CLASSES, parse_row_key
from schemas.topics.codec import decode_as, encode
from streams.stage.statistics import Counts, Figures

DEAD_LETTERS_TOPIC = "dead-letters"
#: Shorter values are not compressed in memory.
_COMPRESSED_BYTES_MIN = 1_024
#: First byte of a compressed value; JSON and heads of long rows begin with other bytes.
_COMPRESSED = b"\1"


@dataclass(frozen=True, slots=True)
class InputRecord:
    """One record of an input topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    """Timestamp of the record, by the producer's or the broker's clock."""
    refused_at_ms: int | None = None
    """The worker's time when it refused a clock tick as too far ahead; None for other records.
    The journal stores it for a replay."""


@dataclass(frozen=True, slots=True)
class OutputMessage:
    """A message to publish.

    The classes in `schemas` are not used, because validation takes time. Tests check that these classes
    accept all messages and encode them to the same bytes.
    """

    topic: str
    fields: dict[str, Any]
    """All fields as JSON values, without optional fields that are None."""
    waited_s: int | None = None
    """For metrics: the waiting time of a placed pod; None for other messages."""


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """One record to publish."""

    topic: str
    key: str
    value: bytes
    timestamp_ms: int | None = None
    """None: the time of writing."""
    partition: int | None = None
    """None: the partition of the key."""


@dataclass(frozen=True, slots=True)
class RowChange:
    key: str
    value: bytes | None
    """The new row; None: the row is deleted."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """The result of a batch of input records."""

    outputs: tuple[OutputRecord, ...] = ()
    """Messages of the stage, in the order of the inputs that caused them."""
    rows: tuple[RowChange, ...] = ()
    """Changed rows; each key occurs once."""
    dead_letters: tuple[OutputRecord, ...] = ()
    """Records of `dead-letters` for inputs that could not be read or were refused."""

    @property
    def published(self) -> tuple[OutputRecord, ...]:
        """All records to publish, in order: outputs, then dead letters."""
        return (*self.outputs, *self.dead_letters)


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """A batch of one partition, and its result."""

    partition: int
    records: Sequence[InputRecord]
    result: StageResult


#: Rows of one partition by key; longer values may be compressed (`compress`).
PartitionRows = dict[str, bytes]


class Stage(Protocol):
    """The state of one partition."""

    @property
    def positions(self) -> Mapping[str, int]:
        """Last applied offset by input topic."""
        ...

    @property
    def now_ms(self) -> int | None:
        """Log time; None: unknown."""
        ...

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records in the order of the log, each record once."""
        ...

    def prepare(self) -> bool:
        """Do some work for later records in advance; return False if no work is left.

        The work has no effect on results and rows.
        """
        ...

    def take_counts(self) -> Counts:
        """Return the counts since the last call."""
        ...

    def figures(self) -> Figures:
        """Return figures of the present state."""
        ...


def refuse_output(output: OutputRecord) -> Refusal:
    """Return the refusal of an output that is too long to be published."""
    return Refusal(
        "limit",
        f"the record was applied, but it causes a record of {len(output.value)} bytes to {output.topic}, "
        f"which cannot be published; allowed are at most {VALUE_BYTES_MAX}",
    )


def build_dead_letters(record: InputRecord, refusal: Refusal) -> list[OutputRecord]:
    """Return the dead letter of a refused record, as several output records if it is large.

    The output records have no timestamp: with the timestamp of an old record, retention would delete them
    at once.
    """
    letter = build_dead_letter(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.key,
        record.value,
        refusal,
    )
    return [
        OutputRecord(topic=DEAD_LETTERS_TOPIC, key=record.topic, value=encode(part))
        for part in split_letter(letter)
    ]


def compress(value: bytes) -> bytes:
    """Compress a row in memory: a row with the similar pods of a node shrinks to a tenth."""
    if len(value) >= _COMPRESSED_BYTES_MIN:
        return _COMPRESSED + bytes(lz4.compress_block(value))
    # A copy, because bytes from orjson can occupy ten times their length.
    return bytes(memoryview(value))


def decompress(value: bytes) -> bytes:
    """Return the original of a value, which may be compressed."""
    if value.startswith(_COMPRESSED):
        return bytes(lz4.decompress_block(value[len(_COMPRESSED) :]))
    return value


def read_row(key: str, value: bytes) -> Any:
    """Return a row as an object of the class of its kind.

    Raises:
        DamagedTable: the row cannot be read, or its cluster differs from that of its key.
    """
    _, cluster, kind, _ = parse_row_key(key)
    if kind not in ROW_CLASSES:
        raise DamagedTable(key, f"the kind {kind} is unknown")
    row: Any = decode_as(ROW_CLASSES[kind], decompress(value), bytes_max=None)
    if isinstance(row, Refusal):
        raise DamagedTable(key, f"cannot be read: {row.reason}")
    cluster_in_row = getattr(row, "cluster", cluster)
    if cluster_in_row != cluster:
        raise DamagedTable(key, f"cluster is {cluster_in_row}; expected {cluster}, as in the key")
    return row


def advise_reset(partition: object) -> str:
    """Return advice for a partition from which no worker can start."""
    return (
        f"If it cannot be repaired, stop all workers and run `loadstream partition reset {partition}`: "
        "the partition then starts without rows and journal"
    )


class DamagedTable(RuntimeError):
    """A table is damaged; a worker must not start from it."""

    def __init__(self, row: str, problem: str) -> None:
        """`row` is the key of a row."""
        partition = row.partition("/")[0]
        advice = advise_reset(partition if partition.isdecimal() else "N")
        super().__init__(f"row {row}: {problem}. {advice}")
        self.row = row
        self.problem = problem
