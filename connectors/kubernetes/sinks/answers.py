"""What the API server's answers to bindings and evictions mean."""

import orjson

from connectors.kubernetes.api.errors import ApiError
from connectors.kubernetes.api.server import Response

#: A `Retry-After` is honoured up to this, in seconds: what waits longer would hold up the end of a
#: turn. Priority and fairness asks for one second.
RETRY_AFTER_MAX_S = 10.0
#: Cause in a Status by which a disruption budget refuses (policy/v1 DisruptionBudgetCause).
_BUDGET_CAUSE = b'"DisruptionBudget"'
#: Words by which an eviction is refused that has begun in the background: KubeVirt migrates the
#: virtual machine live. The descheduler of Kubernetes reads the same words.
_BACKGROUND = b"Eviction triggered evacuation"
#: Words of an eviction that a second budget forbids (500).
_TWO_BUDGETS = b"more than one PodDisruptionBudget"


def overloaded(response: Response) -> bool:
    """The server refused for its own load: priority and fairness, or it is about to end."""
    if response.status == 429:
        return not (by_budget(response) or in_background(response))
    return response.status in (503, 504)


def by_budget(response: Response) -> bool:
    """A disruption budget refused."""
    return response.status in (403, 429) and _BUDGET_CAUSE in response.body


def by_two_budgets(response: Response) -> bool:
    """Two disruption budgets cover the pod, which evictions do not support."""
    return response.status == 500 and _TWO_BUDGETS in response.body


def in_background(response: Response) -> bool:
    """The eviction goes on although it was refused."""
    return not response.ok and _BACKGROUND in response.body


def again_in_s(error: ApiError) -> float:
    """When to ask again at the earliest."""
    return min(error.retry_after_s or 0.0, RETRY_AFTER_MAX_S)


def absent(error: ApiError) -> bool:
    """The object does not exist, by the word of the API server and not of a proxy before it."""
    return error.status == 404 and error.reason == "NotFound"


def sentence(error: ApiError) -> str:
    """The server's own sentence, with the causes that it names."""
    try:
        details = orjson.loads(error.body).get("details") or {}
        causes = [each["message"] for each in details.get("causes") or () if each.get("message")]
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        causes = []
    said = error.message or error.reason or f"status {error.status}"
    more = [cause for cause in causes if cause not in said]
    return " ".join([said, *more])
