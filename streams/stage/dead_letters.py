"""A refused record as output records for `dead-letters`."""

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import build_dead_letter, split_letter
from schemas.topics.codec import encode
from streams.stage.records import InputRecord, OutputRecord

DEAD_LETTERS_TOPIC = "dead-letters"


def too_long(output: OutputRecord) -> Refusal | None:
    """Why an output cannot be published: no reader takes one of its length; None: it can."""
    if len(output.value) <= VALUE_BYTES_MAX:
        return None
    return Refusal(
        "limit",
        f"it was applied, and what it causes cannot be published: a record of {len(output.value)} bytes to "
        f"{output.topic}; allowed are at most {VALUE_BYTES_MAX}",
    )


def buried(record: InputRecord, refusal: Refusal) -> list[OutputRecord]:
    """The record whole, with the reason; several records where it is too large for one.

    They are written with the time of writing: an old record's own time is in the letter, and as the
    letter's it would let retention delete it at once.
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
