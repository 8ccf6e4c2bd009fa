"""Report pods that run on a node, and request nodes for waiting pods.

    waiting     one of our schedulers, no node, no gates, not terminating: a scheduling request
    nominated   another scheduler has nominated a node (preemption): a lifecycle record
    bound       has a node and has not finished: a lifecycle record
    other       unbound pods of other schedulers, gated, terminating and finished pods: nothing

Each transition causes records; a waiting pod that changes is requested again. Pods are watched without a
selector, because a watch of only unbound pods would report a binding as a deletion.

If no decision of loadstream has ended a request, a record on `scheduling-requests` withdraws it,
because topics have no order relative to each other. The annotation of a binding tells that loadstream
has bound the pod.
"""

from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

import orjson

from connectors.kubernetes.sinks.binding import DECISION_ANNOTATION
from connectors.kubernetes.watch.metadata import Json, get_metadata
from connectors.kubernetes.watch.pods import convert_pod, list_claim_names, strip_pod
from connectors.kubernetes.watch.reporter import Reported, Reporter, require_message
from connectors.kubernetes.watch.volumes import Claims
from schemas.base.refusals import Refusal
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.pods import Pod, PodLifecycle
from schemas.topics.codec import decode_as

_FINISHED = ("Succeeded", "Failed")
#: Stages of a pod.
_WAITS, _NOMINATED, _BOUND, _INITIALISED, _RUNNING = range(5)
_Event = Literal["bound", "initialised", "running", "changed"]
_ARRIVED_AT: dict[int, _Event] = {_BOUND: "bound", _INITIALISED: "initialised", _RUNNING: "running"}


class ReportedPod(NamedTuple):
    """The kept part of a reported pod: about 300 bytes."""

    name: str
    """Namespace and name."""
    node: str | None
    stage: int
    digest: int


