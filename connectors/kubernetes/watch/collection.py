"""One collection: what follows it, what is reported of it, and how it is doing."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass

from connectors.kubernetes.api.list_watch import Absent, Begun, Ended, Event, ListWatch
from connectors.kubernetes.watch.health import CollectionHealth
from connectors.kubernetes.watch.reporter import Reporter


@dataclass(slots=True)
class Collection:
    """A collection of the API server; `run` follows it until it is cancelled."""

    follows: ListWatch
    reporter: Reporter
    required: bool
    """There is no full list without it."""
    listed: bool = False
    """A list of it was complete since the full list began."""
    absent: bool = False
    """Its list was refused last."""
    event_at_s: float | None = None

    @property
    def settled(self) -> bool:
        """A full list need not wait for it."""
        return self.listed or (self.absent and not self.required)

    async def run(self, queue: "asyncio.Queue[tuple[Collection, Event | Exception]]") -> None:
        """Put its events into a queue; the last thing put there is what went wrong."""
        try:
            async with aclosing(self.follows.events()) as events:
                async for event in events:
                    await queue.put((self, event))
        except Exception as error:
            await queue.put((self, error))

    def note(self, event: Event) -> None:
        """An event is about to be reported."""
        if isinstance(event, Ended):
            self.listed, self.absent = True, False
        elif isinstance(event, Absent):
            self.absent = True
        elif not isinstance(event, Begun):
            self.event_at_s = time.monotonic()

    def health(self) -> CollectionHealth:
        """How it is doing."""
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
