"""Events (core/v1): what `kubectl describe` shows of what was done to an object, and why.

One Event object for each object and reason: the first time it is created, later ones count it up
and replace its message. Its name follows from both, so a restarted process counts on. Events are
written in the background, paced, and dropped beyond a limit: no binding waits for one.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

from connectors.kubernetes.sinks.background import Background
from connectors.kubernetes.sinks.throttle import Throttle
from connectors.process import wall_clock

#: Events written a second: what kube-scheduler's client is allowed by default.
PER_S = 50.0
#: Events that wait at most, 20 seconds of them.
WAITING_MAX = 1_000
#: Minor ones, one for each binding, leave half of the room to others.
MINOR_MAX = 500
#: Event objects whose count is remembered; of others it is asked for.
COUNTS_MAX = 10_000
#: Longest message, which is what events.k8s.io allows.
MESSAGE_MAX = 1_024
#: Time that a write may take, in seconds.
WRITE_S = 15.0
#: Of an object's name, what an Event's name, at most 253 characters, has room for.
_NAME_MAX = 230


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class _Note:
    """What is to be written of an object and a reason."""

    regarding: Regarding
    type: str
    reason: str
    message: str
    first_ms: int
    last_ms: int
    count: int = 1


class Events:
    """Events about the objects of one cluster."""

    def __init__(self, server: Throttle) -> None:
        self.background = Background(PER_S, WAITING_MAX)
        self._server = server
        self._notes: dict[str, _Note] = {}
        """What waits, by Event name."""
        self._counts: dict[str, int] = {}

    def record(
        self,
        regarding: Regarding,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # its name in Kubernetes
        minor: bool = False,
    ) -> None:
        """Write an event later, if there is room."""
        name, now_ms = _name(regarding, reason), wall_clock.now_ms()
        note = self._notes.get(name)
        if note is not None:
            note.message, note.last_ms, note.count = message, now_ms, note.count + 1
            return
        room = MINOR_MAX if minor else WAITING_MAX
        if self.background.put(name, partial(self._write, name), room=room):
            self._notes[name] = _Note(regarding, type, reason, message, now_ms, now_ms)

    async def close(self) -> None:
        """Drop what waits."""
        self._notes.clear()
        await self.background.close()

    async def _write(self, name: str) -> None:
        note = self._notes.pop(name)
        collection = f"/api/v1/namespaces/{note.regarding.namespace}/events"
        counted = self._counts.pop(name, None)
        if counted is None:
            counted = await self._create(collection, name, note)
        if counted:
            count = counted + note.count
            patch = {"count": count, "lastTimestamp": rfc3339(note.last_ms), "message": _text(note)}
            response = await self._server.send(
                "PATCH", f"{collection}/{name}", body=patch,
                content_type="application/merge-patch+json", timeout_s=WRITE_S,
            )  # fmt: skip
            if response.status == 404:  # events are kept for an hour
                await self._create(collection, name, note)
                count = note.count
            elif not response.ok:
                raise response.error()
        else:
            count = note.count
        self._counts[name] = count
        if len(self._counts) > COUNTS_MAX:
            del self._counts[next(iter(self._counts))]

    async def _create(self, collection: str, name: str, note: _Note) -> int:
        """0: it was created; else how often it had been counted before."""
        response = await self._server.send(
            "POST", collection, body=_event(name, note), timeout_s=WRITE_S
        )
        if response.status == 409:
            found = await self._server.send("GET", f"{collection}/{name}", timeout_s=WRITE_S)
            if not found.ok:
                raise found.error()
            return int(found.json().get("count") or 1)
        if not response.ok:
            raise response.error()
        return 0


def _name(regarding: Regarding, reason: str) -> str:
    digest = blake2b(f"{regarding.uid} {reason}".encode(), digest_size=8).hexdigest()
    return f"{regarding.name[:_NAME_MAX].rstrip('-.')}.{digest}"


def _event(name: str, note: _Note) -> dict[str, Any]:
    about = note.regarding
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "type": note.type,
        "reason": note.reason,
        "message": _text(note),
        "source": {"component": "loadstream"},
        "reportingComponent": "loadstream",
        "count": note.count,
        "firstTimestamp": rfc3339(note.first_ms),
        "lastTimestamp": rfc3339(note.last_ms),
    }


def _text(note: _Note) -> str:
    return note.message[:MESSAGE_MAX]


def rfc3339(ms: int) -> str:
    """As metav1.Time: RFC 3339 in whole seconds."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
