"""One collection of the API server: its list and watch, its reporter, and its health."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

from connectors.kubernetes.api.list_watch import Absent, Begun, Ended, Event, ListWatch
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
    event_age_s: float | None
    """Seconds since the last event; None: there was none."""
    left_out: int
    """Number of objects that do not fit into a record."""
    reasons: dict[str, str]
    """Why they do not fit, by key, for the first of them."""


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
    event_at_s: float | None = None

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
        elif not isinstance(event, Begun):
            self.event_at_s = time.monotonic()

    def health(self) -> CollectionHealth:
        now_s, failing = time.monotonic(), self.follows.failing_since_s
        return CollectionHealth(
            path=self.follows.path,
            objects=len(self.reporter.known),
            lists=self.follows.lists,
            failing_s=None if failing is None else now_s - failing,
            why=self.follows.why,
            event_age_s=None if self.event_at_s is None else now_s - self.event_at_s,
            left_out=len(self.reporter.left_out),
            reasons={key: why for key, why in self.reporter.left_out.items() if why},
        )
