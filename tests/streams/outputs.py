"""Outputs of the stages as their readers see them, held to the classes in `schemas`."""

from typing import Any

from schemas.base.refusals import Refusal
from schemas.topics.codec import decode, encode, encode_fields
from streams.stage.records import OutputMessage


def read_message(output: OutputMessage) -> Any:
    """The message, which its class accepts and encodes in the same way."""
    return read_output(output.topic, encode_fields(output.fields))


def read_output(topic: str, value: bytes) -> Any:
    """The message of a record, which its class accepts and encodes in the same way."""
    message = decode(topic, value)
    assert not isinstance(message, Refusal), message.reason
    assert encode(message) == value
    return message
