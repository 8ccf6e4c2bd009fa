"""Convert ReplicaSets, StatefulSets, DaemonSets and Jobs to the values of `WorkloadState`.

A Deployment needs no record, because its ReplicaSet has the number of replicas and is the controller of
its pods. A controller without desired and existing pods, such as an old ReplicaSet of a Deployment, has
no record.
"""

from collections.abc import Iterable

from connectors.kubernetes.watch.metadata import Json

#: Default backoffLimit of a Job.
_BACKOFF_LIMIT = 6
#: Exit codes of containers that end by SIGKILL or SIGTERM.
_EXIT_CODES = (137, 143)


def convert_replica_set(workload: Json) -> Json | None:
    """Convert a ReplicaSet or StatefulSet; None: no record."""
    desired = (workload.get("spec") or {}).get("replicas", 1)
    existing = (workload.get("status") or {}).get("replicas", 0)
    return {"replicas": desired} if desired or existing else None


def convert_daemon_set(daemon_set: Json) -> Json | None:
    """Convert a DaemonSet, whose replicas are the nodes that should run it; None: no record."""
    desired = (daemon_set.get("status") or {}).get("desiredNumberScheduled", 0)
    return {"replicas": desired} if desired else None


def convert_job(job: Json) -> Json | None:
    """Convert a Job; None: no record, because it has ended, or is suspended without pods."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return None
    parallel = 0 if spec.get("suspend") else _count_parallel(spec, status)
    if not parallel and not status.get("active"):
        return None
    return {"replicas": parallel, "evictions_allowed": _evictions_allowed(spec, status)}


def _evictions_allowed(spec: Json, status: Json) -> int | None:
    """Return how many pods may be evicted before the Job fails; None: evictions do not count as failures.

    The Job controller counts a terminating pod as failed unless the pod failure policy ignores it. A
    pod that is not restarted would lose its work, so none of them may be evicted. Source: Kubernetes'
    pkg/controller/job, `isPodFailed`, `matchPodFailurePolicy`.
    """
    if _ignores_evictions((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        return None
    if ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") == "Never":
        return 0
    allowed: int = spec.get("backoffLimit", _BACKOFF_LIMIT) - status.get("failed", 0)
    return max(0, allowed)


def _ignores_evictions(rules: Iterable[Json]) -> bool:
    """Tell whether the first rule that matches an evicted pod ignores it."""
    for rule in rules:
        ignores = rule.get("action") == "Ignore"
        for condition in rule.get("onPodConditions") or ():
            if condition.get("type") == "DisruptionTarget" and condition.get("status") != "False":
                return ignores
        codes = rule.get("onExitCodes")
        if codes is None:
            continue
        matched = [
            (code in codes.get("values", ())) == (codes.get("operator") == "In")
            for code in _EXIT_CODES
        ]
        if all(matched) if ignores else any(matched):
            return ignores
    return False


def _count_parallel(spec: Json, status: Json) -> int:
    """Return the pods that a Job runs at once: at most its remaining completions.

    Without a number of completions, no further pod is started once one has succeeded. Source:
    Kubernetes' pkg/controller/job/job_controller.go, `manageJob`.
    """
    parallel: int = spec.get("parallelism", 1)
    active: int = status.get("active", 0)
    completions, succeeded = spec.get("completions"), status.get("succeeded", 0)
    if completions is None:
        return active if succeeded else parallel
    remaining: int = max(0, completions - succeeded)
    return min(parallel, remaining)
