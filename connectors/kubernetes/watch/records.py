"""Plain values to messages: nothing is sent that its readers would refuse.

A message is made by the same validation that reads it from a topic, from the JSON of its values; so
what is made here can be read, and what cannot is a `Refusal` with a sentence, which the watch
reports. Two objects with the same values have the same digest.
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
    """Values of a message to be, as JSON."""

    message: type[M]
    json: bytes

    @property
    def digest(self) -> int:
        """Tells values apart; of use within this process only."""
        return hash(self.json)

    def read(self) -> M | Refusal:
        """The message, or why there can be none."""
        return decode_as(self.message, self.json)


def values_of(message: type[M], values: Json) -> Values[M]:
    """Values as JSON, in the order given; raises TypeError for what JSON cannot say."""
    return Values(message, orjson.dumps(values))
