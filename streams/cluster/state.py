"""The state of one cluster, which applies records and decides.

The state is a fold: state and results depend only on the applied records and their order. A record that
cannot be applied results in a `Refusal` and changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.base.capacity import ZERO_POINT, is_zero_point
from schemas.base.refusals import Refusal, check_not_future
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import MigrationRequest
from schemas.messages.nodes import NodeState
from schemas.messages.objects import (
    DisruptionBudget,
    NamespaceState,
    PriorityClassState,
    WorkloadState,
)
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.policy import Policy, PolicyError, read_policy
from streams.cluster.inventory_rows import NodeRows, PodRows
from streams.cluster.list_cleanup import ListCleanup
from streams.cluster.placement import Placement
from streams.cluster.rebalancer import Rebalancer
from streams.cluster.request_rows import GroupRows, RequestRows
from streams.cluster.usage_rows import FleetUsageRows, PodUsageRows
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import PodChange, apply_lifecycle, find_pod_change
from streams.migration.migrations import Migrations
from streams.moves.memory import MoveMemory
from streams.placement.filters.unsupported import find_exceeded_limit
from streams.placement.placer import Exclusions, Placer
from streams.placement.registry import KNOWN
from streams.risk.lifetimes import check_lifetime_columns
from streams.stage.cause import Cause, build_as_of
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows
from streams.usage.metric import check_amounts, check_capacity

#: Most nodes of one cluster.
NODES_MAX = 50_000
#: Most pods held in one cluster.
PODS_MAX = 1_000_000
#: Log time after which the same collect policy is sent again. Topic `node-usage` keeps records for days, so
#: an aggregate stage that starts without rows still finds the policy there.
COLLECT_REPEAT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a record in its topic, and of all inputs of the partition."""

    topic: str
    partition: int
    offset: int
    offsets: dict[str, int]
    """Offset of the last applied record of each input topic, including this record."""


Result = Sequence[OutputMessage] | Refusal


