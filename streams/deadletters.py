"""A refused record as output records for `dead-letters`."""

from schemas.codec import encode
from schemas.deadletters import dead_letter, in_parts
from schemas.refusals import Refusal
from streams.records import InputRecord, OutputRecord

DEAD_LETTERS_TOPIC = "dead-letters"


def buried(record: InputRecord, refusal: Refusal) -> list[OutputRecord]:
    """The record whole, with the reason; several records where it is too large for one.

    They are written with the time of writing: an old record's own time is in the letter, and as the
    letter's it would let retention delete it at once.
    """
    letter = dead_letter(
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
        for part in in_parts(letter)
    ]
