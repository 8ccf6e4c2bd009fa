"""Report the changes of one collection.

Events of a `ListWatch` come in, topics and messages go out. A key and a digest are kept per object. So
unchanged objects are not reported again, and of a new list only differences are reported, including
removals.

An object that does not fit into a record is left out, and its reason is logged; if the object was reported
before, its removal is reported. Messages are validated in the same way as by their readers.
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

Reported = Iterator[tuple[str, Message]]
"""Topics and messages."""


class Unreadable(Exception):
    """An object does not fit into a record; the message says why."""


class Reporter(ABC):
    def __init__(self) -> None:
        self.reported: dict[str, Any] = {}
        """The kept part of each reported object, by key."""
        self.left_out: set[str] = set()
        """Keys of omitted objects."""
        self._seen: set[str] | None = None
        """Keys in the current list; None: there is no list."""

    def clear(self) -> None:
        self.reported.clear()
        self.left_out.clear()
        self._seen = None

    def report(self, event: Event, list_id: str | None) -> Reported:
        """Yield the messages for an event.

        Args:
            event: an event of the collection's `ListWatch`.
            list_id: id of the current full list; None: there is none.
        """
        match event:
            case Begun():
                self._seen = set()
            case Present(obj) | Changed(obj):
                yield from self._report_present(obj, list_id)
            case Deleted(obj):
                yield from self._report_deleted(obj, list_id)
            case Ended():
                seen, self._seen = self._seen or set(), None
                for key in [key for key in self.reported if key not in seen]:
                    yield from self.report_removal(key, list_id)
                self.left_out &= seen
            case Absent():
                self._seen = None

    def _report_present(self, obj: Json, list_id: str | None) -> Reported:
        key = self.key(obj)
        if self._seen is not None:
            self._seen.add(key)
        try:
            yield from self.report_object(key, obj, list_id)
        except (Unreadable, KeyError, TypeError, AttributeError, ValueError) as error:
            why = str(error) if isinstance(error, Unreadable) else _unexpected(error)
            if key not in self.left_out:
                logger.warning("%s is omitted: %s", self.describe(key, obj), why)
                self.left_out.add(key)
            if key in self.reported:
                yield from self.report_removal(key, list_id)
        else:
            self.left_out.discard(key)

    def _report_deleted(self, obj: Json, list_id: str | None) -> Reported:
        key = self.key(obj)
        self.left_out.discard(key)
        if key in self.reported:
            yield from self.report_removal(key, list_id, obj)

    @abstractmethod
    def key(self, obj: Json) -> str:
        """Return the key of an object."""

    def describe(self, key: str, obj: Json) -> str:
        """Return the name of an object in the log; by default its key."""
        return key

    @abstractmethod
    def report_object(self, key: str, obj: Json, list_id: str | None) -> Reported:
        """Yield records for an existing object, or nothing if it is unchanged.

        Raises Unreadable, or exceptions caused by unexpected JSON, before it yields anything.
        """

    @abstractmethod
    def report_removal(self, key: str, list_id: str | None, obj: Json | None = None) -> Reported:
        """Yield records for a deleted object, and forget it; `obj` is its last JSON, if known."""


def require_message(message: Any) -> Any:
    """Return the message; raises Unreadable for a refusal."""
    if isinstance(message, Refusal):
        raise Unreadable(message.reason)
    return message


def _unexpected(error: Exception) -> str:
    return f"unexpected JSON: {type(error).__name__}: {error}"
