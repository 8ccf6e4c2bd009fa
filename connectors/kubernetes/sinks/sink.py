"""Binds, evicts and explains on a real API server.

    bind      binding, with the decision's id in the pod; Event `Scheduled`
    evict     eviction, with Events on the pod and on its controller
    explain   condition and Event of a pod without a node

All requests go through one throttle, which follows what the API server bears. What users read is
written in the background: `close` drops what still waits.
"""

from typing import ClassVar

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.answers import again_in_s
from connectors.kubernetes.sinks.binding import Binder
from connectors.kubernetes.sinks.events import Events, Regarding
from connectors.kubernetes.sinks.eviction import Evictor
from connectors.kubernetes.sinks.explanation import Explanations
from connectors.kubernetes.sinks.pods import Seen
from connectors.kubernetes.sinks.throttle import Throttle
from connectors.ports.sink import Attempt, Sink
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.pods import PodRef


class KubernetesSink(Sink):
    """The sink of one API server."""

    name: ClassVar[str] = "kubernetes"

    def __init__(self, server: ApiServer) -> None:
        self.throttle = Throttle(server)
        self.events = Events(self.throttle)
        self.explanations = Explanations(self.throttle, self.events)
        self._binder = Binder(self.throttle)
        self._evictor = Evictor(self.throttle)

    async def bind(self, decision: PlacementDecision) -> Attempt:
        """Bind a pod; what went wrong on the way is an answer, too."""
        pod = decision.pod
        try:
            answer = await self._binder.bind(decision)
        except (ApiError, ApiUnreachable, AccessError) as error:
            answer = _failed(error)
        if answer.result == "done":
            self.explanations.settled(pod)
            text = f"Successfully assigned {pod.namespace}/{pod.name} to {decision.node}"
            self.events.record(_pod(pod), "Scheduled", text, minor=True)
        elif answer.again_in_s is not None:
            self.explanations.nominate(decision)
        return answer

    async def evict(self, command: EvictionCommand) -> Attempt:
        """Evict a pod; what went wrong on the way is an answer, too."""
        try:
            answer, seen = await self._evictor.evict(command)
        except (ApiError, ApiUnreachable, AccessError) as error:
            return _failed(error)
        if seen is not None and seen.uid == command.pod.uid:
            self._tell(command, answer, seen)
        return answer

    async def explain(self, decision: PlacementDecision) -> None:
        """Show in the pod why it has no node; it is written later."""
        self.explanations.explain(decision)

    async def close(self) -> None:
        """Drop explanations and events that were not written yet, as at the end of a turn.

        The sink can be used again.
        """
        await self.explanations.close()
        await self.events.close()

    def _tell(self, command: EvictionCommand, answer: Attempt, seen: Seen) -> None:
        """Events on the pod, and on its controller if it leaves."""
        pod = command.pod
        if answer.result == "refused":
            text = f"loadstream may not evict the pod: {answer.reason}"
            self.events.record(_pod(pod), "EvictionRefused", text, type="Warning")
        if answer.result != "done":
            return
        soft = command.policy == "SoftEviction"
        reason = "EvictionRequested" if soft else "Evicted"
        done = "Asked to move by loadstream" if soft else "Evicted by loadstream"
        text = f"{done} from node {command.node}: {command.reason}"
        if answer.reason:  # it goes on in the background, or its answer was lost
            text = f"{text} ({answer.reason})"
        self.events.record(_pod(pod), reason, text)
        owner = seen.controller
        if owner is not None and owner.get("kind") != "Node":  # mirror pods: of no namespace
            about = Regarding(
                str(owner.get("apiVersion")), str(owner.get("kind")), pod.namespace,
                str(owner.get("name")), str(owner.get("uid")),
            )  # fmt: skip
            self.events.record(about, reason, f"Pod {pod.name}: {text}")


def _pod(pod: PodRef) -> Regarding:
    return Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)


def _failed(error: ApiError | ApiUnreachable | AccessError) -> Attempt:
    """Nothing was done; it may be tried again unless the server will say the same."""
    if not isinstance(error, ApiError):
        return Attempt("failed", str(error), again_in_s=0.0)
    final = error.status < 500 and error.status != 429
    return Attempt("failed", str(error), again_in_s=None if final else again_in_s(error))
