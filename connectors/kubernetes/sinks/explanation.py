"""Why a pod has no node, where its users look: its condition `PodScheduled`, and an Event.

`kubectl describe pod` shows both, in the words of kube-scheduler:

    0/200 nodes are available: 120 Insufficient cpu, 80 node(s) were unschedulable.

Written in the background, at most one write a pod that waits: a cluster of 10,000 pods without a
node does not flood the API server, and a newer explanation takes the place of an older one. The pod
is looked at first: one that has got a node meanwhile, terminates, or says the same already is left
alone, and the write has its resource version as precondition.

A pod whose node is chosen and whose binding has to be tried again says so in `nominatedNodeName`:
room is held for it there. Where the first attempt succeeds nothing is nominated, since that would
double the writes for a state of a few milliseconds.
"""

from functools import partial
from typing import Any

from connectors.kubernetes.sinks.background import Background
from connectors.kubernetes.sinks.events import Events, Regarding, rfc3339
from connectors.kubernetes.sinks.pods import Seen, gone, look, path
from connectors.kubernetes.sinks.throttle import Throttle
from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import PodRef

#: Pods explained a second: with a look and a write each, what kube-scheduler's client is allowed.
PER_S = 25.0
#: Pods that wait for their explanation at most; one takes about 2 KB.
WAITING_MAX = 20_000
#: Explanations that are remembered, so that the same is not said again.
SAID_MAX = 50_000
#: Attempts at a pod that is changed all the time.
ATTEMPTS_MAX = 3
#: Longest text of a condition: decisions name at most 20 reasons.
TEXT_MAX = 4_096
#: Time that a write may take, in seconds.
WRITE_S = 15.0


def sentence(decision: PlacementDecision) -> str:
    """The reasons of a decision without a node, counted as kube-scheduler does."""
    if decision.outcome == "expired":
        return f"the pod was placed, but not bound in time: {decision.message}"[:TEXT_MAX]
    counts = [(count.nodes, count.reason) for count in decision.reasons]
    others = sum(decision.refused_by.values()) - sum(nodes for nodes, _ in counts)
    if counts and others > 0:
        counts.append((others, "node(s) for other reasons"))
    if counts:
        why = ", ".join(f"{nodes} {reason}" for nodes, reason in counts)
        return f"0/{decision.nodes} nodes are available: {why}."[:TEXT_MAX]
    return (decision.message or "no nodes available to schedule pods")[:TEXT_MAX]


class Explanations:
    """Conditions and nominated nodes of the pods of one cluster."""

    def __init__(self, server: Throttle, events: Events) -> None:
        self.background = Background(PER_S, WAITING_MAX)
        self._server = server
        self._events = events
        self._said: dict[str, str] = {}
        """The sentence of each pod that was explained, by uid."""

    def explain(self, decision: PlacementDecision) -> None:
        """Say later why a pod has no node, unless it was said."""
        uid = decision.pod.uid
        if decision.outcome == "withdrawn":
            self.settled(decision.pod)
            return
        text = sentence(decision)
        if self._said.pop(uid, None) != text and not self.background.put(
            uid, partial(self._write, decision, text)
        ):
            return
        self._said[uid] = text
        if len(self._said) > SAID_MAX:
            del self._said[next(iter(self._said))]

    def nominate(self, decision: PlacementDecision) -> None:
        """Say later that room is held for a pod on a node, if it is not bound until then."""
        self._said.pop(decision.pod.uid, None)
        self.background.put(decision.pod.uid, partial(self._nominate, decision))

    def settled(self, pod: PodRef) -> None:
        """A pod needs no explanation any more."""
        self._said.pop(pod.uid, None)
        self.background.forget(pod.uid)

    async def close(self) -> None:
        """Drop what waits."""
        await self.background.close()

    async def _write(self, decision: PlacementDecision, text: str) -> None:
        pod = decision.pod
        try:
            said = await self._patch(pod, partial(_unscheduled, decision, text))
        except BaseException:
            self._said.pop(pod.uid, None)  # the next decision says it again
            raise
        if said:
            about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
            self._events.record(about, "FailedScheduling", text, type="Warning")

    async def _nominate(self, decision: PlacementDecision) -> None:
        await self._patch(decision.pod, partial(_nominated, decision.node))

    async def _patch(self, pod: PodRef, change: Any) -> bool:
        """Change the status of a pod that waits for a node; False: nothing is to be said."""
        for _ in range(ATTEMPTS_MAX):
            seen = await look(self._server, pod)
            if gone(pod, seen) is not None or seen is None:
                return False
            status = None if seen.node or seen.terminates or seen.gates else change(seen)
            if status is None:
                return False
            body = {
                "metadata": {"uid": seen.uid, "resourceVersion": seen.version},
                "status": status,
            }
            response = await self._server.send(
                "PATCH", f"{path(pod)}/status", body=body,
                content_type="application/strategic-merge-patch+json", timeout_s=WRITE_S,
            )  # fmt: skip
            if response.ok:
                return True
            if response.status != 409:
                break
        raise response.error()


def _unscheduled(decision: PlacementDecision, text: str, seen: Seen) -> dict[str, Any] | None:
    """The status that explains it; None: it is there already."""
    conditions = seen.status.get("conditions") or ()
    found: dict[str, Any] = next(
        (each for each in conditions if each.get("type") == "PodScheduled"), {}
    )
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text,
    }  # fmt: skip
    same = all(found.get(name) == value for name, value in condition.items())
    if same and not seen.status.get("nominatedNodeName"):
        return None
    if found.get("status") != "False" and decision.decided_at_ms:
        condition["lastTransitionTime"] = rfc3339(decision.decided_at_ms)
    return {"conditions": [condition], "nominatedNodeName": None}


def _nominated(node: str | None, seen: Seen) -> dict[str, Any] | None:
    same = seen.status.get("nominatedNodeName") == node
    return None if same else {"nominatedNodeName": node}
