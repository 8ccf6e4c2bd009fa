"""Writes Events (core/v1), which `kubectl describe` shows.

There is one Event per object and reason. It is created first, and later only its count and message are
updated. Its name is derived from object and reason, so a restarted process continues the count. Events
are optional writes (`background`).
"""

from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.api.times import format_time
from connectors.kubernetes.sinks.background import Background
from connectors.process import wall_clock
from schemas.messages.pods import PodRef

#: Events written per second: the default limit of kube-scheduler's client.
PER_S = 50.0
#: Most waiting events: 20 seconds.
WAITING_MAX = 1_000
#: Most waiting events before minor events, one per binding, are dropped.
MINOR_MAX = 500
#: Most Event objects whose count is remembered; other counts are read.
COUNTS_MAX = 10_000
#: Longest message, by events.k8s.io.
MESSAGE_MAX = 1_024
#: Timeout of a write, in seconds.
WRITE_S = 15.0
#: Longest part of the object's name in the name of an Event, which has at most 253 characters.
_NAME_MAX = 230


#: Reference to the object of an event: apiVersion, kind, namespace, name, uid.
Reference = dict[str, str]


def refer_to_pod(pod: PodRef) -> Reference:
    return {"apiVersion": "v1", "kind": "Pod", **pod.ref_fields}


@dataclass(slots=True)
class _Note:
    regarding: Reference
    type: str
    reason: str
    message: str
    first_ms: int
    last_ms: int
    count: int = 1


class Events:
    """Events about the objects of one cluster."""

    def __init__(self, server: ApiServer) -> None:
        self.background = Background(PER_S, WAITING_MAX)
        self._server = server
        self._notes: dict[str, _Note] = {}
        """Waiting events, by the name of the Event."""
        self._counts: dict[str, int] = {}

    def record(
        self,
        regarding: Reference,
        reason: str,
        message: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",
        minor: bool = False,
    ) -> None:
        """Queue an event."""
        name, now_ms = _name(regarding, reason), wall_clock.now_ms()
        note = self._notes.get(name)
        if note is not None:
            note.message, note.last_ms, note.count = message, now_ms, note.count + 1
            return
        room = MINOR_MAX if minor else WAITING_MAX
        if self.background.put(name, partial(self._write, name), room=room):
            self._notes[name] = _Note(regarding, type, reason, message, now_ms, now_ms)

    async def close(self) -> None:
        """Drop waiting events."""
        self._notes.clear()
        await self.background.close()

    async def _write(self, name: str) -> None:
        note = self._notes.pop(name)
        collection = f"/api/v1/namespaces/{note.regarding['namespace']}/events"
        counted = self._counts.pop(name, None)
        if counted is None:
            counted = await self._create(collection, name, note)
        if counted:
            count = counted + note.count
            patch = {
                "count": count,
                "lastTimestamp": format_time(note.last_ms),
                "message": note.message[:MESSAGE_MAX],
            }
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
        """Create the Event; returns 0, or its count if it exists."""
        response = await self._server.send(
            "POST", collection, body=_event(name, note), timeout_s=WRITE_S
        )
        if response.status == 409:
            existing = await self._server.send("GET", f"{collection}/{name}", timeout_s=WRITE_S)
            if not existing.ok:
                raise existing.error()
            return int(existing.json().get("count") or 1)
        if not response.ok:
            raise response.error()
        return 0


def _name(regarding: Reference, reason: str) -> str:
    digest = blake2b(f"{regarding['uid']} {reason}".encode(), digest_size=8).hexdigest()
    return f"{regarding['name'][:_NAME_MAX].rstrip('-.')}.{digest}"


def _event(name: str, note: _Note) -> dict[str, Any]:
    about = note.regarding
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about["namespace"]},
        "involvedObject": about,
        "type": note.type,
        "reason": note.reason,
        "message": note.message[:MESSAGE_MAX],
        "source": {"component": "loadstream"},
        "reportingComponent": "loadstream",
        "count": note.count,
        "firstTimestamp": format_time(note.first_ms),
        "lastTimestamp": format_time(note.last_ms),
    }
