"""Reports pods: where they run, and which of them want a node.

    waits     it is of one of our schedulers, has no node, no gates and no deletion time: a request
    has room  another scheduler has nominated a node for it (preemption): a record of its lifecycle
    is bound  it has a node and has not finished: a record of its lifecycle
    neither   another scheduler's pod without any node, a gated, a terminating, a finished pod: nothing

A pod goes from one to the other, and each step has its records. What a pod says while it waits is
asked for again when it changes. All pods are watched, without a selector: a watch of the unbound
ones alone would report a binding as a deletion.

A request ends by a record on its own topic (`withdrawn`) where no decision of ours has ended it, as
topics have no order among each other; that we have bound it is known by the annotation of the
binding.
"""

from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

from connectors.kubernetes.sinks.binding import DECISION_ANNOTATION
from connectors.kubernetes.watch.claims import Claims
from connectors.kubernetes.watch.metadata import Json, metadata
from connectors.kubernetes.watch.pods import bare, claim_names, pod
from connectors.kubernetes.watch.records import values_of
from connectors.kubernetes.watch.reporter import Reported, Reporter, carried
from schemas.base.refusals import Refusal
from schemas.messages.pods import Pod, PodLifecycle
from schemas.messages.requests import SchedulingRequest

_FINISHED = ("Succeeded", "Failed")
#: How far a pod has come.
_WAITS, _NOMINATED, _BOUND, _INITIALISED, _RUNNING = range(5)
_Event = Literal["bound", "initialised", "running", "changed"]
_ARRIVED_AT: dict[int, _Event] = {_BOUND: "bound", _INITIALISED: "initialised", _RUNNING: "running"}


class KnownPod(NamedTuple):
    """What is kept of a pod that was reported: about 300 bytes."""

    name: str
    """Namespace and name."""
    node: str | None
    stage: int
    digest: int


