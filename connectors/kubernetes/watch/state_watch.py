"""Reports the state of a cluster as its API server has it.

    follow each collection ──▶ one bounded queue ──▶ reporters ──▶ topic and message

A full list begins everything anew: what was reported before is forgotten, each collection is listed
and followed, and both topics' brackets close when every collection is complete. Afterwards a list
within the process (a watch that was too old, a store that was put back) is compared with what was
reported, so changes go on without another full list. Another is needed only where the reader has
lost messages, or after `WatchBroken`.

The queue holds few events: where messages are sent slowly, the watches are read slowly, and the API
server ends those that fall behind; they are listed and compared. So memory stays bounded, and
nothing is lost.

Volumes and claims are listed before the pods, whose records depend on them. Collections have no
order among each other otherwise; of one collection the order is the server's.

Not guaranteed: every state between two lists. An object that came and went meanwhile was never
there, and a pod that was bound and has started is reported once.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from collections.abc import Collection as Names
from typing import ClassVar

from connectors.kubernetes.api.list_watch import Event, ListWatch
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.watch.claims import Claims
from connectors.kubernetes.watch.collection import Collection
from connectors.kubernetes.watch.health import CollectionHealth
from connectors.kubernetes.watch.kinds import CLAIMS, KINDS, PODS, REQUIRED, VOLUMES, record_kind
from connectors.kubernetes.watch.metadata import Json
from connectors.kubernetes.watch.objects import Objects
from connectors.kubernetes.watch.pod_reporter import PodReporter
from connectors.kubernetes.watch.reporter import Reported
from connectors.ports.state_watch import LISTED, StateWatch, WatchBroken
from connectors.process.wall_clock import now_ms as wall_clock_ms
from schemas.base.message import Message
from schemas.messages.lists import ListBegin, ListEnd

#: Scheduler names of pods that loadstream places, unless others are given.
SCHEDULERS = frozenset({"loadstream"})
#: Events that wait to be reported: objects as the API server wrote them, about 30 KB each.
QUEUE_MAX = 500


class KubernetesWatch(StateWatch):
    """Watches one cluster through its API server; close it when it is left."""

    name: ClassVar[str] = "kubernetes"

    def __init__(
        self,
        cluster: str,
        server: ApiServer,
        *,
        schedulers: Names[str] = SCHEDULERS,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """Watch nothing until the first full list.

        Args:
            cluster: its name in messages.
            server: its API server.
            schedulers: pods with one of these names are ours to place.
            now_ms: the time of requests.
        """
        super().__init__(cluster)
        self._server = server
        self._claims = Claims()
        self._claims_changed = False
        self._pods = PodReporter(cluster, schedulers, self._claims, now_ms)
        self._collections: dict[str, Collection] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: asyncio.Queue[tuple[Collection, Event | Exception]] = asyncio.Queue(QUEUE_MAX)
        self._unread: Iterator[tuple[str, Message]] = iter(())
        """Of the event that was taken last, what was not given yet."""

    async def full_list(self, list_id: str) -> AsyncGenerator[tuple[str, Message], None]:
        """Everything that there is, bracketed on both topics, and what pods request of us."""
        await self.close()
        self._begin()
        for topic in LISTED:
            yield topic, ListBegin(cluster=self.cluster, list_id=list_id)
        collections = self._collections.values()
        while not all(each.settled for each in collections):
            await self._take(list_id)
            for each in self._unread:
                yield each
            self._follow_pods()
        for topic in LISTED:
            kinds = self._complete_kinds() if topic == "pod-lifecycle" else ()
            yield topic, ListEnd(cluster=self.cluster, list_id=list_id, kinds=kinds)

    async def changes(self) -> AsyncGenerator[tuple[str, Message], None]:
        """Changes since the full list, for ever; it waits for the next one.

        Raises WatchBroken before the first full list, and where nothing can be followed any more.
        """
        if not self._tasks:
            raise WatchBroken("nothing is watched yet: a full list comes first")
        while True:
            for each in self._unread:
                yield each
            await self._take(None)

    async def close(self) -> None:
        """Watch nothing any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def health(self) -> list[CollectionHealth]:
        """How each collection is doing, in the order of their paths."""
        return [self._collections[path].health() for path in sorted(self._collections)]

    def _complete_kinds(self) -> tuple[str, ...]:
        """Kinds of records of which every collection was listed."""
        complete: dict[str, bool] = {}
        for path, kind in KINDS.items():
            named, listed = record_kind(kind), self._collections[path].listed
            complete[named] = complete.get(named, True) and listed
        return tuple(kind for kind, all_listed in complete.items() if all_listed)

    @property
    def waiting_events(self) -> int:
        """Events that have come and were not reported yet; at most `QUEUE_MAX`."""
        return self._queue.qsize()

    # --- following ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Forget what was reported, and follow all but the pods."""
        self._queue = asyncio.Queue(QUEUE_MAX)
        self._unread = iter(())
        self._claims.clear()
        self._pods.clear()
        heard = {CLAIMS: self._heard_of_claim, VOLUMES: self._heard_of_volume}
        self._collections = {
            path: Collection(
                ListWatch(self._server, path),
                Objects(self.cluster, kind, heard.get(path)),
                path in REQUIRED,
            )
            for path, kind in KINDS.items()
        }
        for each in self._collections.values():
            self._follow(each)
        self._collections[PODS] = Collection(
            ListWatch(self._server, PODS), self._pods, required=True
        )
        self._pods_followed = False

    def _follow(self, collection: Collection) -> None:
        self._tasks.append(asyncio.create_task(collection.run(self._queue)))

    def _follow_pods(self) -> None:
        """Follow the pods as soon as it is known what their claims are bound to."""
        if not self._pods_followed and all(self._collections[p].settled for p in (CLAIMS, VOLUMES)):
            self._pods_followed = True
            self._follow(self._collections[PODS])

    async def _take(self, list_id: str | None) -> None:
        """Wait for an event, whose messages are `_unread` then; raises WatchBroken."""
        collection, event = await self._queue.get()
        if isinstance(event, Exception):
            why = f"{collection.follows.path}: {type(event).__name__}: {event}"
            raise WatchBroken(why) from event
        collection.note(event)
        self._unread = self._reported(collection, event, list_id)

    def _reported(self, collection: Collection, event: Event, list_id: str | None) -> Reported:
        yield from collection.reporter.report(event, list_id)
        if self._claims_changed:
            self._claims_changed = False
            yield from self._pods.claims_changed(list_id)

    def _heard_of_claim(self, identity: Json, values: Json | None) -> None:
        changed = self._claims.put_claim(identity["namespace"], identity["name"], values)
        self._claims_changed |= changed

    def _heard_of_volume(self, identity: Json, values: Json | None) -> None:
        self._claims_changed |= self._claims.put_volume(identity["name"], values)
