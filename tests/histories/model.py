"""What is known of each cluster from the inputs and outputs of the cluster stage alone.

The model is careful: after an input of which the effect is not certain (a full list, another
policy) it forgets what may have changed. So it may miss a fault, but what it objects to is one.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.base.quantities import parse_amounts
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import PlacementDecision, SchedulingRequest
from schemas.messages.lists import ListEnd
from schemas.messages.migrations import LIVE, MigrationStatus
from schemas.messages.nodes import NodeState
from schemas.messages.objects import DisruptionBudget
from schemas.messages.pods import Pod, PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import PoolRound, RebalanceRound
from schemas.policy import Policy, read_policy
from streams.placement.registry import KNOWN
from streams.pods.kind import compute_demand

Amounts = Mapping[str, int]


@dataclass(slots=True)
class ClusterModel:
    """One cluster."""

    allocatable: dict[str, Amounts] = field(default_factory=dict)
    """By node."""
    requests: dict[str, Amounts] = field(default_factory=dict)
    """Resources that each pod asks for."""
    reserved: dict[str, PlacementDecision] = field(default_factory=dict)
    """The decision of each placed pod whose reservation or binding is certain."""
    running: dict[str, Pod] = field(default_factory=dict)
    """Pods that were reported on a node."""
    waiting: set[str] = field(default_factory=set)
    """Pods whose requests have no final answer."""
    refused: set[str] = field(default_factory=set)
    """Pods whose newest request was refused for good."""
    commands: dict[str, EvictionCommand] = field(default_factory=dict)
    """The command of each pod that may still be carried out."""
    command_times_ms: deque[int] = field(default_factory=lambda: deque(maxlen=64))
    """When commands were given under this policy."""
    migrations: dict[str, MigrationStatus] = field(default_factory=dict)
    """Migrations that passed arbitration under this policy and go on."""
    begun: set[str] = field(default_factory=set)
    """Ids of migrations that have passed arbitration under any policy."""
    finished: set[str] = field(default_factory=set)
    """Ids of migrations that have succeeded, failed or were aborted."""
    budgets: dict[tuple[str, str], tuple[DisruptionBudget, set[str]]] = field(default_factory=dict)
    """Disruption budgets, and the pods that got a command since the status of the budget."""
    commands_of: Counter[str] = field(default_factory=Counter)
    """Number of commands of each migration."""
    hot_rounds: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)
    """By pool: for how many rounds each node has been hot in each phase. Only pools of which all
    nodes were judged at once under this policy."""
    policy: Policy = field(default_factory=Policy)
    paused: bool = False

    def filters_by(self, plugin: str) -> bool:
        return any(entry.name == plugin for entry in self.policy.plugins.filter)

    def get_pods_on(self, node: str) -> dict[str, Amounts]:
        """Return the resources of the pods that are certain to be on a node, by uid."""
        pods = {
            uid: compute_demand(pod).requests
            for uid, pod in self.running.items()
            if pod.node == node
        }
        placed = {
            uid: self.requests[uid] for uid, hold in self.reserved.items() if hold.node == node
        }
        return pods | placed

    def get_budgets(self, uid: str) -> Iterator[tuple[DisruptionBudget, set[str]]]:
        """Yield the budgets that cover a pod, as `budgets` has them."""
        pod = self.running.get(uid)
        if pod is None:
            return
        for budget, commanded in self.budgets.values():
            selector = budget.selector
            covers = selector is not None and selector.matches(pod.labels)
            if covers and budget.namespace == pod.namespace:
                yield budget, commanded

    # --- inputs -----------------------------------------------------------------------------------

    def apply_input(self, topic: str, message: Any) -> None:
        match message:
            case NodeState():
                self._apply_node(message)
            case PodLifecycle():
                self._apply_pod(message)
            case SchedulingRequest() if message.withdrawn:
                self.reserved.pop(message.pod.uid, None)
                self.waiting.discard(message.pod.uid)
            case SchedulingRequest():
                uid = message.pod.uid
                if uid not in self.reserved:
                    self.requests[uid] = compute_demand(message.pod).requests
                self.waiting.add(uid)
                self.refused.discard(uid)
            case DisruptionBudget():
                key = message.namespace, message.name
                self.budgets[key] = message, set()
                if message.removed:
                    del self.budgets[key]
            case CommandOutcome():
                self._apply_outcome(message)
            case ListEnd() if topic == "pod-lifecycle":
                for mapping in (self.reserved, self.running, self.commands, self.budgets):
                    mapping.clear()
                self.waiting.clear()
            case ListEnd():
                self.allocatable.clear()
                self.reserved.clear()
            case PolicyRecord():
                self.policy, self.paused = read_policy(message.document, KNOWN), message.paused
                self.reserved.clear()
                self.command_times_ms.clear()
                self.migrations.clear()
                self.hot_rounds.clear()

    def _apply_node(self, state: NodeState) -> None:
        for uid in [uid for uid, hold in self.reserved.items() if hold.node == state.node]:
            del self.reserved[uid]
        if state.event == "removed":
            self.allocatable.pop(state.node, None)
        else:
            self.allocatable[state.node] = parse_amounts(state.allocatable)

    def _apply_pod(self, lifecycle: PodLifecycle) -> None:
        pod = lifecycle.pod
        is_over = lifecycle.event in ("deleted", "finished") or pod.phase in ("Succeeded", "Failed")
        self.running.pop(pod.uid, None)
        if not is_over and pod.node is not None:
            self.running[pod.uid] = pod
        if is_over or pod.node is not None:
            self.waiting.discard(pod.uid)
            self.reserved.pop(pod.uid, None)
        command = self.commands.get(pod.uid)
        if command is not None and (is_over or pod.node != command.node):
            del self.commands[pod.uid]

    def _apply_outcome(self, outcome: CommandOutcome) -> None:
        uid = outcome.pod.uid
        if outcome.command == "bind":
            placed = self.reserved.get(uid)
            is_current = placed is not None and placed.decision_id == outcome.command_id
            if outcome.pod_gone or (is_current and outcome.result != "done"):
                self.reserved.pop(uid, None)
            if outcome.pod_gone or outcome.result == "dry":
                self.waiting.discard(uid)
        command = self.commands.get(uid)
        if outcome.pod_gone or (command and command.command_id == outcome.command_id):
            self.commands.pop(uid, None)

    def expire(self, now_ms: int) -> None:
        over = [uid for uid, command in self.commands.items() if command.expires_at_ms <= now_ms]
        for uid in over:
            del self.commands[uid]

    # --- outputs ----------------------------------------------------------------------------------

    def apply_output(self, message: Any, now_ms: int) -> None:
        match message:
            case PlacementDecision() if message.outcome == "placed":
                self.reserved[message.pod.uid] = message
            case PlacementDecision():
                self.reserved.pop(message.pod.uid, None)
                if message.outcome in ("refused", "withdrawn"):
                    self.waiting.discard(message.pod.uid)
                if message.outcome == "refused":
                    self.refused.add(message.pod.uid)
            case EvictionCommand():
                self.commands[message.pod.uid] = message
                for _, commanded in self.get_budgets(message.pod.uid):
                    commanded.add(message.pod.uid)
                self.command_times_ms.append(now_ms)
                self.commands_of[message.migration_id or ""] += 1
            case MigrationStatus():
                if message.phase == "Running" and not message.dry_run:
                    self.migrations[message.migration_id] = message
                    self.begun.add(message.migration_id)
                elif message.phase not in LIVE:
                    self.migrations.pop(message.migration_id, None)
                    self.finished.add(message.migration_id)
            case RebalanceRound():
                for pool in message.pools:
                    self._apply_pool(pool)

    def _apply_pool(self, pool: PoolRound) -> None:
        counts: dict[tuple[str, str], int] = {
            (hot.node, hot.phase): hot.abnormal_rounds for hot in pool.hot
        }
        if not pool.nodes["skipped"] and sum(pool.nodes.values()) == len(self.allocatable):
            self.hot_rounds[pool.pool] = counts
        elif pool.pool in self.hot_rounds:
            self.hot_rounds[pool.pool] |= counts


class Model:
    """All clusters of the partition."""

    def __init__(self) -> None:
        self.clusters: dict[str, ClusterModel] = {}
        self.now_ms = 0
        self.ids: set[str] = set()
        """Ids of all decisions and commands."""

    def get(self, cluster: str) -> ClusterModel:
        if cluster not in self.clusters:
            self.clusters[cluster] = ClusterModel()
        return self.clusters[cluster]

    def apply_input(self, topic: str, message: Any) -> None:
        if isinstance(message, ClockTick):
            self.now_ms = max(self.now_ms, message.now_ms)
            for cluster in self.clusters.values():
                cluster.expire(self.now_ms)
        elif message is not None:
            self.get(message.cluster).apply_input(topic, message)

    def apply_output(self, message: Any) -> None:
        if isinstance(message, PlacementDecision):
            self.ids.add(message.decision_id)
        if isinstance(message, EvictionCommand):
            self.ids.add(message.command_id)
        if hasattr(message, "cluster"):
            self.get(message.cluster).apply_output(message, self.now_ms)
