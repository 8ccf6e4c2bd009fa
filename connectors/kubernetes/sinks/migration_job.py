"""Read a PodMigrationJob of Koordinator, and build its status.

Source: koordinator-sh/koordinator apis/scheduling/v1alpha1/pod_migration_job_types.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from connectors.kubernetes.api.times import format_time, parse_time_ms
from schemas.messages.migrations import LIVE, TTL_MAX_MS, MigrationRequest, MigrationStatus, Mode
from schemas.messages.pods import PodRef
from schemas.policy.durations import parse_duration_ms

#: Annotation of a job with its reason.
REASON_ANNOTATION = "koordinator.sh/evict-reason"
#: Fields of a job's spec without effect.
NOT_APPLIED = ("reservationOptions", "deleteOptions")
#: Labels and annotations without effect on a job; they have an effect on its pod.
LABELS_NOT_APPLIED = ("koordinator.sh/evict-policy",)
ANNOTATIONS_NOT_APPLIED = ("descheduler.alpha.kubernetes.io/evict",)
_REASON_MAX = 1_000
_MODES: tuple[str, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Job:
    """The fields of a PodMigrationJob that loadstream uses."""

    name: str
    uid: str
    generation: int
    namespace: str
    """Namespace of the pod."""
    pod: str
    pod_uid: str
    """Empty: the job has only the name of the pod."""
    paused: bool
    mode: str
    ttl: str
    reason: str
    not_applied: tuple[str, ...]
    created_at_ms: int
    phase: str
    """status.phase; empty: no process has started the job."""

    @property
    def has_finished(self) -> bool:
        return bool(self.phase) and self.phase not in LIVE


def read_job(obj: Mapping[str, Any]) -> Job:
    """Convert a job from JSON of the API server."""
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
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
            *(f"spec.{field}" for field in NOT_APPLIED if spec.get(field)),
            *(f"label {key}" for key in LABELS_NOT_APPLIED if key in labels),
            *(f"annotation {key}" for key in ANNOTATIONS_NOT_APPLIED if key in annotations),
        ),
        created_at_ms=parse_time_ms(metadata.get("creationTimestamp")) or 0,
        phase=str((obj.get("status") or {}).get("phase") or ""),
    )


def build_request(job: Job, cluster: str, pod: PodRef) -> MigrationRequest:
    """Return the request to migrate a job's pod; raises ValueError if the job is invalid."""
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
    try:
        ttl_ms = parse_duration_ms(text)
    except ValueError as error:
        raise ValueError(f"spec.ttl: {error}") from error
    if not 0 <= ttl_ms <= TTL_MAX_MS:
        raise ValueError(f"spec.ttl is {text}; allowed are 0s (the policy's default) to 24h")
    return ttl_ms


def build_status(status: MigrationStatus, job: Job) -> dict[str, Any]:
    """Return the status of a job in Koordinator's terms."""
    values: dict[str, Any] = {
        "phase": status.phase,
        "status": status.conditions[-1].type if status.conditions else "",
        "reason": status.reason,
        "message": add_not_applied(status.message, job),
        "nodeName": status.source_node,
        "conditions": [
            {
                "type": condition.type,
                "status": "True" if condition.status else "False",
                "reason": condition.reason,
                "message": condition.message,
                "lastProbeTime": format_time(status.happened_at_ms),
                "lastTransitionTime": format_time(condition.changed_at_ms),
            }
            for condition in status.conditions
        ],
    }
    if status.replacement is not None:
        pod = status.replacement
        values["podRef"] = {
            "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name,
            "uid": pod.uid,
        }  # fmt: skip
    return values


def add_not_applied(message: str, job: Job) -> str:
    """Add the job's fields without effect to a message."""
    note = f"not applied: {', '.join(job.not_applied)}" if job.not_applied else ""
    return "; ".join(filter(None, (message, note)))
