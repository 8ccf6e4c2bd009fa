"""Classify the API server's answers to bindings and evictions."""

from connectors.kubernetes.api.errors import ApiError
from connectors.kubernetes.api.server import Response

#: Longest honoured `Retry-After`, in seconds; longer waits would delay the end of a term. API Priority
#: and Fairness of the API server requires one second.
RETRY_AFTER_MAX_S = 10.0
#: Cause in the Status of a refusal by a disruption budget (policy/v1 DisruptionBudgetCause).
_BUDGET_CAUSE = b'"DisruptionBudget"'
#: Message of a refused eviction that continues in the background: KubeVirt migrates the virtual machine
#: live. The descheduler of Kubernetes searches for the same text.
_BACKGROUND = b"Eviction triggered evacuation"
#: Message of an eviction of a pod with two budgets (500).
_TWO_BUDGETS = b"more than one PodDisruptionBudget"


def is_refused_by_budget(response: Response) -> bool:
    return response.status in (403, 429) and _BUDGET_CAUSE in response.body


def has_two_budgets(response: Response) -> bool:
    """Tell whether two budgets cover the pod, which the eviction API does not support."""
    return response.status == 500 and _TWO_BUDGETS in response.body


def is_in_background(response: Response) -> bool:
    """Tell whether the eviction continues although it was refused."""
    return not response.ok and _BACKGROUND in response.body


def retry_pause_s(error: ApiError) -> float:
    """Return the shortest pause before another attempt, in seconds."""
    return min(error.retry_after_s or 0.0, RETRY_AFTER_MAX_S)


def is_not_found(error: ApiError) -> bool:
    """Tell whether the API server, and not a proxy, answered that the object does not exist."""
    return error.status == 404 and error.reason == "NotFound"
