"""Build messages from plain values, and validate them as their readers do.

A value that its readers would refuse becomes a `Refusal`, which the watch reports. Equal values have
equal digests.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

import orjson
from pydantic import BaseModel

from connectors.kubernetes.watch.metadata import Json
from schemas.base.refusals import Refusal
from schemas.topics.codec import decode_as

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Values(Generic[M]):
    """Values of a message, as JSON."""

    message: type[M]
    json: bytes

    @property
    def digest(self) -> int:
        """Hash of the values; only comparable within this process."""
        return hash(self.json)

    def read(self) -> M | Refusal:
        """Return the message, or why it is invalid."""
        return decode_as(self.message, self.json)


def encode_values(message: type[M], values: Json) -> Values[M]:
    """Return values as JSON, in the order given; raises TypeError for values without a JSON form."""
    return Values(message, orjson.dumps(values))
