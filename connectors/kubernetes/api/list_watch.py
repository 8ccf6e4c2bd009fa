"""Lists and watches one collection of an API server, forever.

    Begun, Present, Present, ..., Ended     a complete list
    Changed, Deleted, ...                   later changes, in the server's order
    Begun, ...                              changes may have been missed: another list
    Absent                                  the collection does not exist, or must not be read

- A watch that ends, breaks off or falls silent continues from the last resource version, so no event is
  lost or repeated.
- If the version is too old (410), a list follows. A list also follows if the server does not know the
  version, because its store was restored. Such a server accepts a watch, but sends no event until it
  reaches the version. Therefore `_check_version` checks the version before a watch continues.
- A page that fails is requested again a few times, without the earlier pages. A list that cannot be
  completed has no `Ended`; another `Begun` follows. The pauses between such lists grow.
- Failed requests are repeated forever with growing pauses, and `failing_since_s` is set meanwhile.

Only the resource version is kept. The reader compares lists to find deleted objects.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer

logger = logging.getLogger(__name__)

#: Objects per page of a list: 500 large pods are about 5 MB.
PAGE_OBJECTS = 500
#: A watch ends after this time, in seconds, and continues, so that a dead connection is noticed soon.
WATCH_S = 55
#: A watch that sends no data is given up this long after its planned end, in seconds.
SILENCE_S = 15.0
#: A watch that ends sooner than this, in seconds, is followed by a pause of the same length.
BRIEF_S = 0.5
#: Pauses between attempts, in seconds. The longest pause also limits pauses that the server requires.
PAUSE_FIRST_S, PAUSE_MAX_S = 0.25, 20.0
#: Statuses of a collection that does not exist, or must not be read.
_ABSENT = (403, 404)
#: Most attempts at one page, half a minute with pauses. A new list would request all pages again, and the
#: server keeps a list for some minutes.
PAGE_ATTEMPTS_MAX = 8
#: A list within this time after another list is delayed, in seconds: a server that refuses every watch
#: must not send all its pods again and again.
LISTS_APART_S = 30.0
#: The server does not know the requested version, because its store was restored.
_TOO_LARGE = "ResourceVersionTooLarge"


@dataclass(frozen=True, slots=True)
class Begun:
    """A list begins."""


@dataclass(frozen=True, slots=True)
class Present:
    """An object of the list."""

    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """The list is complete: the collection has no other objects."""


@dataclass(frozen=True, slots=True)
class Changed:
    """An object is new or has changed."""

    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object was deleted; this is its last state."""

    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Absent:
    """The list was refused: the collection does not exist, or must not be read (403, 404)."""

    why: str


Event = Begun | Present | Ended | Changed | Deleted | Absent


class _Outdated(Exception):
    """The watch cannot continue; a list is necessary."""


def _is_temporary(error: ApiError | ApiUnreachable | AccessError) -> bool:
    return not isinstance(error, ApiError) or error.status == 429 or error.status >= 500


