"""The port to what decides in production: records in, records out, without a broker.

`connectors` does not know the stages; the composition root gives a function that makes a pair.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Written:
    """A record as its producer wrote it."""

    topic: str
    key: str
    value: bytes
    written_ms: int
    """When it was written, by the producer's clock."""


class Stages(Protocol):
    """Both stages of one partition, joined to each other."""

    def apply(self, records: Sequence[Written]) -> list[tuple[str, bytes]]:
        """Apply records in order; answers with topic and value of everything for outside, in the
        order in which it was written, dead letters included.

        Metrics that the aggregate stage makes of samples come after the other records.
        """
        ...

    @property
    def applied(self) -> int:
        """How many records both have applied."""
        ...


MakeStages = Callable[[], Stages]
