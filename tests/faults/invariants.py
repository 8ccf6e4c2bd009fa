"""What must hold after every step, and in the end, whatever went wrong.

- No pod is placed twice, no node over-reserved, no limit exceeded (`watching`, and here).
- No request is forgotten: what a worker has read waits, has room, or has a last answer.
- Each command has at most one effect, and in the end an outcome, or it has expired.
- State equals the fold of the journal; what was restored equals what was not (`folds`).
- In the end, when nothing fails any more: what is known is what there is, and no pod waits that a
  node would take.
"""

from schemas.messages.requests import SchedulingRequest
from schemas.topics.codec import decode
from simulation.closed_loop.scenario import CLUSTER
from simulation.closed_loop.world import World
from streams.cluster.state import ClusterState
from tests.faults.folds import JournalFold, RowsFold
from tests.faults.log import Log
from tests.faults.sinks import PARTITION, FaultySink
from tests.faults.watching import Watching
from tests.faults.workers import AggregateWorker, ClusterWorker
from tests.fuzz.failure import require
from tests.streams.cluster.oracle import verdict


class Invariants:
    """Looks at everything there is."""

    def __init__(
        self,
        world: World,
        log: Log,
        sink: FaultySink,
        deciders: list[ClusterWorker],
        aggregates: list[AggregateWorker],
    ) -> None:
        self._world, self._log, self._sink = world, log, sink
        self._worker = deciders[PARTITION]
        self.watching = Watching(world, log)
        self._folds: list[JournalFold | RowsFold] = [
            *(JournalFold(worker, log) for worker in deciders),
            *(RowsFold(worker) for worker in aggregates),
        ]
        self._requests: dict[str, int] = {}
        """Offset of the newest request of each pod."""
        self._read = 0

    @property
    def _state(self) -> ClusterState | None:
        return self._worker.stage.clusters.get(CLUSTER)

    def step(self) -> None:
        """After every step."""
        self.watching.step()
        self._check_effects()
        self._check_room()
        self._check_requests()

    def fold(self, *, rest: bool) -> None:
        """At random steps."""
        for fold in self._folds:
            fold.check(rest=rest)

    def _check_effects(self) -> None:
        sink = self._sink
        for command_id, count in sink.effects.items():
            require(count == 1, "a command has two effects", command_id)
        for uid, count in sink.bound.items():
            require(count == 1, "a pod is bound twice", uid)
        require(not sink.overbooked, "room is booked twice", "; ".join(sink.overbooked))

    def _check_room(self) -> None:
        """No node has more reserved on it than it takes, by what the worker knows."""
        if self._state is None:
            return
        for node in self._state.inventory.nodes.values():
            for resource, amount in node.requested.items():
                require(
                    node.state is None or amount <= node.allocatable.get(resource, 0),
                    "a node is over-reserved",
                    f"{node.name}: {amount} {resource}",
                )

    def _check_requests(self) -> None:
        """Pods that ask for a node are known, as far as their requests have been applied."""
        for record in self._log.since("scheduling-requests", PARTITION, self._read):
            self._read = record.offset + 1
            request = decode("scheduling-requests", record.value)
            assert isinstance(request, SchedulingRequest)
            self._requests[request.pod.uid] = record.offset
        state = self._state
        applied = self._worker.stage.positions.get("scheduling-requests", -1)
        for uid in self._world.cluster.asking:
            if state is None or self._requests.get(uid, applied + 1) > applied:
                continue
            known = state.placement.pending.get(uid) or state.inventory.held(uid)
            require(known is not None or uid in self.watching.finals, "a request is forgotten", uid)

    def end(self) -> None:
        """When all has been quiet for long."""
        state = self._state
        require(state is not None, "the cluster is not known")
        assert state is not None
        watching, cluster = self.watching, self._world.cluster
        there = {
            running.pod.uid: machine.name
            for machine in cluster.machines
            for running in cluster.kubelets.pods_on(machine.name)
            if not running.ended
        }
        known = dict(state.inventory.where)
        require(known == there, "what is known is not what there is", f"{_differ(known, there)}")
        waiting = {each.request.pod.uid: each for each in state.placement.pending}
        missing = set(cluster.asking) ^ set(waiting)
        require(not missing, "a request is forgotten", f"{sorted(missing)}")
        for uid, each in waiting.items():
            best = verdict(state.policy, state.inventory, each.kind).best
            require(best is None, "a pod waits that a node would take", f"{uid}: node {best}")
        now_ms = state.inventory.now_ms
        for command_id, command in watching.commands.items():
            answered = command_id in watching.outcomes or command.expires_at_ms <= now_ms
            require(answered, "a command has neither an outcome nor expired", command_id)
        for row in state.migrations.lifecycle.registry:
            require(row.deadline_ms > now_ms, "a migration does not end", f"{row}")
        for decisions in watching.placed.values():
            for decision in decisions:
                answered = (
                    decision.decision_id in watching.outcomes
                    or (decision.expires_at_ms or 0) <= now_ms
                    or decision.pod.uid in there
                )
                require(answered, "a command has neither an outcome nor expired", f"{decision.pod}")


def _differ(known: dict[str, str], there: dict[str, str]) -> list[tuple[str, str, str]]:
    return [
        (uid, known.get(uid, "nowhere"), there.get(uid, "nowhere"))
        for uid in sorted(known.keys() | there.keys())
        if known.get(uid) != there.get(uid)
    ][:5]