class PodReporter(Reporter):
    """Reports the pods of a cluster."""

    known: dict[str, KnownPod]

    def __init__(
        self,
        cluster: str,
        schedulers: Collection[str],
        claims: Claims,
        now_ms: Callable[[], int],
    ) -> None:
        """`schedulers` are ours; `claims` is what volume claims are bound to."""
        super().__init__(cluster)
        self._schedulers = frozenset(schedulers)
        self._claims = claims
        self._now_ms = now_ms
        self._nodes: dict[str, str] = {}
        """Each node's name once, for all its pods."""
        self._waiting: dict[str, Json] = {}
        """Pods that wait and mount claims, as the API server wrote them, by uid."""

    def clear(self) -> None:
        """Nothing was reported."""
        super().clear()
        self._waiting.clear()
        self._nodes.clear()

    def key(self, found: Json) -> str:
        """The uid: a pod of the same name may be another one."""
        uid: str = found["metadata"]["uid"]
        return uid

    def called(self, key: str, found: Json) -> str:
        """Namespace and name, by which users find a pod, and the uid."""
        meta = metadata(found)
        return f"pod {meta.get('namespace')}/{meta.get('name')} of uid {key}"

    def claims_changed(self, list_id: str | None) -> Reported:
        """Look again at the pods that wait and mount claims."""
        for uid, found in list(self._waiting.items()):
            yield from self.changed(uid, found, list_id)

    def changed(self, key: str, found: Json, list_id: str | None) -> Reported:
        """The records of a pod, if it is another than it was when it was reported last."""
        spec, status = found.get("spec") or {}, found.get("status") or {}
        finished = status.get("phase") in _FINISHED
        waits = not finished and self._waits(found, spec)
        before = self.known.get(key)
        if not waits:
            self._waiting.pop(key, None)
        nominated = not waits and self._is_nominated(found, spec, status)
        if not waits and not nominated and (finished or not spec.get("nodeName")):
            if before is not None:
                yield from self._over(key, before, found, list_id, finished=finished)
            return
        values = pod(found, self._claims)
        digest = values_of(Pod, values).digest
        if before is not None and before.digest == digest:
            return
        made = self._read(values)
        node = None if made.node is None else self._nodes.setdefault(made.node, made.node)
        stage = _WAITS if waits else _NOMINATED if nominated else _stage(made)
        name = f"{made.namespace}/{made.name}"
        self.known[key] = KnownPod(name, node, stage, digest)
        if waits and claim_names(found):
            metadata(found).pop("managedFields", None)
            self._waiting[key] = found
        if waits:
            yield from self._wanting(made, list_id)
        else:
            yield from self._bound(made, before, stage, found, list_id)

    def removed(self, key: str, list_id: str | None, found: Json | None = None) -> Reported:
        """A pod that was reported is there no more."""
        before = self.known.pop(key)
        self._waiting.pop(key, None)
        gone = self._last(key, before, found)
        yield self._lifecycle("deleted", gone, list_id)
        if before.stage == _WAITS:
            yield self._request(gone, withdrawn=True)

    # --- steps ----------------------------------------------------------------------------------

    def _waits(self, found: Json, spec: Json) -> bool:
        return (
            not spec.get("nodeName")
            and spec.get("schedulerName") in self._schedulers
            and not spec.get("schedulingGates")
            and not metadata(found).get("deletionTimestamp")
        )

    def _is_nominated(self, found: Json, spec: Json, status: Json) -> bool:
        """Whether another scheduler holds room for a pod that is not bound yet."""
        return bool(
            status.get("nominatedNodeName")
            and not spec.get("nodeName")
            and spec.get("schedulerName") not in self._schedulers
            and status.get("phase") not in _FINISHED
            and not metadata(found).get("deletionTimestamp")
        )

    def _wanting(self, made: Pod, list_id: str | None) -> Reported:
        if list_id is not None:
            yield self._lifecycle("seen", made, list_id)
        yield self._request(made)

    def _bound(
        self, made: Pod, before: KnownPod | None, stage: int, found: Json, list_id: str | None
    ) -> Reported:
        if list_id is not None:
            yield self._lifecycle("seen", made, list_id)
        elif stage == _NOMINATED:
            yield self._lifecycle("changed", made, None)
        elif before is None or before.stage <= _NOMINATED:
            yield self._lifecycle("bound", made, None)
        else:
            event = _ARRIVED_AT[stage] if stage > before.stage else "changed"
            yield self._lifecycle(event, made, None)
        by_us = DECISION_ANNOTATION in (metadata(found).get("annotations") or {})
        if before is not None and before.stage == _WAITS and not by_us:
            yield self._request(made, withdrawn=True)

    def _over(
        self, key: str, before: KnownPod, found: Json, list_id: str | None, *, finished: bool
    ) -> Reported:
        """A pod that was reported has finished, or does not want a node any more."""
        made = self._last(key, before, found)
        del self.known[key]
        if finished:
            yield self._lifecycle("finished", made, list_id)
        elif before.stage == _NOMINATED:
            yield self._lifecycle("changed", made, None)
        if before.stage == _WAITS:
            yield self._request(made, withdrawn=True)

    def _last(self, key: str, before: KnownPod, found: Json | None) -> Pod:
        """A pod as it was last; where that is not known, or no record can carry it, its name."""
        read = None if found is None else values_of(Pod, pod(found, self._claims)).read()
        if isinstance(read, Pod):
            return read
        namespace, _, name = before.name.partition("/")
        return Pod(namespace=namespace, name=name, uid=key, node=before.node)

    # --- messages -------------------------------------------------------------------------------

    def _read(self, values: Json) -> Pod:
        """The pod, or of a long one what is kept of it: its room is counted, and it is not placed.

        Raises Unreadable.
        """
        read = values_of(Pod, values).read()
        if isinstance(read, Refusal):
            read = values_of(Pod, bare(values)).read()
        made: Pod = carried(read)
        return made

    def _lifecycle(self, event: str, made: Pod, list_id: str | None) -> tuple[str, PodLifecycle]:
        fields: dict[str, Any] = {"cluster": self.cluster, "event": event, "pod": made}
        return "pod-lifecycle", PodLifecycle(**fields, list_id=list_id)

    def _request(self, made: Pod, *, withdrawn: bool = False) -> tuple[str, SchedulingRequest]:
        return "scheduling-requests", SchedulingRequest(
            cluster=self.cluster, pod=made, requested_at_ms=self._now_ms(), withdrawn=withdrawn
        )


def _stage(made: Pod) -> int:
    if made.phase == "Running":
        return _RUNNING
    return _BOUND if made.initialized_at_ms is None else _INITIALISED
