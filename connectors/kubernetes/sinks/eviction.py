"""Evicts pods: first a look, then one request with the uid as precondition.

The look comes first since a precondition that fails is paid for: the eviction API takes from the
disruption budget before it compares the uid. A pod that is gone, is another one, is elsewhere or
terminates is therefore refused without a request.

    Eviction       POST pods/NAME/eviction: heeds disruption budgets
    Delete         DELETE pods/NAME: does not
    SoftEviction   PATCH pods/NAME: annotations only

A refusal by a budget is reported at once if the command's migration tries again itself, and else
tried again until the command expires. An answer that was lost is replaced by another look.

Not guaranteed: one request, if two processes carry out one command in the same moment. Both name
the uid, so the pod leaves once.
"""

from typing import Any

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import Response
from connectors.kubernetes.sinks.answers import (
    absent,
    again_in_s,
    by_budget,
    by_two_budgets,
    in_background,
    sentence,
)
from connectors.kubernetes.sinks.pods import Seen, gone, look, path
from connectors.kubernetes.sinks.throttle import Throttle
from connectors.ports.sink import DONE, Attempt, report_pod_gone
from schemas.messages.evictions import EvictionCommand

#: Annotation of a pod whose eviction goes on in the background: a virtual machine that is being
#: migrated live. Set by its controller, read by the descheduler of Kubernetes in the same way.
IN_PROGRESS_ANNOTATION = "descheduler.alpha.kubernetes.io/eviction-in-progress"
#: Time that a request may take, in seconds; webhooks may take up to 30 of them. With both looks and
#: a pause of the server it is less than a turn has for its end.
EVICT_S = 32.0


class Evictor:
    """Evicts pods of one cluster."""

    def __init__(self, server: Throttle) -> None:
        self._server = server

    async def evict(self, command: EvictionCommand) -> tuple[Attempt, Seen | None]:
        """One attempt, and the pod as it was before.

        Raises ApiError, ApiUnreachable, AccessError where the look failed: nothing was done.
        """
        seen = await look(self._server, command.pod)
        missing = gone(command.pod, seen)
        if missing is not None or seen is None:
            return report_pod_gone("refused", missing or ""), seen
        why = _forbidden(command, seen)
        if why is not None:
            return Attempt("refused", why), seen
        if IN_PROGRESS_ANNOTATION in seen.annotations and command.policy == "Eviction":
            return _going_on(command), seen
        try:
            response = await self._server.send(**_request(command), timeout_s=EVICT_S)
        except ApiUnreachable as lost:
            return await self._found_out(command, str(lost)), seen
        if response.ok:
            return DONE, seen
        if response.status >= 500 and not by_two_budgets(response) and not in_background(response):
            return await self._found_out(command, sentence(response.error())), seen
        return _refused(command, response), seen

    async def _found_out(self, command: EvictionCommand, why: str) -> Attempt:
        """Whether the pod leaves is read from the pod."""
        try:
            seen = await look(self._server, command.pod)
        except (ApiError, ApiUnreachable, AccessError) as error:
            text = f"{why}; whether the pod was evicted is not known yet: {error}"
            return Attempt("failed", text, again_in_s=0.0)
        left = gone(command.pod, seen) is not None or (seen is not None and seen.terminates)
        if left:
            return Attempt("done", f"the answer was lost, and the pod terminates or is gone: {why}")
        return Attempt("failed", why, again_in_s=0.0)


def _forbidden(command: EvictionCommand, seen: Seen) -> str | None:
    """What of the pod forbids its eviction; None: nothing."""
    name = command.pod.name
    if seen.node != command.node:
        return f"pod {name} is on {f'node {seen.node}' if seen.node else 'no node'}"
    if seen.terminates:
        return f"pod {name} terminates already"
    if seen.ended:
        return f"pod {name} has ended already"
    return None


def _request(command: EvictionCommand) -> dict[str, Any]:
    """Arguments of `Throttle.send`."""
    where, options = path(command.pod), _options(command)
    if command.policy == "Delete":
        return {"method": "DELETE", "path": where, "body": options}
    if command.policy == "SoftEviction":
        # The uid is a precondition of the API server.
        metadata = {"uid": command.pod.uid, "annotations": dict(command.annotations)}
        return {
            "method": "PATCH", "path": where, "body": {"metadata": metadata},
            "content_type": "application/merge-patch+json",
        }  # fmt: skip
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": command.pod.name, "namespace": command.pod.namespace},
        "deleteOptions": options,
    }
    return {"method": "POST", "path": f"{where}/eviction", "body": body}


def _options(command: EvictionCommand) -> dict[str, Any]:
    """Return metav1.DeleteOptions of a command."""
    options: dict[str, Any] = {
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": command.pod.uid}
    }  # fmt: skip
    if command.grace_period_s is not None:
        options["gracePeriodSeconds"] = command.grace_period_s
    return options


def _going_on(command: EvictionCommand, said: str = "") -> Attempt:
    why = f"the eviction of pod {command.pod.name} goes on in the background"
    return Attempt("done", f"{why}: {said}" if said else why)


def _refused(command: EvictionCommand, response: Response) -> Attempt:
    """What an answer means that the server gave on purpose."""
    error, name = response.error(), command.pod.name
    said = sentence(error)
    if in_background(response):
        return _going_on(command, said)
    if by_budget(response):
        # A migration sends another command, so it hears of it at once.
        again = None if command.retry_until_ms is not None else again_in_s(error)
        return Attempt("refused", said, again)
    if by_two_budgets(response):
        return Attempt("refused", said)
    if error.status == 429:
        why = f"the API server is overloaded: {said}"
        return Attempt("failed", why, again_in_s=again_in_s(error))
    if absent(error):
        return report_pod_gone("refused", f"pod {name} is gone")
    if error.status == 409:  # it is another pod now, or was changed meanwhile: the next look says
        return Attempt("refused", said, again_in_s=0.0)
    return Attempt("failed", f"eviction was not accepted ({error.status}): {said}")