class PodReporter(Reporter):
    reported: dict[str, ReportedPod]

    def __init__(
        self,
        cluster: str,
        schedulers: Collection[str],
        claims: Claims,
        now_ms: Callable[[], int],
    ) -> None:
        """`schedulers`: scheduler names of loadstream; `claims`: volume claims of the cluster."""
        super().__init__()
        self.cluster = cluster
        self._schedulers = frozenset(schedulers)
        self._claims = claims
        self._now_ms = now_ms
        self._nodes: dict[str, str] = {}
        """Node names, shared by all their pods."""
        self._waiting: dict[str, Json] = {}
        """Waiting pods with volume claims, as JSON of the API server, by uid."""

    def clear(self) -> None:
        super().clear()
        self._waiting.clear()
        self._nodes.clear()

    def key(self, obj: Json) -> str:
        """Return the uid, because another pod can have the same name."""
        uid: str = obj["metadata"]["uid"]
        return uid

    def describe(self, key: str, obj: Json) -> str:
        """Return namespace, name and uid."""
        meta = get_metadata(obj)
        return f"pod {meta.get('namespace')}/{meta.get('name')} of uid {key}"

    def claims_changed(self, list_id: str | None) -> Reported:
        """Report waiting pods with claims again if they have changed."""
        for uid, obj in list(self._waiting.items()):
            yield from self.report_object(uid, obj, list_id)

    def report_object(self, key: str, obj: Json, list_id: str | None) -> Reported:
        """Yield the records of a pod if it has changed."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        finished = status.get("phase") in _FINISHED
        waits = not finished and self._is_waiting(obj, spec)
        previous = self.reported.get(key)
        if not waits:
            self._waiting.pop(key, None)
        nominated = not waits and self._is_nominated(obj, spec, status)
        if not waits and not nominated and (finished or not spec.get("nodeName")):
            if previous is not None:
                yield from self._report_ended(key, previous, obj, list_id, finished=finished)
            return
        values = convert_pod(obj, self._claims)
        digest = hash(orjson.dumps(values))
        if previous is not None and previous.digest == digest:
            return
        pod = self._build_pod(values)
        node = None if pod.node is None else self._nodes.setdefault(pod.node, pod.node)
        stage = _WAITS if waits else _NOMINATED if nominated else _stage(pod)
        name = f"{pod.namespace}/{pod.name}"
        self.reported[key] = ReportedPod(name, node, stage, digest)
        if waits and list_claim_names(obj):
            get_metadata(obj).pop("managedFields", None)
            self._waiting[key] = obj
        if waits:
            yield from self._report_waiting(pod, list_id)
        else:
            yield from self._report_bound(pod, previous, stage, obj, list_id)

    def report_removal(self, key: str, list_id: str | None, obj: Json | None = None) -> Reported:
        """Yield the records of a deleted pod."""
        previous = self.reported.pop(key)
        self._waiting.pop(key, None)
        pod = self._build_last(key, previous, obj)
        yield self._lifecycle("deleted", pod, list_id)
        if previous.stage == _WAITS:
            yield self._request(pod, withdrawn=True)

    # --- steps ----------------------------------------------------------------------------------

    def _is_waiting(self, obj: Json, spec: Json) -> bool:
        return (
            not spec.get("nodeName")
            and spec.get("schedulerName") in self._schedulers
            and not spec.get("schedulingGates")
            and not get_metadata(obj).get("deletionTimestamp")
        )

    def _is_nominated(self, obj: Json, spec: Json, status: Json) -> bool:
        """Tell whether another scheduler reserves room for an unbound pod."""
        return bool(
            status.get("nominatedNodeName")
            and not spec.get("nodeName")
            and spec.get("schedulerName") not in self._schedulers
            and status.get("phase") not in _FINISHED
            and not get_metadata(obj).get("deletionTimestamp")
        )

    def _report_waiting(self, pod: Pod, list_id: str | None) -> Reported:
        if list_id is not None:
            yield self._lifecycle("seen", pod, list_id)
        yield self._request(pod)

    def _report_bound(
        self, pod: Pod, previous: ReportedPod | None, stage: int, obj: Json, list_id: str | None
    ) -> Reported:
        if list_id is not None:
            yield self._lifecycle("seen", pod, list_id)
        elif stage == _NOMINATED:
            yield self._lifecycle("changed", pod, None)
        elif previous is None or previous.stage <= _NOMINATED:
            yield self._lifecycle("bound", pod, None)
        else:
            event = _ARRIVED_AT[stage] if stage > previous.stage else "changed"
            yield self._lifecycle(event, pod, None)
        by_us = DECISION_ANNOTATION in (get_metadata(obj).get("annotations") or {})
        if previous is not None and previous.stage == _WAITS and not by_us:
            yield self._request(pod, withdrawn=True)

    def _report_ended(
        self, key: str, previous: ReportedPod, obj: Json, list_id: str | None, *, finished: bool
    ) -> Reported:
        """Report that a pod has finished, or no longer needs a node."""
        pod = self._build_last(key, previous, obj)
        del self.reported[key]
        if finished:
            yield self._lifecycle("finished", pod, list_id)
        elif previous.stage == _NOMINATED:
            yield self._lifecycle("changed", pod, None)
        if previous.stage == _WAITS:
            yield self._request(pod, withdrawn=True)

    def _build_last(self, key: str, previous: ReportedPod, obj: Json | None) -> Pod:
        """Return the pod of `obj`, or only its name if there is no `obj` or it fits into no record."""
        read = None if obj is None else decode_as(Pod, orjson.dumps(convert_pod(obj, self._claims)))
        if isinstance(read, Pod):
            return read
        namespace, _, name = previous.name.partition("/")
        return Pod(namespace=namespace, name=name, uid=key, node=previous.node)

    # --- messages -------------------------------------------------------------------------------

    def _build_pod(self, values: Json) -> Pod:
        """Build the pod; if it does not fit into a record, a reduced one that counts but is never placed.

        Raises Unreadable.
        """
        read = decode_as(Pod, orjson.dumps(values))
        if isinstance(read, Refusal):
            read = decode_as(Pod, orjson.dumps(strip_pod(values)))
        pod: Pod = require_message(read)
        return pod

    def _lifecycle(self, event: str, pod: Pod, list_id: str | None) -> tuple[str, PodLifecycle]:
        fields: dict[str, Any] = {"cluster": self.cluster, "event": event, "pod": pod}
        return "pod-lifecycle", PodLifecycle(**fields, list_id=list_id)

    def _request(self, pod: Pod, *, withdrawn: bool = False) -> tuple[str, SchedulingRequest]:
        return "scheduling-requests", SchedulingRequest(
            cluster=self.cluster, pod=pod, requested_at_ms=self._now_ms(), withdrawn=withdrawn
        )


def _stage(pod: Pod) -> int:
    if pod.phase == "Running":
        return _RUNNING
    return _BOUND if pod.initialized_at_ms is None else _INITIALISED
