"""Where a partition's journal is read on from, and what is reported of foreign records in it."""

import logging
from collections.abc import Sequence

from schemas.codec import decode_as
from schemas.refusals import Refusal
from schemas.rows import JournalPositionRow
from streams import journal
from streams.deadletters import buried
from streams.journal import PLACES
from streams.records import DamagedTable, OutputRecord
from streams.shell.reader import Entry

logger = logging.getLogger(__name__)


def place_of(partition: int, value: bytes | None) -> journal.Place:
    """The place that a row of table `journal_positions` names; without one, that before the first record.

    Raises:
        DamagedTable: the row cannot be read.
    """
    if value is None:
        return journal.Place()
    row = decode_as(JournalPositionRow, value)
    if isinstance(row, Refusal):
        raise DamagedTable(PLACES, str(partition), f"cannot be read: {row.reason}")
    return journal.Place(row.epoch, row.sequence, row.offset)


def passed_over(
    reader: journal.Reader, partition: int, entries: Sequence[Entry]
) -> list[OutputRecord]:
    """Dead letters of the foreign records among the entries, which the reader has just read."""
    records = {entry.offset: entry.as_input(journal.TOPIC, partition) for entry in entries}
    found = reader.take_foreign()
    for each in found:
        logger.warning("journal offset %d was passed over: %s", each.offset, each.refusal.reason)
    return [letter for each in found for letter in buried(records[each.offset], each.refusal)]
