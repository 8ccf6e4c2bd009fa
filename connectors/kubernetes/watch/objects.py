"""Report nodes, workloads and other objects, one record per object."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from connectors.kubernetes.watch.metadata import Json
from connectors.kubernetes.watch.reporter import Reported, Reporter, require_message
from schemas.base.message import Message
from schemas.messages.nodes import NodeState
from schemas.topics.catalog import TOPIC_OF
from schemas.topics.codec import decode_as


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """How the objects of a collection become records."""

    message: type[Message]
    identity: Callable[[Json], Json]
    """Returns the fields that identify an object; all are texts without "/"."""
    values: Callable[[Json], Json | None]
    """Returns all other fields; None: the object is not reported."""


class Objects(Reporter):
    """Reports the objects of one kind; keeps a digest of each."""

    reported: dict[str, int]

    def __init__(self, cluster: str, kind: ObjectKind) -> None:
        super().__init__()
        self.cluster = cluster
        self._kind = kind
        self._topic = TOPIC_OF[kind.message]
        self._fields: tuple[str, ...] = ()
        """Names of the identity's fields, in order."""

    def key(self, obj: Json) -> str:
        identity = self._kind.identity(obj)
        self._fields = tuple(identity)
        return "/".join(identity.values())

    def report_object(self, key: str, obj: Json, list_id: str | None) -> Reported:
        """Yield a record if the object's values have changed."""
        values = self._kind.values(obj)
        if values is None:
            if key in self.reported:
                yield from self.report_removal(key, list_id)
            return
        digest = hash(orjson.dumps(values))
        previous = self.reported.get(key)
        if digest == previous:
            return
        message = self._message(key, {**values, **self._event(previous)}, list_id)
        self.reported[key] = digest
        yield self._topic, message

    def report_removal(self, key: str, list_id: str | None, obj: Json | None = None) -> Reported:
        del self.reported[key]
        change = {"event": "removed"} if self._kind.message is NodeState else {"removed": True}
        yield self._topic, self._message(key, change, list_id)

    def _event(self, previous: int | None) -> Json:
        if self._kind.message is not NodeState:
            return {}
        return {"event": "added" if previous is None else "changed"}

    def _identity(self, key: str) -> Json:
        return dict(zip(self._fields, key.split("/"), strict=True))

    def _message(self, key: str, values: Json, list_id: str | None) -> Message:
        fields: dict[str, Any] = {"cluster": self.cluster, **self._identity(key), **values}
        if list_id is not None:
            fields["list_id"] = list_id
            if "event" in fields and fields["event"] == "changed":
                fields["event"] = "added"
        message: Message = require_message(decode_as(self._kind.message, orjson.dumps(fields)))
        return message
