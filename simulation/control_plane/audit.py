"""Bindings, evictions and deletions of pods by user, from the API server's audit log.

    read_audit_log   returns all pods in the log, with their bindings, evictions and deletions
    find_duplicates  returns sentences about pods that were bound or evicted more than once

The log is independent of loadstream. Only successful requests count; refused requests are counted by
status. If a client disconnects before the answer, the log has a timeout, and the request counts as
unclear. Dry runs are left out.

A request without a uid, such as a binding, is about the newest pod with the name at the arrival of the
request. The log may be read while the server writes: an incomplete last line is ignored.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

_KINDS = {
    ("create", "binding"): "bindings",
    ("create", "eviction"): "evictions",
    ("delete", None): "deletions",
}
_TIMEOUT = 504


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    user: str
    at: str
    """Time of arrival, as RFC 3339 with microseconds."""
    node: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations that a binding adds to its pod."""


@dataclass(slots=True)
class PodRecord:
    """Requests about one pod, in the order of their arrival."""

    namespace: str
    name: str
    uid: str
    """Empty if the pod is older than the log and no request names the uid."""
    created: AuditedRequest | None = None
    bindings: list[AuditedRequest] = field(default_factory=list)
    evictions: list[AuditedRequest] = field(default_factory=list)
    deletions: list[AuditedRequest] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.uid or 'uid unknown'})"


@dataclass(frozen=True, slots=True)
class AuditLog:
    pods: tuple[PodRecord, ...]
    """In the order of the log."""
    refused: Mapping[tuple[str, str, int], int]
    """Refused requests by user, `bindings` or `evictions` or `deletions`, and status."""
    unclear: Mapping[str, int]
    """Number of `bindings`, `evictions` or `deletions` with unknown outcome."""
    unreadable: int
    """Number of damaged lines: the API server was killed while it wrote them."""

    def count_by_user(self, kind: str) -> dict[str, int]:
        """Return the number of `bindings`, `evictions` or `deletions` by user."""
        requests = (request for pod in self.pods for request in getattr(pod, kind))
        return dict(sorted(Counter(request.user for request in requests).items()))


def read_audit_log(path: Path) -> AuditLog:
    """Read a log. A missing file is an empty log."""
    events, unreadable = _read_events(path.read_bytes() if path.exists() else b"")
    events.sort(key=lambda event: str(event["requestReceivedTimestamp"]))
    index = _PodIndex(events)
    refused: Counter[tuple[str, str, int]] = Counter()
    unclear: Counter[str] = Counter()
    for event in events:
        kind = _KINDS.get((event["verb"], event["objectRef"].get("subresource")))
        status = event["responseStatus"]["code"]
        if kind is None:
            continue
        if status == _TIMEOUT:
            unclear[kind] += 1
        elif status >= 300:
            refused[_read_user(event), kind, status] += 1
        else:
            getattr(index.find_pod(event), kind).append(_read_request(event))
    return AuditLog(tuple(index.pods.values()), dict(refused), dict(unclear), unreadable)


def find_duplicates(pods: Iterable[PodRecord]) -> list[str]:
    """Return a sentence for each pod that was bound or evicted more than once."""
    sentences = []
    for pod in pods:
        for kind, requests in (("bound", pod.bindings), ("evicted", pod.evictions)):
            if len(requests) > 1:
                details = ", ".join(f"by {request.user} at {request.at}" for request in requests)
                sentences.append(f"{pod} was {kind} {len(requests)} times: {details}")
    return sentences


class _PodIndex:
    def __init__(self, events: Iterable[dict[str, Any]]) -> None:
        """`events` are in the order of their arrival."""
        self.pods: dict[tuple[str, str, str], PodRecord] = {}
        self._created: dict[tuple[str, str], list[PodRecord]] = defaultdict(list)
        for event in events:
            if event["verb"] != "create" or event["objectRef"].get("subresource"):
                continue
            if event["responseStatus"]["code"] < 300:
                metadata = event["responseObject"]["metadata"]
                pod = self._find_or_add(metadata["namespace"], metadata["name"], metadata["uid"])
                pod.created = _read_request(event)
                self._created[pod.namespace, pod.name].append(pod)

    def find_pod(self, event: dict[str, Any]) -> PodRecord:
        """Find the pod by the uid in the request, or by its name and time."""
        reference = event["objectRef"]
        namespace, name = reference["namespace"], reference["name"]
        if uid := reference.get("uid") or _read_required_uid(event):
            return self._find_or_add(namespace, name, uid)
        pods, ended_at = self._created[namespace, name], event["stageTimestamp"]
        # A request about a pod ends after the arrival of the request that created the pod.
        earlier = [pod for pod in pods if pod.created and pod.created.at <= ended_at]
        return earlier[-1] if earlier else self._find_or_add(namespace, name, "")

    def _find_or_add(self, namespace: str, name: str, uid: str) -> PodRecord:
        key = (namespace, name, uid)
        return self.pods.setdefault(key, PodRecord(namespace, name, uid))


def _read_required_uid(event: dict[str, Any]) -> str:
    """Return the uid in the preconditions of an eviction or a deletion, or an empty text."""
    options = _delete_options(event)
    return str((options.get("preconditions") or {}).get("uid") or "")


def _delete_options(event: dict[str, Any]) -> dict[str, Any]:
    request = event.get("requestObject") or {}
    return request.get("deleteOptions") or {} if request.get("kind") == "Eviction" else request


def _read_events(content: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the events about pods without dry runs, and the number of unreadable lines."""
    complete_lines, _, _ = content.rpartition(b"\n")
    events, unreadable = [], 0
    for line in complete_lines.split(b"\n"):
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            unreadable += bool(line)
            continue
        dry = "dryRun=" in event["requestURI"] or _delete_options(event).get("dryRun")
        if not dry and "responseStatus" in event:
            events.append(event)
    return events, unreadable


def _read_request(event: dict[str, Any]) -> AuditedRequest:
    user, at = _read_user(event), str(event["requestReceivedTimestamp"])
    if event["objectRef"].get("subresource") != "binding":
        return AuditedRequest(user, at)
    request = event["requestObject"]
    annotations = request["metadata"].get("annotations") or {}
    return AuditedRequest(user, at, str(request["target"]["name"]), annotations)


def _read_user(event: dict[str, Any]) -> str:
    return str(event["user"]["username"])
