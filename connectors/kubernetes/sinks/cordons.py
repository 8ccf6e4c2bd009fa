"""Cordons drained nodes, and uncordons nodes that it has cordoned.

kube-scheduler does not know our drains, and would fill a node that is being emptied. An annotation marks
our cordons: a node that was unschedulable before the drain stays unschedulable afterwards.
"""

import logging
from typing import Any

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.answers import is_not_found
from connectors.kubernetes.sinks.pods import NAME
from schemas.messages.migrations import DrainStatus

logger = logging.getLogger(__name__)

#: Annotation of a cordoned node with the id of the request.
CORDON_ANNOTATION = "loadstream/cordoned-by"
#: Timeout of a request, in seconds.
REQUEST_S = 10.0


async def apply_drain(server: ApiServer, status: DrainStatus) -> None:
    """Cordon or uncordon a node by its drain; a final refusal is logged.

    Raises ApiError, ApiUnreachable or AccessError if another attempt may help.
    """
    if status.dry_run or not NAME.fullmatch(status.node):
        return
    path = f"/api/v1/nodes/{status.node}"
    response = await server.send("GET", path, timeout_s=REQUEST_S)
    change = _change(response.json(), status) if response.ok else None
    if change is not None:
        response = await server.send(
            "PATCH", path, body=change, content_type="application/merge-patch+json",
            timeout_s=REQUEST_S,
        )  # fmt: skip
    if response.ok:
        return
    error = response.error()
    if error.status >= 500 or error.status in (409, 429):
        raise error
    if not is_not_found(error):
        logger.warning(
            "node %s is %s, but its cordon was not changed: %s; the role loadstream-evict needs get "
            "and patch of nodes; --no-cordon turns cordons off",
            status.node, status.phase, error,
        )  # fmt: skip


def _change(node: dict[str, Any], status: DrainStatus) -> dict[str, Any] | None:
    """Return the patch for a drain; None: nothing changes."""
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
