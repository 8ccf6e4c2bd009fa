"""Cordons the nodes that are drained, and uncordons those that it cordoned.

kube-scheduler does not know of a drain, and would fill a node that is being emptied. An annotation
says that the cordon is ours: a node that was unschedulable before stays so when its drain is taken
back.
"""

import logging
from typing import Any

from connectors.kubernetes.api.errors import ApiError
from connectors.kubernetes.sinks.answers import absent
from connectors.kubernetes.sinks.pods import NAME
from connectors.kubernetes.sinks.throttle import Throttle
from schemas.messages.migrations import DrainStatus

logger = logging.getLogger(__name__)

#: Annotation of a node with the id of the request by which it was cordoned.
CORDON_ANNOTATION = "loadstream/cordoned-by"
#: Time that one request may take, in seconds.
REQUEST_S = 10.0


class Cordons:
    """The cordons of one cluster's nodes."""

    def __init__(self, server: Throttle) -> None:
        self._server = server

    async def apply(self, status: DrainStatus) -> None:
        """Cordon or uncordon a node as its drain says; a refusal for good is logged.

        Raises ApiError, ApiUnreachable, AccessError where another attempt may help.
        """
        if status.dry_run or not NAME.fullmatch(status.node):
            return
        try:
            await self._apply(status)
        except ApiError as error:
            if error.status >= 500 or error.status in (409, 429):
                raise
            if not absent(error):
                logger.warning(
                    "node %s is %s, and its cordon was not changed: %s; the role loadstream-evict "
                    "needs get and patch of nodes, and --no-cordon does without",
                    status.node, status.phase, error,
                )  # fmt: skip

    async def _apply(self, status: DrainStatus) -> None:
        path = f"/api/v1/nodes/{status.node}"
        response = await self._server.send("GET", path, timeout_s=REQUEST_S)
        if not response.ok:
            raise response.error()
        change = _change(response.json(), status)
        if change is None:
            return
        response = await self._server.send(
            "PATCH", path, body=change, content_type="application/merge-patch+json",
            timeout_s=REQUEST_S,
        )  # fmt: skip
        if not response.ok:
            raise response.error()


def _change(node: dict[str, Any], status: DrainStatus) -> dict[str, Any] | None:
    """The patch that a drain asks for, if it is the same node; None: none."""
    metadata = node.get("metadata") or {}
    ours = CORDON_ANNOTATION in (metadata.get("annotations") or {})
    undrained = status.phase == "Undrained"
    unchanged = not ours if undrained else bool((node.get("spec") or {}).get("unschedulable"))
    if unchanged:
        return None
    annotation = None if undrained else status.request_id
    return {
        "metadata": {
            "uid": metadata.get("uid"),
            "annotations": {CORDON_ANNOTATION: annotation},
        },
        "spec": {"unschedulable": None if undrained else True},
    }
