"""The sink of a real API server.

    bind      a binding with the decision's id, and Event `Scheduled`
    evict     an eviction, and Events on the pod and on its controller
    explain   condition and Event of a pod without a node

Events and explanations are optional writes: `close` drops waiting ones.
"""

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.answers import retry_pause_s
from connectors.kubernetes.sinks.binding import Binder
from connectors.kubernetes.sinks.events import Events, refer_to_pod
from connectors.kubernetes.sinks.eviction import Evictor
from connectors.kubernetes.sinks.explanation import Explanations
from connectors.kubernetes.sinks.pods import LivePod
from connectors.ports.sink import Attempt, Sink
from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision


class KubernetesSink(Sink):
    def __init__(self, server: ApiServer) -> None:
        self.events = Events(server)
        self.explanations = Explanations(server, self.events)
        self._binder = Binder(server)
        self._evictor = Evictor(server)

    async def bind(self, decision: PlacementDecision) -> Attempt:
        """Bind a pod; errors of the API server are results, too."""
        pod = decision.pod
        try:
            answer = await self._binder.bind(decision)
        except (ApiError, ApiUnreachable, AccessError) as error:
            answer = _failed(error)
        if answer.result == "done":
            self.explanations.forget(pod)
            text = f"Successfully assigned {pod.namespace}/{pod.name} to {decision.node}"
            self.events.record(refer_to_pod(pod), "Scheduled", text, minor=True)
        return answer

    async def evict(self, command: EvictionCommand) -> Attempt:
        """Evict a pod; errors of the API server are results, too."""
        try:
            answer, live = await self._evictor.evict(command)
        except (ApiError, ApiUnreachable, AccessError) as error:
            return _failed(error)
        if live is not None:
            self._record_events(command, answer, live)
        return answer

    async def explain(self, decision: PlacementDecision) -> None:
        self.explanations.explain(decision)

    async def close(self) -> None:
        """Drop waiting explanations and events; the sink can be used again."""
        await self.explanations.close()
        await self.events.close()

    def _record_events(self, command: EvictionCommand, answer: Attempt, live: LivePod) -> None:
        """Record events on the pod, and on its controller if it was evicted."""
        pod = command.pod
        if answer.result == "refused":
            text = f"loadstream may not evict the pod: {answer.reason}"
            self.events.record(refer_to_pod(pod), "EvictionRefused", text, type="Warning")
        if answer.result != "done":
            return
        soft = command.policy == "SoftEviction"
        reason = "EvictionRequested" if soft else "Evicted"
        done = "Asked to move by loadstream" if soft else "Evicted by loadstream"
        text = f"{done} from node {command.node}: {command.reason}"
        if answer.reason:  # the eviction continues in the background, or its answer was lost
            text = f"{text} ({answer.reason})"
        self.events.record(refer_to_pod(pod), reason, text)
        owner = live.controller
        if owner is not None and owner.get("kind") != "Node":  # nodes own mirror pods
            fields = ("apiVersion", "kind", "name", "uid")
            about = {"namespace": pod.namespace, **{name: str(owner.get(name)) for name in fields}}
            self.events.record(about, reason, f"Pod {pod.name}: {text}")


def _failed(error: ApiError | ApiUnreachable | AccessError) -> Attempt:
    """Return the result of an error; the command is repeated unless the error is permanent."""
    if not isinstance(error, ApiError):
        return Attempt("failed", str(error), again_in_s=0.0)
    final = error.status < 500 and error.status != 429
    return Attempt("failed", str(error), again_in_s=None if final else retry_pause_s(error))