class ListWatch:
    """Follows one collection; `events` is read by one reader."""

    def __init__(self, server: ApiServer, path: str, *, page_objects: int = PAGE_OBJECTS) -> None:
        """`path` of the collection, such as `/api/v1/pods`."""
        self.path = path
        self.failing_since_s: float | None = None
        """Monotonic time of the first failed request; None: the last request succeeded."""
        self.why = ""
        """The last failure, in a sentence."""
        self.lists = 0
        """Number of completed lists."""
        self._server = server
        self._page_objects = page_objects
        self._version: str | None = None
        self._pause_s = PAUSE_FIRST_S
        self._list_pause_s = PAUSE_FIRST_S
        self._listed_at_s = 0.0

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield events forever; close the generator (`contextlib.aclosing`)."""
        while True:
            try:
                if self._version is None:
                    async with aclosing(self._list()) as listed:
                        async for event in listed:
                            yield event
                else:
                    await self._check_version(self._version)
                async with aclosing(self._watch()) as changes:
                    async for event in changes:
                        yield event
            except _Outdated as outdated:
                logger.info("%s: %s; listing again", self.path, outdated)
                self._version = None
                await self._pause_before_list()
            except (ApiError, ApiUnreachable, AccessError) as error:
                if (
                    self._version is None
                    and isinstance(error, ApiError)
                    and error.status in _ABSENT
                ):
                    yield Absent(str(error))
                await self._pause(error)

    async def follow(self, take: Callable[[AsyncGenerator[Event, None]], Awaitable[None]]) -> None:
        """Pass the events to `take`, until it ends or is cancelled."""
        async with aclosing(self.events()) as events:
            await take(events)

    async def _list(self) -> AsyncGenerator[Event, None]:
        yield Begun()
        version = None
        try:
            async with aclosing(self._pages()) as pages:
                async for page in pages:
                    version = page["metadata"]["resourceVersion"]
                    for obj in page.get("items") or ():
                        yield Present(obj)
        except ApiError as error:
            if error.status == 410:
                raise _Outdated("its pages were read too slowly") from error
            raise
        self.lists += 1
        self._version = version
        self._listed_at_s = time.monotonic()
        yield Ended()

    async def _pages(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the pages of a list; a failed page is requested again."""
        after, attempts = "", 0
        while True:
            try:
                async for page in self._server.pages(self.path, self._page_objects, after):
                    self._note_success()
                    after, attempts = page["metadata"].get("continue") or "", 0
                    yield page
            except (ApiError, ApiUnreachable, AccessError) as error:
                attempts += 1
                if not after or attempts == PAGE_ATTEMPTS_MAX or not _is_temporary(error):
                    raise
                await self._pause(error)
            else:
                return

    async def _check_version(self, version: str) -> None:
        """Check that the server has reached this version; raises _Outdated if it has not."""
        query = {
            "resourceVersion": version,
            "resourceVersionMatch": "NotOlderThan",
            "limit": "1",
        }
        try:
            await self._server.get(self.path, query)
        except ApiError as error:
            # A server that only lags behind reaches the version while it waits some seconds.
            if _TOO_LARGE.encode() in error.body:
                raise _Outdated(error.message) from error
            raise

    async def _watch(self) -> AsyncGenerator[Event, None]:
        """Yield changes until the watch ends; then it can continue from `_version`."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            # Watches that began together must not end together.
            "timeoutSeconds": str(WATCH_S - random.randrange(10)),  # noqa: S311
        }
        began_s = time.monotonic()
        try:
            silence_s = WATCH_S + SILENCE_S
            async with aclosing(
                self._server.lines(self.path, query, silence_s, self._note_accepted)
            ) as lines:
                async for line in lines:
                    self._note_success()
                    event = self._read(line)
                    if event is not None:
                        yield event
        except ApiError as error:
            if error.status == 410:
                raise _Outdated(error.message) from error
            raise
        self._note_success()
        if time.monotonic() - began_s < BRIEF_S:  # perhaps the server is shutting down
            await asyncio.sleep(BRIEF_S)

    def _read(self, line: bytes) -> Event | None:
        """Return the event of a line; None: a bookmark. Raises _Outdated for an error."""
        try:
            event = orjson.loads(line)
            kind, obj = event["type"], event["object"]
            if kind != "ERROR":
                self._version = obj["metadata"]["resourceVersion"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise _Outdated(f"its watch sent {line[:200]!r}, which is not an event") from error
        if kind == "ERROR":
            raise _Outdated(str(obj.get("message") or obj))
        if kind == "BOOKMARK":
            return None
        return Deleted(obj) if kind == "DELETED" else Changed(obj)

    def _note_accepted(self) -> None:
        """Note that a watch was accepted; its first event resets the pauses."""
        self.failing_since_s, self.why = None, ""

    def _note_success(self) -> None:
        self._note_accepted()
        self._pause_s = PAUSE_FIRST_S

    async def _pause_before_list(self) -> None:
        if time.monotonic() - self._listed_at_s > LISTS_APART_S:
            self._list_pause_s = PAUSE_FIRST_S
        await asyncio.sleep(self._list_pause_s * random.uniform(0.5, 1.0))  # noqa: S311
        self._list_pause_s = min(PAUSE_MAX_S, 2 * self._list_pause_s)

    async def _pause(self, error: ApiError | ApiUnreachable | AccessError) -> None:
        if self.failing_since_s is None:
            self.failing_since_s = time.monotonic()
            is_missing = isinstance(error, ApiError) and error.status == 404
            level = logging.INFO if is_missing else logging.WARNING
            logger.log(level, "%s: %s; trying again", self.path, error)
        self.why = str(error)
        at_least_s = getattr(error, "retry_after_s", None)
        pause_s = self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311
        await asyncio.sleep(max(pause_s, min(at_least_s or 0.0, PAUSE_MAX_S)))
        self._pause_s = min(PAUSE_MAX_S, 2 * self._pause_s)
