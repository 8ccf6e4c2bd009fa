"""Read pods from the API server."""

import re
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.api.errors import ApiError
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.answers import is_not_found
from schemas.messages.pods import PodRef

#: Names of objects. Names from messages become part of paths, so they are checked.
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
#: Timeout of reading a pod, in seconds.
READ_S = 10.0


def pod_path(pod: PodRef) -> str:
    """Return the path of a pod; raises ApiError if its name or namespace is invalid."""
    for name in (pod.namespace, pod.name):
        if not NAME.fullmatch(name):
            raise ApiError(400, "", f"{name!r} is not a name of a namespace or pod", None, b"")
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


@dataclass(frozen=True, slots=True)
class LivePod:
    """A pod as the API server has it."""

    object: dict[str, Any]

    @property
    def uid(self) -> str:
        return str(self._metadata.get("uid") or "")

    @property
    def version(self) -> str:
        return str(self._metadata.get("resourceVersion") or "")

    @property
    def node(self) -> str | None:
        return (self.object.get("spec") or {}).get("nodeName") or None

    @property
    def gates(self) -> list[str]:
        """Names of its scheduling gates."""
        gates = (self.object.get("spec") or {}).get("schedulingGates") or ()
        return [str(gate.get("name")) for gate in gates]

    @property
    def annotations(self) -> dict[str, str]:
        return self._metadata.get("annotations") or {}

    @property
    def is_terminating(self) -> bool:
        return bool(self._metadata.get("deletionTimestamp"))

    @property
    def has_finished(self) -> bool:
        return self.status.get("phase") in ("Succeeded", "Failed")

    @property
    def status(self) -> dict[str, Any]:
        return self.object.get("status") or {}

    @property
    def controller(self) -> dict[str, Any] | None:
        """The owner reference of its controller."""
        owners = self._metadata.get("ownerReferences") or ()
        return next((owner for owner in owners if owner.get("controller")), None)

    @property
    def _metadata(self) -> dict[str, Any]:
        return self.object.get("metadata") or {}


async def read_pod(server: ApiServer, pod: PodRef) -> LivePod | None:
    """Return the pod with this name, whatever its uid; None: there is none.

    Raises ApiError, ApiUnreachable, AccessError.
    """
    response = await server.send("GET", pod_path(pod), timeout_s=READ_S)
    if response.ok:
        return LivePod(response.json())
    error = response.error()
    if is_not_found(error):
        return None
    raise error


async def find_pod(server: ApiServer, pod: PodRef) -> LivePod | str:
    """Return the pod with this uid, or a sentence that says that it is gone; raises as `read_pod`."""
    live = await read_pod(server, pod)
    if live is None:
        return f"pod {pod.name} is gone"
    if live.uid != pod.uid:
        return f"pod {pod.name} of uid {pod.uid} is gone; the pod of that name has uid {live.uid}"
    return live
