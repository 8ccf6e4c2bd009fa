"""Nodes, workloads and all else that is reported as one record for each object."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.watch.metadata import Json
from connectors.kubernetes.watch.records import values_of
from connectors.kubernetes.watch.reporter import Reported, Reporter, carried
from schemas.base.message import Message
from schemas.messages.nodes import NodeState
from schemas.topics.catalog import TOPIC_OF

Heard = Callable[[Json, Json | None], None]
"""Is called with the identity and the values of an object that has changed; none: it is gone."""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """How the objects of a collection become records."""

    message: type[Message]
    identity: Callable[[Json], Json]
    """Fields that say which object it is, texts all, without "/"."""
    values: Callable[[Json], Json | None]
    """All other fields; none: there is nothing to report of the object."""


class Objects(Reporter):
    """Reports the objects of one kind; keeps a digest of each by its identity."""

    known: dict[str, int]

    def __init__(self, cluster: str, kind: ObjectKind, heard: Heard | None = None) -> None:
        super().__init__(cluster)
        self._kind = kind
        self._heard = heard
        self._topic = TOPIC_OF[kind.message]
        self._fields: tuple[str, ...] = ()
        """Names of the fields of an identity, in their order."""

    def key(self, found: Json) -> str:
        """The values of the identity's fields."""
        identity = self._kind.identity(found)
        self._fields = tuple(identity)
        return "/".join(identity.values())

    def changed(self, key: str, found: Json, list_id: str | None) -> Reported:
        """A record, if the object's values are others than before."""
        values = self._kind.values(found)
        if values is None:
            if key in self.known:
                yield from self.removed(key, list_id)
            return
        digest = values_of(self._kind.message, values).digest
        before = self.known.get(key)
        if digest == before:
            return
        message = self._message(key, {**values, **self._event(before)}, list_id)
        self.known[key] = digest
        if self._heard is not None:
            self._heard(self._identity(key), values)
        yield self._topic, message

    def removed(self, key: str, list_id: str | None, found: Json | None = None) -> Reported:
        """The record that removes the object."""
        del self.known[key]
        if self._heard is not None:
            self._heard(self._identity(key), None)
        gone = {"event": "removed"} if self._kind.message is NodeState else {"removed": True}
        yield self._topic, self._message(key, gone, list_id)

    def _event(self, before: int | None) -> Json:
        if self._kind.message is not NodeState:
            return {}
        return {"event": "added" if before is None else "changed"}

    def _identity(self, key: str) -> Json:
        return dict(zip(self._fields, key.split("/"), strict=True))

    def _message(self, key: str, values: Json, list_id: str | None) -> Message:
        fields: dict[str, Any] = {"cluster": self.cluster, **self._identity(key), **values}
        if list_id is not None:
            fields["list_id"] = list_id
            if "event" in fields and fields["event"] == "changed":
                fields["event"] = "added"
        message: Message = carried(values_of(self._kind.message, fields).read())
        return message
