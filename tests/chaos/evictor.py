"""The evictor and the owners of pods in a chaos run.

A command is carried out once per id, only before it expires, and only on the pod with its uid on its node.
Some commands fail, some are refused, some of the first steps are silently dropped. The owner of an
evicted pod creates another pod, which asks for a node. The outcome, the end of the pod and the new pod are
reported in any order, as a watch does.
"""

import heapq
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from schemas.base.refusals import Refusal
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.migrations import LIVE, MigrationRequest, MigrationStatus
from schemas.messages.pods import Pod, PodLifecycle, PodRef
from schemas.topics.codec import decode, decode_as
from tests.chaos import services
from tests.chaos.plan import NODES_PER_CLUSTER, Fate, Plan
from tests.chaos.services import UserRequest

Send = Callable[[str, BaseModel], Awaitable[None]]
#: An eviction does not start later than this before its command expires.
_MARGIN_MS = 1_000
#: Interval between two reports of nodes.
_REPORTS_S = 1.0
#: Longest time between an eviction and its effects.
_DELAY_S = 0.4


class Evictor:
    """Carries out the commands of all clusters."""

    def __init__(self, plan: Plan, send: Send, ask: Callable[[str, Pod], Awaitable[None]]) -> None:
        """`ask` requests a node for a pod."""
        self._plan, self._send, self._ask = plan, send, ask
        self._answered: set[str] = set()
        self._running: dict[str, dict[str, Pod]] = {cluster: {} for cluster in plan.moving}
        """Pods of services by cluster and uid; those that are evicted are not among them."""
        self._due: list[tuple[float, int, Callable[[], Awaitable[None]]]] = []
        self._count = 0
        self._live: dict[str, MigrationStatus] = {}
        self._drained: set[tuple[str, str]] = set()
        self._began_s = self._reports_s = time.monotonic()
        self._calm = False
        self.step = 0
        """Step of the load that is at hand."""
        self.open = True
        """Commands are carried out."""
        self.executed = 0
        """Pods that were evicted."""

    @property
    def live(self) -> int:
        """Running migrations that are not dry, as known from their states."""
        return sum(not status.dry_run for status in self._live.values())

    @property
    def idle(self) -> bool:
        """Whether all effects of evictions have been sent."""
        return not self._due

    # --- pods -------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Create the services and their first pods."""
        for cluster in self._running:
            for service in range(services.SERVICES):
                await self._send("pod-lifecycle", services.workload(cluster, service))
                for number in range(services.REPLICAS):
                    await self._ask(cluster, services.pod(cluster, service, number))

    async def calm(self) -> None:
        """End all hot nodes and drains."""
        self._calm = True
        for cluster in self._running:
            await self._metrics(cluster, None)
        for cluster, node in sorted(self._drained):
            await self._request(cluster, "undrain", f"undrain-{node}", node=node)
        self._drained.clear()

    async def bound(self, cluster: str, pod: Pod) -> None:
        """Report that a bound pod of a service runs and is ready."""
        runs = pod.model_copy(update={"phase": "Running", "ready": True})
        self._running[cluster][pod.uid] = runs
        await self._send("pod-lifecycle", PodLifecycle(cluster=cluster, event="running", pod=runs))

    async def _metrics(self, cluster: str, hot: int | None) -> None:
        """Send the usage of the nodes of a cluster and the status of its budget."""
        pods = list(self._running[cluster].values())
        app = services.pod(cluster, 0, 0).labels["app"]
        healthy = sum(pod.labels["app"] == app for pod in pods)
        await self._send("pod-lifecycle", services.budget(cluster, healthy))
        for number in range(NODES_PER_CLUSTER):
            node = self._plan.node(cluster, number).node
            here = [pod for pod in pods if pod.node == node]
            metric = services.metric(cluster, node, here, _now_ms(), hot=number == hot)
            await self._send("node-metrics", metric)

    async def work(self) -> None:
        """Send what is due, also without steps of the load, since nodes always report."""
        now_s = time.monotonic()
        if now_s >= self._reports_s:
            self._reports_s = now_s + _REPORTS_S
            hot = None if self._calm else self._plan.hot(now_s - self._began_s)
            for cluster in self._running:
                await self._metrics(cluster, hot)
        while self._due and self._due[0][0] <= time.monotonic():
            await heapq.heappop(self._due)[2]()

    # --- commands ---------------------------------------------------------------------------------

    async def command(self, value: bytes) -> None:
        """Carry out a command, or fail or drop it."""
        command = decode_as(EvictionCommand, value)
        assert not isinstance(command, Refusal), f"a command that cannot be read: {value!r}"
        if command.command_id in self._answered or not self.open:
            return
        self._answered.add(command.command_id)
        pod = self._running[command.cluster].get(command.pod.uid)
        fate = self._plan.eviction(command.command_id, self.step)
        if fate is Fate.SILENT:
            return
        if command.dry_run:
            await self._outcome(command, "dry", "")
        elif command.expires_at_ms < _now_ms() + _MARGIN_MS:
            await self._outcome(command, "expired", "too late")
        elif pod is None or pod.node != command.node:
            await self._outcome(command, "refused", "no pod of this uid is on the node")
        elif fate is Fate.FAILED:
            await self._outcome(command, "failed", "the server did not answer")
        elif fate is Fate.REFUSED:
            await self._outcome(command, "refused", "a disruption budget forbids it")
        else:
            self._evict(command, pod)

    def _evict(self, command: EvictionCommand, pod: Pod) -> None:
        cluster = command.cluster
        del self._running[cluster][pod.uid]
        self.executed += 1
        gone = PodLifecycle(cluster=cluster, event="deleted", pod=pod)
        self._later(f"{pod.uid}/done", lambda: self._outcome(command, "done", ""))
        self._later(f"{pod.uid}/gone", lambda: self._send("pod-lifecycle", gone))
        self._later(f"{pod.uid}/new", lambda: self._ask(cluster, services.replacement(pod)))

    def _later(self, action: str, act: Callable[[], Awaitable[None]]) -> None:
        self._count += 1
        due_s = time.monotonic() + _DELAY_S * self._plan.drawn(action)
        heapq.heappush(self._due, (due_s, self._count, act))

    async def _outcome(self, command: EvictionCommand, result: Any, reason: str) -> None:
        outcome = CommandOutcome(
            command_id=command.command_id,
            cluster=command.cluster,
            command="evict",
            pod=command.pod,
            node=command.node,
            result=result,
            reason=reason,
            happened_at_ms=_now_ms(),
        )
        await self._send("command-outcomes", outcome)

    def status(self, value: bytes) -> None:
        """Take in a new state of a migration."""
        status = decode("status", value)
        if not isinstance(status, MigrationStatus):
            return
        if status.phase in LIVE:
            self._live[status.migration_id] = status
        else:
            self._live.pop(status.migration_id, None)

    # --- what users ask for -----------------------------------------------------------------------

    async def carry_out(self, request: UserRequest) -> None:
        """Send a user's request if there is a suitable pod or node."""
        about: dict[str, Any] | None = None
        if request.action == "migrate":
            pods = self._running[request.cluster]
            about = {"pod": _reference(pods[_pick(list(pods), request.drawn)])} if pods else None
        elif request.action == "abort":
            ids = [
                move.migration_id for move in self._live.values() if move.cluster == request.cluster
            ]
            about = {"migration_id": _pick(ids, request.drawn)} if ids else None
        else:
            node = self._plan.node(request.cluster, int(request.drawn * NODES_PER_CLUSTER)).node
            drains = request.action == "drain"
            (self._drained.add if drains else self._drained.discard)((request.cluster, node))
            about = {"node": node}
        if about is not None:
            await self._request(
                request.cluster, request.action, request.request_id, mode=request.mode, **about
            )

    async def _request(self, cluster: str, action: Any, request_id: str, **about: Any) -> None:
        request = MigrationRequest(
            cluster=cluster,
            action=action,
            request_id=request_id,
            requested_at_ms=_now_ms(),
            **about,
        )
        await self._send("migration-requests", request)


def _reference(pod: Pod) -> PodRef:
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _pick(among: list[str], drawn: float) -> str:
    return among[int(drawn * len(among))]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
