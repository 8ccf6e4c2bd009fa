"""One PodMigrationJob of Koordinator: what it asks for, and its status in Koordinator's words.

Source: koordinator-sh/koordinator apis/scheduling/v1alpha1/pod_migration_job_types.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

from pydantic import ValidationError

from connectors.kubernetes.sinks.events import rfc3339
from schemas.messages.migrations import LIVE, TTL_MAX_MS, MigrationRequest, MigrationStatus, Mode
from schemas.messages.pods import PodRef
from schemas.policy.durations import parse_duration_ms

#: Annotation of a job: why, in words.
REASON_ANNOTATION = "koordinator.sh/evict-reason"
#: Fields of a job's spec that mean nothing here.
NOT_APPLIED = ("reservationOptions", "deleteOptions")
#: Labels and annotations of a job that mean nothing here; those of its pod do.
LABELS_NOT_APPLIED = ("koordinator.sh/evict-policy",)
ANNOTATIONS_NOT_APPLIED = ("descheduler.alpha.kubernetes.io/evict",)
_REASON_MAX = 1_000
_MODES: tuple[str, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Job:
    """What of a PodMigrationJob matters here."""

    name: str
    uid: str
    generation: int
    namespace: str
    """Of the pod."""
    pod: str
    pod_uid: str
    """Empty: the job names the pod by name only."""
    paused: bool
    mode: str
    ttl: str
    reason: str
    not_applied: tuple[str, ...]
    created_at_ms: int
    phase: str
    """As its status says; empty: no process has taken it yet."""

    @property
    def over(self) -> bool:
        """It has come to its end."""
        return bool(self.phase) and self.phase not in LIVE


def read_job(found: Mapping[str, Any]) -> Job:
    """A job, as the API server gives it."""
    metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
    pod = spec.get("podRef") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    name = str(metadata.get("name") or "")
    return Job(
        name=name,
        uid=str(metadata.get("uid") or ""),
        generation=int(metadata.get("generation") or 1),
        namespace=str(pod.get("namespace") or ""),
        pod=str(pod.get("name") or ""),
        pod_uid=str(pod.get("uid") or ""),
        paused=bool(spec.get("paused")),
        mode=str(spec.get("mode") or ""),
        ttl=str(spec.get("ttl") or ""),
        reason=str(annotations.get(REASON_ANNOTATION) or f"PodMigrationJob {name}"),
        not_applied=(
            *(f"spec.{each}" for each in NOT_APPLIED if spec.get(each)),
            *(f"label {each}" for each in LABELS_NOT_APPLIED if each in labels),
            *(f"annotation {each}" for each in ANNOTATIONS_NOT_APPLIED if each in annotations),
        ),
        created_at_ms=_milliseconds(metadata.get("creationTimestamp")),
        phase=str((found.get("status") or {}).get("phase") or ""),
    )


def request_of(job: Job, cluster: str, pod: PodRef) -> MigrationRequest:
    """The request to migrate a job's pod; raises ValueError with what is wrong with the job."""
    ttl_ms = _ttl_ms(job.ttl) if job.ttl else 0
    if job.mode and job.mode not in _MODES:
        raise ValueError(f"spec.mode is {job.mode!r}; allowed are {', '.join(_MODES)}")
    try:
        return MigrationRequest.model_validate({
            "request_id": f"pmj-{job.uid}", "cluster": cluster, "action": "migrate", "pod": pod,
            "mode": job.mode or None, "ttl_ms": ttl_ms or None,
            "reason": job.reason[:_REASON_MAX], "requested_at_ms": job.created_at_ms,
        })  # fmt: skip
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _ttl_ms(text: str) -> int:
    """spec.ttl in ms; raises ValueError."""
    try:
        ttl_ms = parse_duration_ms(text)
    except ValueError as error:
        raise ValueError(f"spec.ttl: {error}") from error
    if not 0 <= ttl_ms <= TTL_MAX_MS:
        raise ValueError(f"spec.ttl is {text}; allowed are 0s, for what the policy says, to 24h")
    return ttl_ms


def status_of(status: MigrationStatus, job: Job) -> dict[str, Any]:
    """The status of a job, in Koordinator's words."""
    values: dict[str, Any] = {
        "phase": status.phase,
        "status": status.conditions[-1].type if status.conditions else "",
        "reason": status.reason,
        "message": with_not_applied(status.message, job),
        "nodeName": status.source_node,
        "conditions": [
            {
                "type": each.type,
                "status": "True" if each.status else "False",
                "reason": each.reason,
                "message": each.message,
                "lastProbeTime": rfc3339(status.happened_at_ms),
                "lastTransitionTime": rfc3339(each.changed_at_ms),
            }
            for each in status.conditions
        ],
    }
    if status.replacement is not None:
        pod = status.replacement
        values["podRef"] = {
            "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name,
            "uid": pod.uid,
        }  # fmt: skip
    return values


def with_not_applied(message: str, job: Job) -> str:
    """A message, and what of the job means nothing here."""
    said = [message] if message else []
    if job.not_applied:
        said.append(f"not applied: {', '.join(job.not_applied)}")
    return "; ".join(said)


def _milliseconds(text: object) -> int:
    """Milliseconds since 1970 of a metav1.Time; 0: it is none."""
    try:
        return int(datetime.fromisoformat(str(text)).astimezone(UTC).timestamp() * 1000)
    except ValueError:
        return 0
