"""Follows one collection of an API server for ever: a list, then its changes, and again if
necessary.

    Begun, Present, Present, ..., Ended     a list, complete
    Changed, Deleted, ...                   what happened after it, in the server's order
    Begun, ...                              changes may have been missed: all that there is, anew
    Absent                                  the collection is not served, or may not be read

A watch that ends, breaks off or falls silent goes on from the resource version that was read last,
so nothing is missed and nothing comes twice. If that is impossible, a list follows: the version is
too old (410), or unknown to a server whose store was set back. Such a server accepts the watch and
is silent until its own versions reach it; so the server is asked for its version before a watch
goes on. A page that does not come is requested again a few times, but no page before it. A list
that cannot be completed has no `Ended`, and another `Begun` follows; the pauses between such lists
grow.

Only the resource version is kept here. The reader must compare lists to find what a list no longer
has. Requests that fail are repeated for ever, with growing pauses; `failing_since_s` says since
when they fail.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer

logger = logging.getLogger(__name__)

#: Objects on one page of a list: 500 large pods are about 5 MB.
PAGE_OBJECTS = 500
#: A watch ends after this time, in seconds, and goes on where it was: a connection that is dead
#: without saying so is found out soon.
WATCH_S = 55
#: How much later than its end a silent watch is given up, in seconds.
SILENCE_S = 15.0
#: After a watch that ended sooner than this, in seconds, there is a pause of the same length.
BRIEF_S = 0.5
#: Pauses between attempts, in seconds; the longest one, too, where the server asks for more.
PAUSE_FIRST_S, PAUSE_MAX_S = 0.25, 20.0
#: Statuses of a collection that is not served, or may not be read.
_ABSENT = (403, 404)
#: Attempts at one page at most, half a minute with the pauses between them: of a list that begins anew
#: all pages are asked for again, and the server keeps one for some minutes.
PAGE_ATTEMPTS_MAX = 8
#: A list that follows on another within this time, in seconds, waits: a server that refuses every
#: watch must not be asked for all its pods over and over.
LISTS_APART_S = 30.0
#: The server does not know the version that it is asked for: its store was put back.
_TOO_LARGE = "ResourceVersionTooLarge"


@dataclass(frozen=True, slots=True)
class Begun:
    """A list begins; what was known before may be outdated."""


@dataclass(frozen=True, slots=True)
class Present:
    """An object of the list."""

    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """The list is complete: there is nothing else in the collection."""


@dataclass(frozen=True, slots=True)
class Changed:
    """An object is new, or another than before."""

    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone, or no longer matches the selectors; it is given as it was last."""

    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Absent:
    """The list was refused: the server has no such collection, or it may not be read (403, 404)."""

    why: str


Event = Begun | Present | Ended | Changed | Deleted | Absent


class _Outdated(Exception):
    """Only a list helps."""


def _passes(error: ApiError | ApiUnreachable | AccessError) -> bool:
    """The same request may succeed a moment later."""
    return not isinstance(error, ApiError) or error.status == 429 or error.status >= 500


