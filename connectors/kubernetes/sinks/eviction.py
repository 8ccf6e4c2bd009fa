"""Evicts pods: reads the pod first, then sends one request with the uid as precondition.

The pod is read first because the eviction API charges the disruption budget before it compares the uid. So
a command is refused without a request if its pod is gone, is on another node, or is terminating.

    Eviction       POST pods/NAME/eviction: respects disruption budgets
    Delete         DELETE pods/NAME: ignores disruption budgets
    SoftEviction   PATCH pods/NAME: annotations only

A refusal by a budget is final if the migration repeats its commands; otherwise the request is repeated
until the command expires. After a lost answer the pod is read again.

Two processes that execute a command at the same moment may both send a request. Both requests have the
uid as precondition, so no other pod is evicted.
"""

from typing import Any

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer, Response
from connectors.kubernetes.sinks.answers import (
    has_two_budgets,
    is_in_background,
    is_not_found,
    is_refused_by_budget,
    retry_pause_s,
)
from connectors.kubernetes.sinks.pods import LivePod, find_pod, pod_path
from connectors.ports.sink import DONE, Attempt
from schemas.messages.commands import EvictionCommand

#: Annotation of a pod whose eviction continues in the background: a virtual machine that is migrated live.
#: Its controller sets it; the descheduler of Kubernetes reads it, too.
IN_PROGRESS_ANNOTATION = "descheduler.alpha.kubernetes.io/eviction-in-progress"
#: Timeout of a request, in seconds; webhooks may take up to 30 s. This timeout, two reads and a pause
#: that the server requires together take less than `END_S` (`connectors.kafka.term`).
EVICT_S = 32.0


class Evictor:
    """Evicts pods of one cluster."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def evict(self, command: EvictionCommand) -> tuple[Attempt, LivePod | None]:
        """Make one attempt; returns its result, and the pod before it; None: it was gone.

        Raises ApiError, ApiUnreachable or AccessError if the pod could not be read; nothing was done.
        """
        live = await find_pod(self._server, command.pod)
        if isinstance(live, str):
            return Attempt("refused", live, pod_gone=True), None
        why = _find_obstacle(command, live)
        if why is not None:
            return Attempt("refused", why), live
        if IN_PROGRESS_ANNOTATION in live.annotations and command.policy == "Eviction":
            return _report_background(command), live
        try:
            response = await self._server.send(**_request(command), timeout_s=EVICT_S)
        except ApiUnreachable as lost:
            return await self._resolve(command, str(lost)), live
        is_final = response.status < 500 or has_two_budgets(response) or is_in_background(response)
        if response.ok or is_final:
            return _report_answer(command, response), live
        return await self._resolve(command, response.error().message), live

    async def _resolve(self, command: EvictionCommand, why: str) -> Attempt:
        """Read the pod to find out whether it was evicted."""
        try:
            live = await find_pod(self._server, command.pod)
        except (ApiError, ApiUnreachable, AccessError) as error:
            text = f"{why}; whether the pod was evicted is unknown: {error}"
            return Attempt("failed", text, again_in_s=0.0)
        if isinstance(live, str) or live.is_terminating:
            return Attempt("done", f"the pod is terminating or gone; the answer was lost: {why}")
        return Attempt("failed", why, again_in_s=0.0)


def _find_obstacle(command: EvictionCommand, live: LivePod) -> str | None:
    """Return why the pod must not be evicted; None: it may be."""
    name = command.pod.name
    if live.node != command.node:
        return f"pod {name} is on {f'node {live.node}' if live.node else 'no node'}"
    if live.is_terminating:
        return f"pod {name} is already terminating"
    if live.has_finished:
        return f"pod {name} has already finished"
    return None


def _request(command: EvictionCommand) -> dict[str, Any]:
    """Return the arguments of `ApiServer.send`."""
    path, options = pod_path(command.pod), _options(command)
    if command.policy == "Delete":
        return {"method": "DELETE", "path": path, "body": options}
    if command.policy == "SoftEviction":
        # The uid of a patch is a precondition.
        metadata = {"uid": command.pod.uid, "annotations": dict(command.annotations)}
        return {
            "method": "PATCH", "path": path, "body": {"metadata": metadata},
            "content_type": "application/merge-patch+json",
        }  # fmt: skip
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": command.pod.name, "namespace": command.pod.namespace},
        "deleteOptions": options,
    }
    return {"method": "POST", "path": f"{path}/eviction", "body": body}


def _options(command: EvictionCommand) -> dict[str, Any]:
    """Return the metav1.DeleteOptions of a command."""
    options: dict[str, Any] = {
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": command.pod.uid}
    }  # fmt: skip
    if command.grace_period_s is not None:
        options["gracePeriodSeconds"] = command.grace_period_s
    return options


def _report_background(command: EvictionCommand, message: str = "") -> Attempt:
    why = f"the eviction of pod {command.pod.name} continues in the background"
    return Attempt("done", f"{why}: {message}" if message else why)


def _report_answer(command: EvictionCommand, response: Response) -> Attempt:
    """Return the result of an answer that tells whether the pod was evicted."""
    if response.ok:
        return DONE
    error = response.error()
    message = error.message
    if is_in_background(response):
        return _report_background(command, message)
    if is_refused_by_budget(response):
        # A migration that repeats its commands needs the refusal at once.
        again = None if command.retry_until_ms is not None else retry_pause_s(error)
        return Attempt("refused", message, again)
    if has_two_budgets(response):
        return Attempt("refused", message)
    if error.status == 429:
        why = f"the API server is overloaded: {message}"
        return Attempt("failed", why, again_in_s=retry_pause_s(error))
    if is_not_found(error):
        return Attempt("refused", f"pod {command.pod.name} is gone", pod_gone=True)
    if error.status == 409:  # replaced or changed: the next attempt reads the pod again
        return Attempt("refused", message, again_in_s=0.0)
    return Attempt("failed", f"eviction was refused ({error.status}): {message}")
