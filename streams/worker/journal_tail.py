"""What is reported of foreign records in a journal."""

import logging
from collections.abc import Sequence

from streams.stage import journal
from streams.stage.dead_letters import buried
from streams.stage.records import OutputRecord
from streams.worker.reader import Entry

logger = logging.getLogger(__name__)


def passed_over(
    reader: journal.Reader, partition: int, entries: Sequence[Entry]
) -> list[OutputRecord]:
    """Dead letters of the foreign records among the entries, which the reader has just read."""
    records = {entry.offset: entry.as_input(journal.TOPIC, partition) for entry in entries}
    found = reader.take_foreign()
    for each in found:
        logger.warning("journal offset %d was passed over: %s", each.offset, each.refusal.reason)
    return [letter for each in found for letter in buried(records[each.offset], each.refusal)]
