"""PodDisruptionBudgets to the plain values of `DisruptionBudget`."""

from connectors.kubernetes.watch.affinity import pod_selector
from connectors.kubernetes.watch.metadata import Json, given, metadata


def disruption_budget(found: Json) -> Json:
    """A budget with its status.

    A status that is of an earlier specification allows nothing: the API server evicts no pod by it.
    """
    spec, status = found.get("spec") or {}, found.get("status") or {}
    outdated = status.get("observedGeneration", 0) < metadata(found).get("generation", 0)
    return {
        **given(
            disruptions_allowed=0 if outdated else status.get("disruptionsAllowed"),
            current_healthy=status.get("currentHealthy"),
            desired_healthy=status.get("desiredHealthy"),
            expected_pods=status.get("expectedPods"),
            unhealthy_pod_eviction_policy=spec.get("unhealthyPodEvictionPolicy"),
        ),
        **pod_selector(spec.get("selector")),
    }