class ClusterState:
    """Everything that is known about one cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.policy_record: PolicyRecord | None = None
        self.policy_changed = False
        """Whether the row of table `cluster_policies` must be written."""
        self.inventory = Inventory(Policy())
        self.memory = MoveMemory(cluster, self.policy)
        placer = Placer(self.inventory)
        exclusions = Exclusions(self.memory.moves, self.inventory)
        self.migrations = Migrations(cluster, self.inventory, placer, exclusions, self.memory)
        self.placement = Placement(self.inventory, placer, exclusions, self.migrations)
        self.rebalancer = Rebalancer(
            cluster, self.inventory, self.memory, self.migrations, exclusions
        )
        self._list_cleanup = ListCleanup(
            self.inventory, self.placement, self.migrations, self.memory, self.rebalancer.balancer
        )
        self.inventory_rows: tuple[TrackedRows[Any, Any], ...] = (
            NodeRows(cluster, self.inventory),
            PodRows(self.inventory),
        )
        self._usage_rows = (
            PodUsageRows(cluster, self.inventory),
            FleetUsageRows(cluster, self.inventory),
        )
        self.request_rows: tuple[TrackedRows[Any, Any], ...] = (
            RequestRows(cluster, self.inventory, self.placement),
            GroupRows(cluster, self.inventory, self.placement),
        )
        self.collect_sent_at_ms = 0
        """Log time of the last collect policy that was sent; 0 before the first clock tick."""
        self.written_row = b""
        """The last written row of kind `clusters`; empty if there is none."""

    @property
    def is_empty(self) -> bool:
        """Whether the state equals that of a new cluster."""
        return (
            self.policy_record is None
            and not len(self.placement.pending)
            and self.inventory.is_empty
            and not any(map(len, self.other_rows))
        )

    @property
    def other_rows(self) -> tuple[TrackedRows[Any, Any], ...]:
        """All rows but those of nodes, pods and requests."""
        return (
            *self.memory.tracked_rows,
            *self.migrations.tracked_rows,
            *self.rebalancer.balancer.tracked_rows,
            *self._usage_rows,
        )

    @property
    def tracked_rows(self) -> tuple[TrackedRows[Any, Any], ...]:
        """All rows but those of kinds `clusters` and `cluster_policies`, in the order of writing and restoring."""
        return (*self.inventory_rows, *self.other_rows, *self.request_rows)

    def apply(self, message: Any, position: Position) -> Result:
        """Apply one record; return the messages that it causes, or a refusal."""
        if isinstance(message, ClockTick):
            with self.inventory.numbers.number_on_first_use():
                result = self._apply_tick(message, position)
            self.placement.note_openings()
        else:
            self.inventory.numbers.begin()
            result = self._apply(message, position)
            if self.inventory.openings and not isinstance(result, Refusal):
                result = [*result, *self.placement.use_openings(self._cause(position))]
        self.placement.placer.refresh()
        reports = self.migrations.lifecycle.take_messages()
        return [*result, *reports] if reports and not isinstance(result, Refusal) else result

    def _apply(self, message: Any, position: Position) -> Result:
        match message:
            case NodeMetric():
                return self._apply_metric(message)
            case SchedulingRequest():
                return self._apply_request(message, position)
            case PodLifecycle():
                return self._apply_lifecycle(message, position)
            case NodeState():
                return self._apply_node(message, position)
            case ListBegin():
                self.inventory.lists.begin(
                    position.topic, message, self.inventory.numbers.records_applied
                )
                return []
            case ListEnd():
                return self._apply_list_end(message, position)
            case CommandOutcome():
                return self._apply_outcome(message, position)
            case PolicyRecord():
                return self._apply_policy(message, position)
            case MigrationRequest():
                return self.migrations.handle_request(message, self._cause(position)) or []
            case WorkloadState() | DisruptionBudget() | NamespaceState() | PriorityClassState():
                sequence = self.inventory.numbers.records_applied
                return self.migrations.apply_object(message, sequence) or []
        raise TypeError(f"{type(message).__name__} is not an input of the cluster stage")

    # --- inputs ---------------------------------------------------------------------------------

    def _apply_metric(self, metric: NodeMetric) -> Result:
        refusal = (
            self._check_time(metric)
            or check_amounts(metric)
            or check_lifetime_columns(metric)
            or self._check_origin(metric)
        )
        if refusal is not None:
            # The record's key names only the cluster.
            return replace(refusal, reason=f"node {metric.node}: {refusal.reason}")
        refusal = None if metric.removed else self._check_node_limit(metric.node)
        if refusal is not None:
            return refusal
        if self._is_outdated(metric):
            return []
        self.inventory.apply_metric(metric)
        if metric.updated_at_ms is not None:
            self.memory.moves.cooldown.record_metric(metric.node, metric.updated_at_ms)
        return []

    def _check_time(self, metric: NodeMetric) -> Refusal | None:
        if metric.updated_at_ms is None or self.now_ms is None:
            return None
        limit_ms = self.policy.metric_future_seconds * 1000
        return check_not_future(metric.updated_at_ms, self.now_ms, limit_ms, "updated_at_ms")

    def _is_outdated(self, metric: NodeMetric) -> bool:
        """Tell whether a metric is older than the node's last one: a restarted aggregate stage repeats some."""
        node, updated_ms = self.inventory.nodes.get(metric.node), metric.updated_at_ms
        last = None if node is None else node.usage.metric
        if self.policy.follows_koordinator or last is None or updated_ms is None:
            return False
        # If the last metric is newer than log time, the node's clock was set back since: accept the metric.
        return not metric.removed and updated_ms < (last.updated_at_ms or 0) <= (self.now_ms or 0)

    def _check_origin(self, metric: NodeMetric) -> Refusal | None:
        """Refuse a metric that is impossible or of an earlier node with the same name."""
        if self.policy.follows_koordinator:
            return None
        if is_zero_point(metric.usage or {}):
            return Refusal("limit", f"usage, {ZERO_POINT}")
        node = self.inventory.nodes.get(metric.node)
        if node is None or node.state is None:
            return None
        created_ms, updated_ms = node.state.created_at_ms, metric.updated_at_ms
        if created_ms is not None and updated_ms is not None and updated_ms < created_ms:
            return Refusal(
                "late",
                f"updated_at_ms is {updated_ms}, before the node was created at {created_ms}: the metric "
                "belongs to an earlier node with the same name",
            )
        return check_capacity(metric, node.installed)

    def _apply_request(self, request: SchedulingRequest, position: Position) -> Result:
        cause = self._cause(position)
        if request.withdrawn:
            self.migrations.tracking.handle_withdrawn(request.pod.uid, cause)
        return self.placement.handle_request(request, cause)

    def _apply_node(self, state: NodeState, position: Position) -> Result:
        refusal = None if state.event == "removed" else self._check_node_limit(state.node)
        if refusal is not None:
            return refusal
        if self._is_another_node(state):
            self._apply_node(state.model_copy(update={"event": "removed"}), position)
        self.inventory.apply_node(state)
        if state.event == "removed":
            self.memory.moves.cooldown.drop(state.node)
            self.rebalancer.balancer.remove_node(state.node)
            self.migrations.drains.remove_gone(self._cause(position))
        return []

    def _is_another_node(self, state: NodeState) -> bool:
        """Tell whether a node was added again under its name, and no record of its removal came."""
        node = self.inventory.nodes.get(state.node)
        before_ms = node.state.created_at_ms if node and node.state else None
        if self.policy.follows_koordinator or state.event == "removed" or before_ms is None:
            return False
        return (state.created_at_ms or 0) > before_ms

    def _check_node_limit(self, node: str) -> Refusal | None:
        if node in self.inventory.nodes or len(self.inventory.nodes) < NODES_MAX:
            return None
        return Refusal("limit", f"node {node} exceeds the limit of {NODES_MAX} nodes per cluster")

    def _apply_lifecycle(self, lifecycle: PodLifecycle, position: Position) -> Result:
        pod = lifecycle.pod
        change = find_pod_change(self.inventory, lifecycle)
        if pod.node is not None and not change.is_over:
            if change.before is None and len(self.inventory.node_of_pod) >= PODS_MAX:
                text = f"pod {pod.name} exceeds the limit of {PODS_MAX} pods per cluster"
                return Refusal("limit", text)
            # The pod may be the first record that names its node.
            refusal = self._check_node_limit(pod.node)
            if refusal is not None:
                return refusal
        exceeded = None if change.is_over else find_exceeded_limit(pod)
        if exceeded is not None:
            return Refusal("limit", f"pod {pod.namespace}/{pod.name} is refused: {exceeded}")
        cause = self._cause(position)
        self.migrations.handle_pod_change(change, cause)
        decisions = self._update_request(lifecycle, change, cause)
        apply_lifecycle(self.inventory, lifecycle)
        if change.arrived and pod.node is not None:
            self.memory.record_arrival(pod, pod.node, self.inventory.now_ms)
        return decisions

    def _update_request(
        self, lifecycle: PodLifecycle, change: PodChange, cause: Cause
    ) -> list[OutputMessage]:
        """End or mark the pod's request after a change of the pod."""
        pod = change.after
        if lifecycle.event == "deleted":
            return self.placement.withdraw(pod.uid, cause, "the pod was deleted")
        if pod.node is not None and change.is_rejection:
            return self.placement.report_rejection(pod, pod.node, cause)
        if change.is_over:
            return self.placement.withdraw(pod.uid, cause, "the pod has finished")
        if pod.node is not None:
            return self.placement.handle_bound(pod.uid, pod.node, cause)
        list_id = self.inventory.lists.resolve_id("pod-lifecycle", lifecycle.list_id)
        if list_id is not None:
            self.placement.mark_listed(pod.uid, list_id)
        return []

    def _apply_outcome(self, outcome: CommandOutcome, position: Position) -> Result:
        self.migrations.handle_outcome(outcome, self._cause(position))
        if outcome.command == "bind" and outcome.pod_gone:
            self.migrations.handle_gone(outcome.pod.uid, self._cause(position))
        old_held = self.inventory.find_held(outcome.pod.uid)
        was_reserved = old_held is not None and old_held[1].expires_at_ms is not None
        decisions = self.placement.handle_outcome(outcome, self._cause(position))
        new_held = self.inventory.find_held(outcome.pod.uid)
        if was_reserved and new_held is not None and new_held[1].expires_at_ms is None:
            node, held = new_held
            self.memory.record_arrival(held.pod, node.name, self.inventory.now_ms)
        return decisions

    def _apply_list_end(self, end: ListEnd, position: Position) -> Result:
        id_and_begin = self.inventory.lists.end(position.topic, end)
        if id_and_begin is None:
            return []
        list_id, begin = id_and_begin
        if position.topic == "node-state":
            self._list_cleanup.remove_nodes(self._cause(position))
            return []
        self.migrations.end_list(list_id, begin, end.kinds)
        return self._list_cleanup.remove_pods(self._cause(position))

    def _apply_policy(self, record: PolicyRecord, position: Position) -> Result:
        try:
            policy = read_policy(record.document, KNOWN)
        except PolicyError as error:
            return Refusal("invalid", f"the policy was not applied: {error}")
        self.policy_record = record
        self.policy_changed = True
        self.set_policy(policy)
        return [self._build_collect_policy(self._cause(position))]

    def _apply_tick(self, tick: ClockTick, position: Position) -> Result:
        elapsed_ms = 0 if self.now_ms is None else max(0, tick.now_ms - self.now_ms)
        self.advance(tick.now_ms)
        cause = self._cause(position)
        self.inventory.update_fleet()
        self._list_cleanup.remove_nodes(cause)
        withdrawn = self._list_cleanup.remove_pods(cause)
        self.inventory.forget_expired_metrics()
        outcomes = self.memory.tick(tick.now_ms, cause.as_of)
        # Waiting pods are placed before a round moves other pods.
        budget_share = 0.5 if self.rebalancer.is_large_round_due(tick.now_ms) else 1.0
        decisions = self.placement.tick(cause, budget_share)
        rounds = self.rebalancer.tick(cause)
        self.migrations.tick(cause, elapsed_ms)
        outputs = [*withdrawn, *decisions, *rounds, *outcomes]
        is_due = cause.now_ms - self.collect_sent_at_ms >= COLLECT_REPEAT_MS
        if self.policy_record is not None and is_due:
            outputs.append(self._build_collect_policy(cause))
        return outputs

    def _build_collect_policy(self, cause: Cause) -> OutputMessage:
        """Build the message that tells the aggregate stage how to collect the cluster's samples."""
        self.collect_sent_at_ms = cause.now_ms
        default, pools = self.policy.collect.as_messages
        fields = {
            "schema_version": 1,
            "kind": "collect-policy",
            "cluster": cause.cluster,
            "number": 0,
            "default": default.model_dump(),
            "pools": {name: pool.model_dump() for name, pool in pools.items()},
            "as_of": cause.as_of,
        }
        return OutputMessage("node-usage", fields)

    # --- state ----------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        return self.inventory.policy

    @property
    def now_ms(self) -> int | None:
        """Log time; None before the first clock tick."""
        return self.inventory.now_ms if self.inventory.has_time else None

    def set_policy(self, policy: Policy) -> None:
        """Apply a policy, and pause or resume the cluster as the policy record says."""
        if policy.digest != self.policy.digest:
            self.inventory.set_policy(policy)
            self.placement.apply_policy()
            self.memory.set_policy(policy, self.inventory.now_ms)
            self.migrations.set_policy(policy)
            self.rebalancer.set_policy(policy)
        self.inventory.paused = self.policy_record is not None and self.policy_record.paused

    def advance(self, now_ms: int) -> None:
        """Set log time, without any decision."""
        self.inventory.advance(now_ms)

    def skip_to(self, now_ms: int) -> None:
        """Set log time after a failed tick; the state is then as if restored at that time."""
        self.advance(now_ms)
        self.placement.pending.release_delayed(now_ms)

    def _cause(self, position: Position) -> Cause:
        return Cause(
            cluster=self.cluster,
            topic=position.topic,
            partition=position.partition,
            offset=position.offset,
            now_ms=self.inventory.now_ms,
            as_of=build_as_of(
                position.partition,
                position.offsets,
                self.policy.digest if self.policy_record else "default",
            ),
        )
