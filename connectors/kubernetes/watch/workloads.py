"""ReplicaSets, StatefulSets, DaemonSets and Jobs to the plain values of `WorkloadState`.

A Deployment needs no record: its pods name its ReplicaSet as their controller, and that has the
number of replicas that the Deployment gives it. Of a controller that neither wants nor has pods, as
the ReplicaSets of a Deployment's earlier revisions, there is no record either.
"""

from collections.abc import Iterable

from connectors.kubernetes.watch.metadata import Json

#: Failures of a Job that does not say how many it bears.
_BACKOFF_LIMIT = 6
#: With which containers end that are killed or asked to end.
_EXIT_CODES = (137, 143)


def replica_set(found: Json) -> Json | None:
    """Replicas of a ReplicaSet or a StatefulSet; none where there is nothing to say of it."""
    wanted = (found.get("spec") or {}).get("replicas", 1)
    has = (found.get("status") or {}).get("replicas", 0)
    return {"replicas": wanted} if wanted or has else None


def daemon_set(found: Json) -> Json | None:
    """Replicas of a DaemonSet: the nodes that should run it."""
    wanted = (found.get("status") or {}).get("desiredNumberScheduled", 0)
    return {"replicas": wanted} if wanted else None


def job(found: Json) -> Json | None:
    """Replicas of a Job: pods at once; none if it has ended, or is suspended without pods."""
    spec, status = found.get("spec") or {}, found.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return None
    wanted = 0 if spec.get("suspend") else _at_once(spec, status)
    if not wanted and not status.get("active"):
        return None
    return {"replicas": wanted, "evictions_allowed": _evictions_allowed(spec, status)}


def _evictions_allowed(spec: Json, status: Json) -> int | None:
    """How many pods may be evicted before the Job fails; none: their eviction does not count.

    The Job controller counts a pod that terminates as failed unless the pod failure policy ignores
    it. A pod that is not restarted loses its work besides, so none of them may be evicted. Source:
    Kubernetes' pkg/controller/job, `isPodFailed`, `matchPodFailurePolicy`.
    """
    if _ignores_evictions((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        return None
    if ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") == "Never":
        return 0
    allowed: int = spec.get("backoffLimit", _BACKOFF_LIMIT) - status.get("failed", 0)
    return max(0, allowed)


def _ignores_evictions(rules: Iterable[Json]) -> bool:
    """Whether the first rule that matches an evicted pod ignores it."""
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


def _at_once(spec: Json, status: Json) -> int:
    """Pods that a Job wants at once: no more than completions that are left.

    Without a number of completions nothing is begun any more once one pod has succeeded, and what
    runs goes on. Source: Kubernetes' pkg/controller/job/job_controller.go, `manageJob`.
    """
    parallel: int = spec.get("parallelism", 1)
    active: int = status.get("active", 0)
    completions, succeeded = spec.get("completions"), status.get("succeeded", 0)
    if completions is None:
        return active if succeeded else parallel
    left: int = max(0, completions - succeeded)
    return min(parallel, left)
