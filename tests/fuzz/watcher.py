"""What must hold of decisions and commands, as one sees it who reads inputs and outputs alone.

The model is careful: of what it cannot know for sure (a full list, another policy) it forgets what
it held, so what it objects to is wrong. It knows nothing of how the stage keeps its state.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from schemas.base.message import EPOCH_MS_MAX
from schemas.base.quantities import amounts
from schemas.messages.clock import ClockTick
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.lists import ListEnd
from schemas.messages.migrations import MigrationStatus
from schemas.messages.nodes import NodeState
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.policy import Policy
from streams.cluster.stage import ClusterStage
from streams.pods.demand import pod_demand
from streams.stage.records import InputRecord
from tests.fuzz.failure import require

#: Commands that are looked back upon for rates.
_COMMANDS = 64


@dataclass(slots=True)
class _Cluster:
    """What is known of one cluster."""

    offers: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """What nodes offer, where it has not become less since pods were put there."""
    asked: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """What pods ask for."""
    booked: dict[str, str] = field(default_factory=dict)
    """Nodes of pods that were placed, and of which nothing else was heard since."""
    alive: dict[str, EvictionCommand] = field(default_factory=dict)
    """Commands that may still be carried out, by pod."""
    commanded_ms: deque[int] = field(default_factory=lambda: deque(maxlen=_COMMANDS))
    """When commands were given under this policy."""
    policy: Policy = field(default_factory=Policy)
    paused: bool = False

    def enforces(self, plugin: str) -> bool:
        """Whether the policy has this filter."""
        return any(each.name == plugin for each in self.policy.plugins.filter)

    def on(self, node: str) -> list[str]:
        """Pods that were put there."""
        return [uid for uid, name in self.booked.items() if name == node]

    def forget_node(self, node: str) -> None:
        """What was put there may be anything now."""
        for uid in self.on(node):
            del self.booked[uid]


class Watcher:
    """Follows the clusters of a partition."""

    def __init__(self, stage: ClusterStage) -> None:
        self._stage = stage
        self._clusters: dict[str, _Cluster] = {}
        self._ids: set[str] = set()
        self._now_ms = 0

    def heard(self, record: InputRecord, message: Any, said: list[Any]) -> None:
        """A record was applied (`message`; none: it was not) and caused what is said."""
        if isinstance(message, ClockTick):
            self._now_ms = max(self._now_ms, message.now_ms)
            for cluster in self._clusters.values():
                _expire(cluster, self._now_ms)
        elif message is not None:
            self._input(self._of(message.cluster), record, message)
        for each in said:
            require(
                each.as_of.offsets.get(record.topic) == record.offset,
                "what is said is not as of the record that caused it",
            )
            cluster = self._of(each.cluster)
            if isinstance(each, PlacementDecision):
                self._decision(cluster, each)
            elif isinstance(each, EvictionCommand):
                self._command(cluster, each)
            elif isinstance(each, MigrationStatus):
                moves = each.target_node != each.source_node
                require(moves, "a migration's target is its source")

    def _of(self, cluster: str) -> _Cluster:
        found = self._clusters.get(cluster)
        if found is None:
            found = self._clusters[cluster] = _Cluster()
        return found

    # --- inputs ---------------------------------------------------------------------------------

    def _input(self, cluster: _Cluster, record: InputRecord, message: Any) -> None:
        match message:
            case NodeState():
                self._node(cluster, message)
            case PodLifecycle():
                self._lifecycle(cluster, message)
            case SchedulingRequest() if not message.withdrawn:
                if message.pod.uid not in cluster.booked:
                    cluster.asked[message.pod.uid] = pod_demand(message.pod).requests
            case SchedulingRequest():
                cluster.booked.pop(message.pod.uid, None)
            case CommandOutcome():
                _outcome(cluster, message)
            case ListEnd():
                cluster.booked.clear()
                if record.topic == "pod-lifecycle":
                    cluster.alive.clear()
                else:
                    cluster.offers.clear()
            case PolicyRecord():
                state = self._stage.clusters[message.cluster]
                cluster.policy, cluster.paused = state.policy, message.paused
                cluster.booked.clear()
                cluster.commanded_ms.clear()

    def _node(self, cluster: _Cluster, state: NodeState) -> None:
        cluster.forget_node(state.node)
        if state.event == "removed":
            cluster.offers.pop(state.node, None)
        else:
            cluster.offers[state.node] = amounts(state.allocatable)

    def _lifecycle(self, cluster: _Cluster, lifecycle: PodLifecycle) -> None:
        pod = lifecycle.pod
        over = lifecycle.event in ("deleted", "finished") or pod.phase in ("Succeeded", "Failed")
        other = pod.node is not None and (
            pod.node != cluster.booked.get(pod.uid)
            or pod_demand(pod).requests != cluster.asked.get(pod.uid)
        )
        if over or other:
            cluster.booked.pop(pod.uid, None)
        command = cluster.alive.get(pod.uid)
        if command is not None and (over or pod.node != command.node):
            del cluster.alive[pod.uid]

    # --- outputs --------------------------------------------------------------------------------

    def _decision(self, cluster: _Cluster, decision: PlacementDecision) -> None:
        uid = decision.pod.uid
        require(decision.decision_id not in self._ids, "two decisions have one id")
        self._ids.add(decision.decision_id)
        if decision.outcome != "placed":
            cluster.booked.pop(uid, None)
            return
        require(not cluster.paused, "a pod is placed while the cluster is paused")
        require(uid not in cluster.booked, "a pod is placed twice", f"{decision.pod}")
        assert decision.node is not None
        drains = self._stage.clusters[decision.cluster].migrations.drains.rows
        held = self._stage.clusters[decision.cluster].inventory.held(uid)
        require(held is not None, "a pod is placed and takes no room")
        if (
            held is not None
            and not held[1].pod.tolerations
            and cluster.enforces("NodeUnschedulable")
        ):
            drain = drains.get(decision.node or "")
            require(
                drain is None or bool(drain.dry_run),
                "a pod is placed on a node that is being drained",
            )
        cluster.booked[uid] = decision.node
        if cluster.enforces("NodeResourcesFit"):
            self._check_room(cluster, decision.node, uid)

    def _check_room(self, cluster: _Cluster, node: str, uid: str) -> None:
        offered = cluster.offers.get(node)
        if offered is None:
            return
        here = cluster.on(node)
        taken = Counter[str]()
        for each in here:
            taken.update(cluster.asked.get(each, {}))
        require(len(here) <= offered.get("pods", 0), "a node has more pods than it takes")
        for resource, amount in cluster.asked.get(uid, {}).items():
            room = offered.get(resource, 0)
            require(
                not amount or taken[resource] <= room,
                "room is booked twice",
                f"{node}: {taken[resource]} {resource} of {room}",
            )

    def _command(self, cluster: _Cluster, command: EvictionCommand) -> None:
        uid, policy = command.pod.uid, cluster.policy
        require(command.command_id not in self._ids, "two commands have one id")
        self._ids.add(command.command_id)
        require(not cluster.paused, "a command is given while the cluster is paused")
        dry = command.dry_run or policy.mode == "enforce"
        require(dry, "a command is not dry while the cluster observes")
        # At the end of the log's time nothing can be later.
        last = command.decided_at_ms == EPOCH_MS_MAX
        lives = command.expires_at_ms > command.decided_at_ms
        require(lives or last, "a command has expired already")
        require(uid not in cluster.alive, "a pod is commanded while a command for it is alive")
        where = self._stage.clusters[command.cluster].inventory.held(uid)
        there = where is not None and where[0].name == command.node
        require(there, "a command is for a pod that is not there")
        cluster.alive[uid] = command
        cluster.commanded_ms.append(self._now_ms)
        self._check_rate(cluster)

    def _check_rate(self, cluster: _Cluster) -> None:
        """No window that ends now has had more than the bucket gives."""
        args = cluster.policy.migration
        per_second = Fraction(str(args.evict_qps))
        # What accrues between two ticks, a second of it at most, is not lost for a small burst.
        burst = max(Fraction(args.evict_burst), per_second)
        for count, start_ms in enumerate(reversed(cluster.commanded_ms), start=1):
            allowed = burst + per_second * Fraction(self._now_ms - start_ms, 1_000)
            require(count <= allowed, "more commands than evictQPS and evictBurst allow")


def _outcome(cluster: _Cluster, outcome: CommandOutcome) -> None:
    uid = outcome.pod.uid
    if outcome.command == "bind":
        if outcome.result != "done":
            cluster.booked.pop(uid, None)
        return
    command = cluster.alive.get(uid)
    if command is not None and command.command_id == outcome.command_id:
        del cluster.alive[uid]


def _expire(cluster: _Cluster, now_ms: int) -> None:
    over = [uid for uid, each in cluster.alive.items() if each.expires_at_ms <= now_ms]
    for uid in over:
        del cluster.alive[uid]
