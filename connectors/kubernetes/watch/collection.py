"""One collection of the API server: its list and watch, its reporter, and its health."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

from connectors.kubernetes.api.list_watch import Absent, Ended, Event, ListWatch
from connectors.kubernetes.watch.reporter import Reporter


@dataclass(frozen=True, slots=True)
class CollectionHealth:
    path: str
    """Path of the collection, such as `/api/v1/pods`."""
    objects: int
    """Number of reported objects."""
    lists: int
    """Number of completed lists."""
    failing_s: float | None
    """Seconds since the first failed request; None: the last request succeeded."""
    why: str
    """The last failure; empty: the last request succeeded."""
    left_out: int
    """Number of objects that do not fit into a record."""


@dataclass(slots=True)
class Collection:
    """A collection; `run` follows it until it is cancelled."""

    follows: ListWatch
    reporter: Reporter
    required: bool
    """A full list needs this collection."""
    listed: bool = False
    """Its list is complete since the full list began."""
    absent: bool = False
    """Its last list was refused."""

    @property
    def settled(self) -> bool:
        """Whether a full list can end without waiting for this collection."""
        return self.listed or (self.absent and not self.required)

    async def run(self, queue: "asyncio.Queue[tuple[Collection, Event | Exception]]") -> None:
        """Put its events into a queue; an error is the last item."""
        try:
            async with aclosing(self.follows.events()) as events:
                async for event in events:
                    await queue.put((self, event))
        except Exception as error:
            await queue.put((self, error))

    def note(self, event: Event) -> None:
        """Update the state by an event."""
        if isinstance(event, Ended):
            self.listed, self.absent = True, False
        elif isinstance(event, Absent):
            self.absent = True

    def health(self) -> CollectionHealth:
        failing = self.follows.failing_since_s
        return CollectionHealth(
            path=self.follows.path,
            objects=len(self.reporter.known),
            lists=self.follows.lists,
            failing_s=None if failing is None else time.monotonic() - failing,
            why=self.follows.why,
            left_out=len(self.reporter.left_out),
        )
