"""Records as the stages take them in and hand them out: plain bytes with their place in the log.

A stage is a fold: it takes `InputRecord`s in the order of the log and answers with a `StageResult`,
what is to be published and which table rows have changed. It knows neither Faust nor Kafka; the
agent around it turns events into input records and makes the result durable before it acknowledges
the events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cramjam import lz4

from schemas.base.refusals import Refusal
from schemas.storage.tables import ROW_CLASSES, parse_row_key
from schemas.topics.codec import decode_as
from streams.stage.statistics import Counts, Figures

#: Values of fewer bytes are kept in memory as they are.
_COMPRESSED_BYTES_MIN = 1_024
#: A compressed value begins with it; neither JSON nor the head of a long row does.
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
    """Timestamp of the record: when its producer wrote it, by the producer's or the broker's clock."""
    refused_at_ms: int | None = None
    """Of `clock`: the worker's own time when it refused the tick, as too far from it; none: it did
    not. No stage reads a wall clock, so the worker judges, and the journal keeps the result for a
    replay."""


@dataclass(frozen=True, slots=True)
class OutputMessage:
    """A message to be published.

    Messages are not built from their classes in `schemas`, which would validate each of them: tests
    check that the classes accept them and encode them in the same way.
    """

    topic: str
    fields: dict[str, Any]
    """All fields as JSON values; optional fields without a value are left out."""


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """One record to be published."""

    topic: str
    key: str
    value: bytes
    timestamp_ms: int | None = None
    """None: the producer sets its own time."""
    partition: int | None = None
    """None: the partition that the key hashes to."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A table row as it is now; no value: the row is gone."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one batch of input records came to."""

    outputs: tuple[OutputRecord, ...] = ()
    """Messages of the stage, in the order in which the inputs caused them."""
    rows: tuple[RowChange, ...] = ()
    """The newest state of each changed row; a key occurs once."""
    dead_letters: tuple[OutputRecord, ...] = ()
    """Records that could not be read or were refused, ready to be published to `dead-letters`."""

    @property
    def published(self) -> tuple[OutputRecord, ...]:
        """All that is published, in its order: the outputs, then the dead letters."""
        return (*self.outputs, *self.dead_letters)


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """One batch of one partition, and what it came to."""

    partition: int
    records: Sequence[InputRecord]
    result: StageResult


#: Rows of one partition by key; longer values may be compressed (`compress`).
PartitionRows = dict[str, bytes]


class Stage(Protocol):
    """The state of one partition, and what its input does to it."""

    @property
    def positions(self) -> Mapping[str, int]:
        """Offset applied last of each input topic of which anything was applied."""
        ...

    @property
    def now_ms(self) -> int | None:
        """The stage's time: what its input says. None: not known yet."""
        ...

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records in the order of the log.

        A record up to its topic's position was applied before: it changes nothing and causes
        nothing.
        """
        ...

    def prepare(self) -> bool:
        """Do a little of what a later record would otherwise wait for; False: there is nothing to
        do now.

        When and whether this is called changes nothing in results, rows and state that rows are
        made of.
        """
        ...

    def take_counts(self) -> Counts:
        """What was done since the last call, or since the stage was built."""
        ...

    def figures(self) -> Figures:
        """What there is now."""
        ...


def compress(value: bytes) -> bytes:
    """A row's value as it is kept in memory: a node's pods, mostly alike, take a tenth."""
    if len(value) >= _COMPRESSED_BYTES_MIN:
        return _COMPRESSED + bytes(lz4.compress_block(value))
    # A copy: the bytes that orjson hands out keep up to ten times their length allocated.
    return bytes(memoryview(value))


def decompress(kept: bytes) -> bytes:
    """The value that `compress` was given, or that was not compressed."""
    if kept.startswith(_COMPRESSED):
        return bytes(lz4.decompress_block(kept[len(_COMPRESSED) :]))
    return kept


def read_row(key: str, value: bytes) -> Any:
    """Return a row as an object of the class that the kind in its key names.

    Raises:
        DamagedTable: it cannot be read, or is of another cluster than its key says.
    """
    _, cluster, kind, _ = parse_row_key(key)
    if kind not in ROW_CLASSES:
        raise DamagedTable(key, f"there is no kind {kind} of rows")
    row: Any = decode_as(ROW_CLASSES[kind], decompress(value), bytes_max=None)
    if isinstance(row, Refusal):
        raise DamagedTable(key, f"cannot be read: {row.reason}")
    named = getattr(row, "cluster", cluster)
    if named != cluster:
        raise DamagedTable(key, f"is of cluster {named}, which its key does not say")
    return row


def reset_advice(partition: object) -> str:
    """What an operator can do where no worker can start from a partition."""
    return (
        f"Where it cannot be repaired, stop all workers and run `loadstream partition reset {partition}`: "
        "the partition begins again without its rows and its journal"
    )


class DamagedTable(RuntimeError):
    """A table cannot be trusted; the worker must not start from it."""

    def __init__(self, row: str, problem: str) -> None:
        """`row` is a key, which begins with the number of the partition."""
        number = row.partition("/")[0]
        advice = reset_advice(number if number.isdecimal() else "N")
        super().__init__(f"row {row}: {problem}. {advice}")
        self.row = row
        self.problem = problem