class ListWatch:
    """Follows one collection; `events` is read by one reader."""

    def __init__(
        self,
        server: ApiServer,
        path: str,
        *,
        selectors: Mapping[str, str] | None = None,
        page_objects: int = PAGE_OBJECTS,
    ) -> None:
        """`path` is that of the collection, as `/api/v1/pods`; `selectors` are `fieldSelector` and
        `labelSelector`."""
        self.path = path
        self.failing_since_s: float | None = None
        """Since when no request has succeeded, by the monotonic clock; none: the last one has."""
        self.why = ""
        """The sentence of the last failure."""
        self.lists = 0
        """Lists that were completed."""
        self._server = server
        self._selectors = dict(selectors or {})
        self._page_objects = page_objects
        self._version: str | None = None
        self._pause_s = PAUSE_FIRST_S
        self._list_pause_s = PAUSE_FIRST_S
        self._listed_at_s = 0.0

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events, for ever; close it (`contextlib.aclosing`) when it is left."""
        while True:
            try:
                if self._version is None:
                    async with aclosing(self._list()) as listed:
                        async for event in listed:
                            yield event
                else:
                    await self._find_version(self._version)
                async with aclosing(self._watch()) as changes:
                    async for event in changes:
                        yield event
            except _Outdated as outdated:
                logger.info("%s: %s; it is listed again", self.path, outdated)
                self._version = None
                await self._before_list()
            except (ApiError, ApiUnreachable, AccessError) as error:
                if (
                    self._version is None
                    and isinstance(error, ApiError)
                    and error.status in _ABSENT
                ):
                    yield Absent(str(error))
                await self._pause(str(error), getattr(error, "retry_after_s", None))

    async def _list(self) -> AsyncGenerator[Event, None]:
        yield Begun()
        version = None
        try:
            async with aclosing(self._pages()) as pages:
                async for page in pages:
                    version = page["metadata"]["resourceVersion"]
                    for found in page.get("items") or ():
                        yield Present(found)
        except ApiError as error:
            if error.status == 410:
                raise _Outdated("its pages were read too slowly") from error
            raise
        self.lists += 1
        self._version = version
        self._listed_at_s = time.monotonic()
        yield Ended()

    async def _pages(self) -> AsyncGenerator[dict[str, Any], None]:
        """The pages of a list; of one that does not come for the moment those before stay read."""
        after, attempts = "", 0
        while True:
            try:
                async for page in self._server.pages(
                    self.path, self._page_objects, self._selectors, after
                ):
                    self._succeeded()
                    after, attempts = page["metadata"].get("continue") or "", 0
                    yield page
            except (ApiError, ApiUnreachable, AccessError) as error:
                attempts += 1
                if not after or attempts == PAGE_ATTEMPTS_MAX or not _passes(error):
                    raise
                await self._pause(str(error), getattr(error, "retry_after_s", None))
            else:
                return

    async def _find_version(self, version: str) -> None:
        """Ask whether the server has come as far as this version; raises _Outdated if it has not."""
        asked = {
            **self._selectors,  # perhaps nothing else of the collection may be read
            "resourceVersion": version,
            "resourceVersionMatch": "NotOlderThan",
            "limit": "1",
        }
        try:
            await self._server.get(self.path, asked)
        except ApiError as error:
            # One that only lags behind gets there while it waits for some seconds.
            if _TOO_LARGE.encode() in error.body:
                raise _Outdated(error.message) from error
            raise

    async def _watch(self) -> AsyncGenerator[Event, None]:
        """What happens until the watch ends; afterwards it can go on from `_version`."""
        query = {
            **self._selectors,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            # Many watches that began together do not end together.
            "timeoutSeconds": str(WATCH_S - random.randrange(10)),  # noqa: S311
        }
        began_s = time.monotonic()
        try:
            silence_s = WATCH_S + SILENCE_S
            async with aclosing(
                self._server.lines(self.path, query, silence_s, self._answered)
            ) as lines:
                async for line in lines:
                    self._succeeded()
                    event = self._read(line)
                    if event is not None:
                        yield event
        except ApiError as error:
            if error.status == 410:
                raise _Outdated(error.message) from error
            raise
        self._succeeded()
        if time.monotonic() - began_s < BRIEF_S:  # a server that ends, perhaps
            await asyncio.sleep(BRIEF_S)

    def _read(self, line: bytes) -> Event | None:
        """An event; None: it says only how far the watch has come.

        Raises _Outdated for what the server says instead of an event.
        """
        try:
            read = orjson.loads(line)
            kind, found = read["type"], read["object"]
            if kind != "ERROR":
                self._version = found["metadata"]["resourceVersion"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise _Outdated(f"its watch sent {line[:200]!r}, which is no event") from error
        if kind == "ERROR":
            raise _Outdated(str(found.get("message") or found))
        if kind == "BOOKMARK":
            return None
        return Deleted(found) if kind == "DELETED" else Changed(found)

    def _answered(self) -> None:
        """A watch was accepted; the pauses stay until it has said something."""
        self.failing_since_s, self.why = None, ""

    def _succeeded(self) -> None:
        self._answered()
        self._pause_s = PAUSE_FIRST_S

    async def _before_list(self) -> None:
        if time.monotonic() - self._listed_at_s > LISTS_APART_S:
            self._list_pause_s = PAUSE_FIRST_S
        await asyncio.sleep(self._list_pause_s * random.uniform(0.5, 1.0))  # noqa: S311
        self._list_pause_s = min(PAUSE_MAX_S, 2 * self._list_pause_s)

    async def _pause(self, why: str, at_least_s: float | None) -> None:
        if self.failing_since_s is None:
            self.failing_since_s = time.monotonic()
            logger.warning("%s: %s; it is tried again", self.path, why)
        self.why = why
        pause_s = self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311
        await asyncio.sleep(max(pause_s, min(at_least_s or 0.0, PAUSE_MAX_S)))
        self._pause_s = min(PAUSE_MAX_S, 2 * self._pause_s)
