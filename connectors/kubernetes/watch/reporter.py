"""What is known of one collection: which of its objects were reported, and as what.

Events of a `ListWatch` come in, topics and messages go out. Of each object a key and a digest are
kept, so that one that says the same again is not reported again, and so that a list within the
process is compared with what is known: only differences are reported, removals included.

An object that no record can carry is left out with the reason; if it was reported before, it is
removed.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from connectors.kubernetes.api.list_watch import (
    Absent,
    Begun,
    Changed,
    Deleted,
    Ended,
    Event,
    Present,
)
from connectors.kubernetes.watch.metadata import Json
from schemas.base.message import Message
from schemas.base.refusals import Refusal

logger = logging.getLogger(__name__)

#: Objects that are left out, of which the reason is kept; of others only that there are some.
LEFT_OUT_NAMED_MAX = 100

Reported = Iterator[tuple[str, Message]]
"""Topics and messages."""


class Unreadable(Exception):
    """An object cannot be carried; the message says why."""


class Reporter(ABC):
    """Reports the objects of one collection."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.known: dict[str, Any] = {}
        """What is kept of each object that was reported, by key."""
        self.left_out: dict[str, str] = {}
        """Objects that are not reported, by key, and why; see `LEFT_OUT_NAMED_MAX`."""
        self._seen: set[str] | None = None
        """Keys of the list that is under way; none: there is no list."""

    def clear(self) -> None:
        """Nothing was reported."""
        self.known.clear()
        self.left_out.clear()
        self._seen = None

    def report(self, event: Event, list_id: str | None) -> Reported:
        """What an event means for the topics.

        Args:
            event: of the collection's `ListWatch`.
            list_id: of the full list that is being sent; none: there is none.
        """
        match event:
            case Begun():
                self._seen = set()
            case Present(found) | Changed(found):
                yield from self._there(found, list_id)
            case Deleted(found):
                yield from self._not_there(found, list_id)
            case Ended():
                seen, self._seen = self._seen or set(), None
                for key in [key for key in self.known if key not in seen]:
                    yield from self.removed(key, list_id)
                for key in [key for key in self.left_out if key not in seen]:
                    del self.left_out[key]
            case Absent():
                self._seen = None

    def _there(self, found: Json, list_id: str | None) -> Reported:
        key = self._key(found)
        if key is None:
            return
        if self._seen is not None:
            self._seen.add(key)
        try:
            yield from self.changed(key, found, list_id)
        except (Unreadable, KeyError, TypeError, AttributeError, ValueError) as error:
            why = str(error) if isinstance(error, Unreadable) else _unexpected(error)
            self._leave_out(key, self.called(key, found), why)
            if key in self.known:
                yield from self.removed(key, list_id)
        else:
            self.left_out.pop(key, None)

    def _not_there(self, found: Json, list_id: str | None) -> Reported:
        key = self._key(found)
        if key is None:
            return
        self.left_out.pop(key, None)
        if key in self.known:
            yield from self.removed(key, list_id, found)

    def _key(self, found: Json) -> str | None:
        try:
            return self.key(found)
        except (KeyError, TypeError, AttributeError) as error:
            logger.warning("an object without a name is left out: %s", _unexpected(error))
            return None

    def _leave_out(self, key: str, called: str, why: str) -> None:
        if key not in self.left_out:
            logger.warning("%s is left out: %s", called, why)
        named = key in self.left_out or len(self.left_out) < LEFT_OUT_NAMED_MAX
        self.left_out[key] = why if named else ""

    @abstractmethod
    def key(self, found: Json) -> str:
        """The key of an object; raises KeyError, TypeError or AttributeError."""

    def called(self, key: str, found: Json) -> str:
        """What an object is called in the log: its key, unless that does not have its name."""
        return key

    @abstractmethod
    def changed(self, key: str, found: Json, list_id: str | None) -> Reported:
        """An object is there; nothing if it says what it said.

        Raises Unreadable, or what the object's JSON leads to, before anything is yielded.
        """

    @abstractmethod
    def removed(self, key: str, list_id: str | None, found: Json | None = None) -> Reported:
        """An object that was reported is there no more; forget it.

        `found` is the object as it was last; none: it is not known.
        """


def carried(made: Any) -> Any:
    """A message; raises Unreadable with the sentence of a refusal."""
    if isinstance(made, Refusal):
        raise Unreadable(made.reason)
    return made


def _unexpected(error: Exception) -> str:
    return f"it is not what Kubernetes writes: {type(error).__name__}: {error}"
