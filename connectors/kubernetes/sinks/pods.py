"""Pods as sinks see them: their paths, and what there is of one now."""

import re
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.api.errors import ApiError
from connectors.kubernetes.sinks.answers import absent
from connectors.kubernetes.sinks.throttle import Throttle
from schemas.messages.pods import PodRef

#: Names of objects: a name from a message becomes part of a path, so nothing else may be in it.
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
#: Time that a look at a pod may take, in seconds.
LOOK_S = 10.0


def path(pod: PodRef) -> str:
    """The path of a pod; raises ApiError if its name or namespace is none."""
    for name in (pod.namespace, pod.name):
        if not NAME.fullmatch(name):
            raise ApiError(400, "", f"{name!r} is no name of a namespace or pod", None, b"")
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod as it is now."""

    object: dict[str, Any]

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return str(self._metadata.get("uid") or "")

    @property
    def version(self) -> str:
        """metadata.resourceVersion."""
        return str(self._metadata.get("resourceVersion") or "")

    @property
    def node(self) -> str | None:
        """The node that it is bound to."""
        return (self.object.get("spec") or {}).get("nodeName") or None

    @property
    def gates(self) -> list[str]:
        """Names of the gates that hold back its scheduling."""
        gates = (self.object.get("spec") or {}).get("schedulingGates") or ()
        return [str(each.get("name")) for each in gates]

    @property
    def annotations(self) -> dict[str, str]:
        """metadata.annotations."""
        return self._metadata.get("annotations") or {}

    @property
    def terminates(self) -> bool:
        """It was deleted or evicted, and is on its way out."""
        return bool(self._metadata.get("deletionTimestamp"))

    @property
    def ended(self) -> bool:
        """All its containers have ended for good."""
        return self.status.get("phase") in ("Succeeded", "Failed")

    @property
    def status(self) -> dict[str, Any]:
        """status."""
        return self.object.get("status") or {}

    @property
    def controller(self) -> dict[str, Any] | None:
        """The owner reference of its controller."""
        owners = self._metadata.get("ownerReferences") or ()
        return next((owner for owner in owners if owner.get("controller")), None)

    @property
    def _metadata(self) -> dict[str, Any]:
        return self.object.get("metadata") or {}


async def look(server: Throttle, pod: PodRef) -> Seen | None:
    """The pod of this name, whatever its uid; None: there is none.

    Raises ApiError, ApiUnreachable, AccessError.
    """
    response = await server.send("GET", path(pod), timeout_s=LOOK_S)
    if response.ok:
        return Seen(response.json())
    error = response.error()
    if absent(error):
        return None
    raise error


def gone(pod: PodRef, seen: Seen | None) -> str | None:
    """Says that the pod meant is not there any more; None: it is."""
    if seen is None:
        return f"pod {pod.name} is gone"
    if seen.uid != pod.uid:
        return f"pod {pod.name} of uid {pod.uid} is gone; the pod of that name has uid {seen.uid}"
    return None
