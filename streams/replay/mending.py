"""What can be kept of a partition from which no worker starts, and what is lost with the rest.

    rows of the tables, the journal after the place that they reflect
        ──▶ rows that can be read, with every batch that is whole and counts redone over them
        ──▶ sentences: which rows, batches and records are lost

A worker refuses such a partition, since only an operator can say that a hole does not matter. What
is kept may contradict itself if something is missing; full lists of nodes and pods, which producers
send again and again, put that right. Pure: rows and records in, rows and sentences out.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field

from schemas.codec import decode_as, encode
from schemas.refusals import Refusal
from schemas.rows import ClusterRow, JournalPositionRow, PartitionRow
from streams.cluster.stage import ClusterStage
from streams.stage.journal import PLACES, Place
from streams.stage.journal_records import Batch, Record, read_record, says_ours, whole
from streams.stage.packing import put, unpacked
from streams.stage.records import DamagedTable, OutputRecord

#: Rows of one partition by table and key.
Rows = dict[tuple[str, str], bytes]


@dataclass(slots=True)
class Mended:
    """A partition from which a worker can start."""

    rows: Rows
    """All that are kept, of every table; the place is that of the journal's end, none if it is empty."""
    outputs: list[OutputRecord] = field(default_factory=list)
    """What the redone batches emit; it may have been published before."""
    redone: int = 0
    """How many batches were redone."""
    lost: list[str] = field(default_factory=list)
    """Sentences: what is not kept. None: a worker starts without mending."""


def known_place(partition: int, rows: Mapping[tuple[str, str], bytes]) -> Place:
    """The place in the journal that rows reflect; none is known if its row cannot be read."""
    row = decode_as(JournalPositionRow, rows.get((PLACES, str(partition))))
    return Place() if isinstance(row, Refusal) else Place(row.epoch, row.sequence, row.offset)


def mend(
    partition: int,
    partitions: int,
    rows: Rows,
    entries: Iterable[tuple[int, bytes | None]],
    end: int,
) -> Mended:
    """Keep what can be kept.

    Args:
        partition: whose rows and journal these are.
        partitions: how many there are.
        rows: of all tables, long ones joined.
        entries: offset and value of the journal's records after `known_place`, as far as they are
            there.
        end: offset that the journal's next record gets.
    """
    known = known_place(partition, rows)
    mended = Mended(dict(rows))
    for key in (str(partition), f"{partition}/opened"):  # the next owner notes what it finds
        mended.rows.pop((PLACES, key), None)
    if end <= known.offset:
        mended.lost.append(
            f"the journal ends at offset {end}, and the tables reflect it up to {known.offset}: "
            f"what it held in between is gone"
        )
        entries = ()
    _drop_unpackable(mended)
    place = known
    for batch, at in _batches(known, entries, partition, mended.lost):
        put(mended.rows, batch.rows)
        mended.outputs += batch.outputs
        mended.redone += 1
        place = at
    _make_readable(partition, partitions, mended)
    if end:  # otherwise the next owner begins with the journal's first record
        reached = JournalPositionRow(
            partition=partition,
            epoch=max(0, place.epoch),
            sequence=max(0, place.sequence),
            offset=end - 1,
        )
        mended.rows[PLACES, str(partition)] = encode(reached)
    return mended


def _batches(
    known: Place, entries: Iterable[tuple[int, bytes | None]], partition: int, lost: list[str]
) -> Iterator[tuple[Batch, Place]]:
    """Whole batches of writers that owned the partition, whatever is missing between them."""
    place = known
    parts: list[Record] = []
    for offset, value in entries:
        if offset > place.offset + 1:
            lost.append(f"journal offsets {place.offset + 1} to {offset - 1} are gone")
        place = Place(place.epoch, place.sequence, offset)
        record = read_record(value)
        if isinstance(record, Refusal):
            if says_ours(value):
                lost.append(f"journal offset {offset} cannot be read: {record.reason}")
            continue
        head = record[0]
        if head.partition != partition or head.epoch < place.epoch:
            continue
        if head.opens:
            parts, place = [], Place(offset, place.sequence, offset)
            continue
        parts = [*parts, record] if head.part == len(parts) else [record]
        if head.part != head.parts - 1:
            continue
        if [each.part for each, _ in parts] != list(range(head.parts)):
            parts = []
            continue  # its number is missed when the next batch comes
        try:
            batch = whole(parts)
        except ValueError as error:
            lost.append(f"journal offset {offset}: the batch that it ends cannot be read: {error}")
            continue
        finally:
            parts = []
        if batch.sequence > place.sequence + 1:
            lost.append(
                f"batches {place.sequence + 1} to {batch.sequence - 1} are not there, or not whole"
            )
        place = Place(batch.epoch, batch.sequence, offset)
        yield batch, place


def _drop_unpackable(mended: Mended) -> None:
    """Rows that nothing can be redone over."""
    for (table, key), value in list(mended.rows.items()):
        try:
            unpacked([(table, key, value)])
        except DamagedTable as damaged:
            _drop(mended, table, key, damaged.problem)


def _make_readable(partition: int, partitions: int, mended: Mended) -> None:
    """Leave rows out, or put one in, until a stage can be restored."""
    while True:
        stored = [(table, key, value) for (table, key), value in mended.rows.items()]
        try:
            ClusterStage.restored(partition, partitions, stored)
        except DamagedTable as damaged:
            _mend_row(partition, mended, damaged)
        else:
            return


def _mend_row(partition: int, mended: Mended, damaged: DamagedTable) -> None:
    table, key = damaged.table, damaged.row
    if (table, key) in mended.rows:
        _drop(mended, table, key, damaged.problem)
    elif table == "clusters" and damaged.problem.startswith("missing"):
        mended.lost.append(f"table clusters, row of {key}: it is gone; it begins anew")
        mended.rows[table, f"{partition}/{key}"] = encode(ClusterRow(cluster=key))
    elif table == "partitions":
        mended.lost.append(
            "table partitions: its row is gone; all inputs are read from their beginnings"
        )
        mended.rows[table, key] = encode(PartitionRow(partition=partition))
    else:
        mended.lost.append(f"table {table}, {key}: {damaged.problem}")
        _forget_counts(mended.rows)


def _drop(mended: Mended, table: str, key: str, problem: str) -> None:
    mended.lost.append(f"table {table}, row {key}: {problem}")
    del mended.rows[table, key]
    _forget_counts(mended.rows)


def _forget_counts(rows: MutableMapping[tuple[str, str], bytes]) -> None:
    """The counts of rows are of before; the next batch of a cluster counts anew."""
    for (table, key), value in list(rows.items()):
        if table == "clusters":
            row = decode_as(ClusterRow, value, bytes_max=None)
            if not isinstance(row, Refusal):
                rows[table, key] = encode(row.model_copy(update={"rows": None}))
        elif table == "partitions":
            own = decode_as(PartitionRow, value, bytes_max=None)
            if not isinstance(own, Refusal):
                rows[table, key] = encode(own.model_copy(update={"clusters": None}))
