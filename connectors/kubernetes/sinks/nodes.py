"""Check that a node exists, because the API server accepts bindings to missing nodes.

A pod on a missing node would wait forever, or be deleted by Kubernetes' garbage collection. An existing
node is not checked again for `SEEN_S`. If it is deleted within this time, its new pods are collected with
those that ran there; kube-scheduler does not notice it, either.
"""

import time

from connectors.kubernetes.api.errors import ApiUnreachable
from connectors.kubernetes.sinks.answers import is_not_found
from connectors.kubernetes.sinks.pods import NAME
from connectors.kubernetes.sinks.throttle import Throttle

#: How long an existing node is not checked again, in seconds.
SEEN_S = 60.0
#: Most remembered nodes: more than Kubernetes supports in one cluster.
NODES_MAX = 20_000
#: Timeout of a check, in seconds; without an answer the node counts as existing.
ASK_S = 5.0


class Nodes:
    """Remembers existing nodes."""

    def __init__(self, server: Throttle) -> None:
        self._server = server
        self._seen_at_s: dict[str, float] = {}

    async def is_missing(self, name: str) -> bool:
        """Tell whether the API server answers that there is no such node."""
        seen_at_s = self._seen_at_s.get(name)
        if seen_at_s is not None and time.monotonic() - seen_at_s < SEEN_S:
            return False
        if not NAME.fullmatch(name):
            return True
        try:
            # The server answers any version from its memory.
            response = await self._server.send(
                "GET", f"/api/v1/nodes/{name}", query={"resourceVersion": "0"}, timeout_s=ASK_S
            )
        except ApiUnreachable:
            return False
        self._seen_at_s.pop(name, None)
        if is_not_found(error := response.error()):
            return True
        if error.status in (404, 429) or error.status >= 500:
            return False  # unknown: the server is overloaded, or a proxy answered
        self._seen_at_s[name] = time.monotonic()
        if len(self._seen_at_s) > NODES_MAX:
            del self._seen_at_s[next(iter(self._seen_at_s))]
        return False
