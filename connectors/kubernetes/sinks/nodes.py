"""Whether a node exists: the API server accepts a binding to one that does not.

Such a pod would wait for ever, or be deleted by Kubernetes' garbage collection. A node that was
seen lately is not asked about again, so the check costs little: one small request per node and
`SEEN_S`. A node that is deleted within that time is not noticed here, nor would it be by
kube-scheduler; its pods are collected with those that ran there.
"""

import asyncio
import time

from connectors.kubernetes.api.errors import ApiUnreachable
from connectors.kubernetes.sinks.answers import absent
from connectors.kubernetes.sinks.pods import NAME
from connectors.kubernetes.sinks.throttle import Throttle

#: Time for which a node that was seen counts as being there, in seconds.
SEEN_S = 60.0
#: Nodes remembered at most: more than Kubernetes supports in one cluster.
NODES_MAX = 20_000
#: Time that the question may take, in seconds; without an answer the node counts as being there.
ASK_S = 5.0


class Nodes:
    """Remembers which nodes were there."""

    def __init__(self, server: Throttle) -> None:
        self._server = server
        self._seen_at_s: dict[str, float] = {}
        self._asked: dict[str, asyncio.Task[bool]] = {}

    async def missing(self, name: str) -> bool:
        """The API server says that there is no such node; not if it says nothing."""
        seen_at_s = self._seen_at_s.get(name)
        if seen_at_s is not None and time.monotonic() - seen_at_s < SEEN_S:
            return False
        if not NAME.fullmatch(name):
            return True
        if name not in self._asked:
            self._asked[name] = asyncio.create_task(self._ask(name))
        return await asyncio.shield(self._asked[name])

    async def _ask(self, name: str) -> bool:
        try:
            # Any version will do: it is answered from the server's memory.
            response = await self._server.send(
                "GET", f"/api/v1/nodes/{name}", query={"resourceVersion": "0"}, timeout_s=ASK_S
            )
        except ApiUnreachable:
            return False
        finally:
            del self._asked[name]
        self._seen_at_s.pop(name, None)
        if absent(error := response.error()):
            return True
        if error.status in (404, 429) or error.status >= 500:
            return False  # it says nothing about the node, or a proxy before it answers
        self._seen_at_s[name] = time.monotonic()
        if len(self._seen_at_s) > NODES_MAX:
            del self._seen_at_s[next(iter(self._seen_at_s))]
        return False
