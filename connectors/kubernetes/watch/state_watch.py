"""Report the state of a cluster from its API server.

    a task per collection ──▶ one bounded queue ──▶ reporters ──▶ topic and message

A full list starts from scratch: everything reported before is forgotten, each collection is listed and
followed, and the list ends on both topics when every collection is complete. Later lists of single
collections (after an expired watch or a restored store) are compared with what was reported, so no
further full list is needed, unless the reader has lost messages or got `WatchBroken`.

The queue is small. If messages are sent slowly, watches are read slowly. The API server ends watches that
fall behind, and their collections are listed and compared. So memory is bounded and no change is lost.

Volumes and claims are listed before pods, whose records depend on them. Otherwise collections have no
order relative to each other; within a collection the order is the server's. States between two lists may
be skipped: an object that appeared and disappeared is not reported, and a pod that was bound and started
is reported once.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from collections.abc import Collection as Names
from contextlib import aclosing
from dataclasses import dataclass

from connectors.kubernetes.api.list_watch import Absent, Ended, Event, ListWatch
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.watch.kinds import KINDS, PODS, REQUIRED, get_record_kind
from connectors.kubernetes.watch.objects import Objects
from connectors.kubernetes.watch.pod_reporter import PodReporter
from connectors.kubernetes.watch.reporter import Reported, Reporter
from connectors.kubernetes.watch.volumes import CLAIMS, VOLUMES, Claims
from connectors.process.wall_clock import now_ms as wall_clock_ms
from schemas.base.message import Message
from schemas.messages.lists import LISTED_TOPICS, ListBegin, ListEnd

#: Default scheduler names of pods that loadstream places.
SCHEDULERS = frozenset({"loadstream"})
#: Most queued events: JSON of objects, about 30 KB each.
QUEUE_MAX = 500


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

    list_watch: ListWatch
    reporter: Reporter
    required: bool
    """A full list needs this collection."""
    listed: bool = False
    """Whether its list was completed since the full list began."""
    absent: bool = False
    """Whether its last list was refused."""

    @property
    def is_settled(self) -> bool:
        """Whether a full list can end without waiting for this collection."""
        return self.listed or (self.absent and not self.required)

    async def run(self, queue: "asyncio.Queue[tuple[Collection, Event | Exception]]") -> None:
        """Put its events into a queue; an error is the last item."""
        try:
            async with aclosing(self.list_watch.events()) as events:
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
        failing = self.list_watch.failing_since_s
        return CollectionHealth(
            path=self.list_watch.path,
            objects=len(self.reporter.reported),
            lists=self.list_watch.lists,
            failing_s=None if failing is None else time.monotonic() - failing,
            why=self.list_watch.why,
            left_out=len(self.reporter.left_out),
        )


class WatchBroken(RuntimeError):
    """Changes may have been lost, so a full list must follow. The message says why."""


class KubernetesWatch:
    """Watches one cluster through its API server; call `close` at the end."""

    def __init__(
        self,
        cluster: str,
        server: ApiServer,
        *,
        schedulers: Names[str] = SCHEDULERS,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Args:
        cluster: name of the cluster in messages.
        server: its API server.
        schedulers: scheduler names of pods that loadstream places.
        now_ms: returns the time of requests.
        """
        self.cluster = cluster
        self._server = server
        self._claims = Claims()
        self._pods = PodReporter(cluster, schedulers, self._claims, now_ms)
        self._collections: dict[str, Collection] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: asyncio.Queue[tuple[Collection, Event | Exception]] = asyncio.Queue(QUEUE_MAX)
        self._unread: Iterator[tuple[str, Message]] = iter(())
        """Remaining messages of the last event."""

    async def full_list(self, list_id: str) -> AsyncGenerator[tuple[str, Message], None]:
        """Yield all objects between begin and end on both topics, and requests of waiting pods."""
        await self.close()
        self._begin()
        for topic in LISTED_TOPICS:
            yield topic, ListBegin(cluster=self.cluster, list_id=list_id)
        collections = self._collections.values()
        while not all(collection.is_settled for collection in collections):
            await self._take(list_id)
            for item in self._unread:
                yield item
            self._follow_pods()
        for topic in LISTED_TOPICS:
            kinds = self._complete_kinds() if topic == "pod-lifecycle" else ()
            yield topic, ListEnd(cluster=self.cluster, list_id=list_id, kinds=kinds)

    async def changes(self) -> AsyncGenerator[tuple[str, Message], None]:
        """Yield changes since the full list, forever.

        Raises WatchBroken before the first full list, and if the watch cannot continue.
        """
        if not self._tasks:
            raise WatchBroken("nothing is watched yet: a full list comes first")
        while True:
            for item in self._unread:
                yield item
            await self._take(None)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def health(self) -> list[CollectionHealth]:
        return [self._collections[path].health() for path in sorted(self._collections)]

    def _complete_kinds(self) -> tuple[str, ...]:
        """Return the kinds of records with completely listed collections."""
        complete: dict[str, bool] = {}
        for path, kind in KINDS.items():
            name, listed = get_record_kind(kind), self._collections[path].listed
            complete[name] = complete.get(name, True) and listed
        return tuple(kind for kind, all_listed in complete.items() if all_listed)

    # --- following ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Forget what was reported, and follow all collections except pods."""
        self._queue = asyncio.Queue(QUEUE_MAX)
        self._unread = iter(())
        self._claims.clear()
        self._pods.clear()
        reporters: dict[str, Reporter] = {
            VOLUMES: self._claims.volumes,
            CLAIMS: self._claims.claims,
            **{path: Objects(self.cluster, kind) for path, kind in KINDS.items()},
        }
        self._collections = {
            path: Collection(ListWatch(self._server, path), reporter, path in REQUIRED)
            for path, reporter in reporters.items()
        }
        for collection in self._collections.values():
            self._follow(collection)
        self._collections[PODS] = Collection(
            ListWatch(self._server, PODS), self._pods, required=True
        )
        self._pods_followed = False

    def _follow(self, collection: Collection) -> None:
        self._tasks.append(asyncio.create_task(collection.run(self._queue)))

    def _follow_pods(self) -> None:
        """Follow the pods once claims and volumes are known."""
        if not self._pods_followed and all(
            self._collections[p].is_settled for p in (CLAIMS, VOLUMES)
        ):
            self._pods_followed = True
            self._follow(self._collections[PODS])

    async def _take(self, list_id: str | None) -> None:
        """Wait for an event and set `_unread` to its messages; raises WatchBroken."""
        collection, event = await self._queue.get()
        if isinstance(event, Exception):
            why = f"{collection.list_watch.path}: {type(event).__name__}: {event}"
            raise WatchBroken(why) from event
        collection.note(event)
        self._unread = self._report(collection, event, list_id)

    def _report(self, collection: Collection, event: Event, list_id: str | None) -> Reported:
        yield from collection.reporter.report(event, list_id)
        if self._claims.take_changed():
            yield from self._pods.claims_changed(list_id)
