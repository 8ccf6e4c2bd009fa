"""What a node holds, pod by pod, as JSON: the items of rows of table `reserved_pods`.

A decision adds one pod to a node, and the pod's item is written with each decision. It is the same
as `encode` makes of a `HeldPod`, but is put together from the pod's own fields: containers and
other large parts, which all pods of a kind have in common, are encoded once per kind. Of the state
by which the pod counts for estimation only labels and annotations are kept, where they differ.
"""

from typing import Any

import orjson
from pydantic import BaseModel

from schemas.codec import encode
from schemas.pods import Pod
from schemas.rows import HeldPod
from streams.inventory.assigned import AssignedPod
from streams.inventory.node import Held
from streams.stage.sized_cache import SizedCache

#: Fields of a pod that hold messages of their own and are the same for all pods of a kind.
_LARGE = ("containers", "init_containers", "required_node_affinity", "tolerations")
#: Encoded parts that are kept, and bytes of them; the one that came first is dropped first.
KEPT_MAX, KEPT_BYTES_MAX = 8_192, 32 * 1024 * 1024
#: A part and its text take this many times the bytes of the text.
_BYTES_PER_CHARACTER = 10
#: Those of all clusters: hundreds of them keep no more than one.
_KEPT: SizedCache[int, tuple[Any, orjson.Fragment]] = SizedCache(KEPT_BYTES_MAX, KEPT_MAX)


class PodRows:
    """Encodes held pods; what is kept in between changes nothing in what comes out."""

    def __init__(self, kept_max: int | None = None) -> None:
        """`kept_max`: parts that it keeps for itself; none: all clusters share what is kept."""
        self._kept = _KEPT if kept_max is None else SizedCache(KEPT_BYTES_MAX, kept_max)
        """By identity of the part, which is kept too, so that no other takes its place."""

    def encode(self, held: Held, counted: AssignedPod | None) -> bytes:
        """A held pod, as `encode` of a `HeldPod` gives it.

        Args:
            held: the pod and why it is held.
            counted: the pod as it counts for estimation; None: it does not.
        """
        values: dict[str, Any] = {
            "pod": self._pod(held.pod),
            "assigned_at_ms": held.assigned_at_ms,
            "attempt": held.attempt,
            "place": held.place,
            "sequence": held.sequence,
        }
        if counted is not None:
            values["counted_at_ms"] = counted.cached_at_ms
            if counted.pod.labels != held.pod.labels:
                values["counted_labels"] = counted.pod.labels
            if counted.pod.annotations != held.pod.annotations:
                values["counted_annotations"] = counted.pod.annotations
        if held.decision_id is not None:
            values["decision_id"] = held.decision_id
        if held.expires_at_ms is not None:
            values["expires_at_ms"] = held.expires_at_ms
        if held.requested_at_ms is not None:
            values["requested_at_ms"] = held.requested_at_ms
        if held.list_id is not None:
            values["list_id"] = held.list_id
        # A copy: the bytes that orjson hands out keep up to ten times their length allocated.
        text = orjson.dumps(values, default=_other, option=orjson.OPT_SORT_KEYS)
        return bytes(memoryview(text))

    def _pod(self, pod: Pod) -> dict[str, Any]:
        values = {name: value for name, value in pod.__dict__.items() if value is not None}
        for name in _LARGE:
            if values.get(name):
                values[name] = self._part(values[name])
        if pod.owners:
            values["owners"] = orjson.Fragment(_text(pod.owners))
        return values

    def _part(self, part: tuple[BaseModel, ...]) -> orjson.Fragment:
        known = self._kept.get(id(part))
        if known is not None:
            return known[1]
        text = _text(part)
        fragment = orjson.Fragment(text)
        self._kept.put(id(part), (part, fragment), _BYTES_PER_CHARACTER * len(text))
        return fragment


def _text(part: tuple[BaseModel, ...]) -> bytes:
    return b"[" + b",".join(map(encode, part)) + b"]"


def counted_pod(item: HeldPod, pod: Pod) -> Pod:
    """The state by which a held pod counts for estimation.

    `pod` is its newest one, as it is kept.
    """
    counted = {"labels": item.counted_labels, "annotations": item.counted_annotations}
    update = {name: value for name, value in counted.items() if value is not None}
    return pod.model_copy(update=update) if update else pod


def _other(part: Any) -> orjson.Fragment:
    """Smaller parts that few pods have, such as volume claims."""
    if isinstance(part, BaseModel):
        return orjson.Fragment(encode(part))
    raise TypeError(f"{type(part).__name__} is no part of a pod")
