"""ReplicaSets, StatefulSets, DaemonSets and Jobs to the plain values of `WorkloadState`.

A Deployment needs no record: its pods name its ReplicaSet as their controller, and that has the
number of replicas that the Deployment gives it. Of a controller that neither wants nor has pods, as
the ReplicaSets of a Deployment's earlier revisions, there is no record either.
"""

from connectors.kubernetes.watch.metadata import Json


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
    return {"replicas": wanted} if wanted or status.get("active") else None


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
