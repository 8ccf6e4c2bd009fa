"""PodDisruptionBudgets to the plain values of `DisruptionBudget`."""

from typing import Any

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
        **_selector(spec.get("selector")),
    }


def _selector(found: Any) -> Json:
    """Of policy/v1: no selector covers no pod, an empty one covers all."""
    if found is None:
        return {}
    expressions = [
        given(key=each.get("key"), operator=each.get("operator"), values=each.get("values"))
        for each in found.get("matchExpressions") or ()
    ]
    return {"selector": given(match_labels=found.get("matchLabels"), match_expressions=expressions)}
