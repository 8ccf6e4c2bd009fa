"""What the tables know of the journal when a partition is taken over, and whether they are still
whole.

Table `journal_positions` has two rows per partition: the place in the journal up to which all rows
reflect it, and the ids of the journal and of the changelogs that the last owner found. A journal
with another id was deleted and made again. Then only the tables are left, complete up to a few
seconds before: the partition goes on from them and from the opening record of the first owner that
found the new journal. Batches continue the old numbers, so that the first one there is not taken
for the first of all. A changelog with another id has lost its rows; then no partition can go on.
"""

import logging
from collections.abc import Mapping

from schemas.codec import decode_as, encode
from schemas.refusals import Refusal
from schemas.rows import JournalPositionRow
from streams.stage import journal
from streams.stage.journal import PLACES
from streams.stage.records import DamagedTable, RowChange

logger = logging.getLogger(__name__)

#: Longest time that a changed row stays unwritten, in seconds: bounds what is redone after a crash.
#: A node's row holds all its pods, so it is written once for many of their changes.
UNWRITTEN_S = 5.0


class Opening:
    """The rows of one partition against the topics as they are now."""

    def __init__(
        self, partition: int, rows: Mapping[str, bytes], topic_ids: Mapping[str, str]
    ) -> None:
        """`rows` are those of `PLACES` by key, `topic_ids` those of journal and changelogs, as far
        as known.

        Raises:
            DamagedTable: a row cannot be read, or a changelog was made again.
        """
        self._partition = partition
        self._now = topic_ids
        self._key = f"{partition}/opened"
        self._reached = _read(str(partition), rows.get(str(partition)))
        self._found = _read(self._key, rows.get(self._key))
        self._check_changelogs()

    @property
    def is_news(self) -> bool:
        """The last owner has found other topics, or none has noted any."""
        return bool(self._now) and self._ids_found() != self._now

    def known(self, opened: int) -> journal.Place:
        """What the tables know of the journal as it is now; `opened` is the offset of this owner's
        opening record."""
        reached, now = self._reached, self._now.get(journal.TOPIC)
        if reached is None:
            return journal.Place()
        if now is None or reached.journal_id in (None, now):
            return journal.Place(reached.epoch, reached.sequence, reached.offset)
        if self._found is not None and self._ids_found().get(journal.TOPIC) == now:
            # No rows were written since.
            return journal.Place(sequence=reached.sequence, offset=self._found.offset - 1)
        logger.warning(
            "topic %s was deleted and made again: partition %d goes on from its tables. Decisions of the last %.0f s "
            "before may be made again",
            journal.TOPIC,
            self._partition,
            UNWRITTEN_S,
        )
        return journal.Place(sequence=reached.sequence, offset=opened - 1)

    def row(self, offset: int) -> RowChange:
        """What this owner has found, and the offset of the journal that it began to read at."""
        row = JournalPositionRow(
            partition=self._partition,
            epoch=0,
            sequence=0,
            offset=offset,
            topic_ids=dict(self._now),
        )
        return RowChange(PLACES, self._key, encode(row))

    def _ids_found(self) -> Mapping[str, str]:
        return {} if self._found is None else self._found.topic_ids

    def _check_changelogs(self) -> None:
        again = [
            name
            for name, was in sorted(self._ids_found().items())
            if name != journal.TOPIC and self._now.get(name, was) != was
        ]
        if again:
            what = f"{', '.join(again)}: deleted and made again, and the rows in it are gone"
            raise DamagedTable(PLACES, self._key, what)


def _read(key: str, value: bytes | None) -> JournalPositionRow | None:
    if value is None:
        return None
    row = decode_as(JournalPositionRow, value)
    if isinstance(row, Refusal):
        raise DamagedTable(PLACES, key, f"cannot be read: {row.reason}")
    return row
