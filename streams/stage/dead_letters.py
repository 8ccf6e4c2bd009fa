"""A refused record as output records for `dead-letters`."""

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import build_dead_letter, split_letter
from schemas.topics.codec import encode
from streams.stage.records import InputRecord, OutputRecord

DEAD_LETTERS_TOPIC = "dead-letters"


def refuse_output(output: OutputRecord) -> Refusal:
    """Return why an output that is too long cannot be published."""
    return Refusal(
        "limit",
        f"the record was applied, but it causes a record of {len(output.value)} bytes to {output.topic}, "
        f"which cannot be published; allowed are at most {VALUE_BYTES_MAX}",
    )


def build_dead_letters(record: InputRecord, refusal: Refusal) -> list[OutputRecord]:
    """Return a record with the reason of its refusal, in several output records if it is large.

    Their timestamp is the time of writing: with the timestamp of an old record, retention would delete
    them at once.
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
