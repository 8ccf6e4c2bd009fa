"""One record of a batch and its results, cluster by cluster, until the batch is over.

A tick is for all clusters of a partition. If one of them fails, its results are taken back and made
again without the failure, while the other clusters keep theirs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from schemas.clock import ClockTick
from schemas.refusals import Refusal
from streams.cluster.spoken import Spoken
from streams.stage.records import InputRecord


@dataclass(slots=True)
class Applied:
    """A record that was not applied before."""

    record: InputRecord
    message: Any = None
    """What it says; none: it was refused before any cluster saw it."""
    set_back_from_ms: int | None = None
    """A tick that sets the time back: what it was before; none: time goes on."""
    refused: dict[str, Refusal] = field(default_factory=dict)
    """Why it was refused, by cluster; empty name: by all."""
    failed: dict[str, None] = field(default_factory=dict)
    """Clusters that it made fail, or that are set apart: they are as if it had not come."""
    _spoken: dict[str, list[Spoken]] = field(default_factory=dict)
    notes: list[Spoken] = field(default_factory=list)
    """What is said of a cluster that failed; it stays."""

    def concerns(self, cluster: str) -> bool:
        """Whether the record is for a cluster."""
        message = self.message
        return message is not None and (
            isinstance(message, ClockTick) or message.cluster == cluster
        )

    def say(self, cluster: str, spoken: list[Spoken]) -> None:
        """What a cluster answers."""
        if spoken:
            self._spoken[cluster] = spoken

    def take_back(self, cluster: str) -> None:
        """What a cluster answered does not count."""
        self._spoken.pop(cluster, None)
        if cluster not in self.failed:
            self.refused.pop(cluster, None)

    def fail(self, cluster: str, refusal: Refusal) -> None:
        """The record changes nothing in a cluster."""
        self.take_back(cluster)
        self.failed[cluster] = None
        self.refused[cluster] = refusal

    def leave_out(self, cluster: str) -> None:
        """The record changes nothing in a cluster that is set apart, and is not refused."""
        self.take_back(cluster)
        self.failed[cluster] = None

    @property
    def refusal(self) -> Refusal | None:
        """Why the record goes to dead letters; None: it was applied."""
        return next(iter(self.refused.values()), None)

    def spoken(self) -> Iterator[Spoken]:
        """All messages, cluster by cluster."""
        for cluster in sorted(self._spoken):
            yield from self._spoken[cluster]
        yield from self.notes
