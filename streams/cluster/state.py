"""One cluster: applies records one after the other and decides.

The state is a fold: what it is, and what it answers, depends on the records applied and on their
order alone. A record that cannot be applied is answered with a `Refusal` and changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.base.refusals import Refusal, check_not_future
from schemas.messages.clock import ClockTick
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import MigrationRequest
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.nodes import NodeState
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.messages.volumes import PersistentVolumeClaimState, PersistentVolumeState
from schemas.messages.workloads import DisruptionBudget, WorkloadState
from schemas.policy import Policy, PolicyError, read_policy
from streams.cluster.collecting import CollectRelay
from streams.cluster.inventory_rows import NodeRows, PodRows
from streams.cluster.placement import Placement
from streams.cluster.rebalancer import Rebalancer
from streams.cluster.request_rows import GroupRows, RequestRows
from streams.cluster.unlisted import Unlisted
from streams.cluster.usage_rows import FleetUsageRows, PodUsageRows
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import PodChange, observe, pod_change
from streams.migration.migrations import Migrations
from streams.moves.memory import MoveMemory
from streams.placement.exclusions import Exclusions
from streams.placement.placer import Placer
from streams.placement.registry import KNOWN
from streams.pods.limits import find_exceeded_limit
from streams.risk.lifetimes import check_lifetime_columns
from streams.stage.cause import Cause, as_of
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows
from streams.usage.metric import check_amounts, check_capacity

#: Reasons for which a kubelet rejects a pod that does not fit beside the pods it has.
REJECTIONS = frozenset(
    {
        "NodeAffinity",
        "NodePorts",
        "OutOfcpu",
        "OutOfephemeral-storage",
        "OutOfmemory",
        "OutOfpods",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }
)
#: Most nodes of one cluster.
NODES_MAX = 50_000
#: Most pods held in one cluster.
PODS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Position:
    """Where a record stands, and how far the partition has been read with it."""

    topic: str
    partition: int
    offset: int
    offsets: dict[str, int]
    """Offset applied last of each input topic, this record included."""


Answer = Sequence[OutputMessage] | Refusal


class ClusterState:
    """Everything that is known of one cluster, and its decisions."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.policy_record: PolicyRecord | None = None
        self.policy_changed = False
        """The row of table `cluster_policies` is to be written."""
        self.inventory = Inventory(Policy())
        self.memory = MoveMemory(cluster, self.policy)
        placer = Placer(self.inventory)
        exclusions = Exclusions(self.memory.moves, self.inventory)
        self.migrations = Migrations(cluster, self.inventory, placer, exclusions, self.memory)
        self.placement = Placement(self.inventory, placer, exclusions, self.migrations)
        self.rebalancer = Rebalancer(
            cluster, self.inventory, self.memory, self.migrations, exclusions
        )
        self._unlisted = Unlisted(
            self.inventory, self.placement, self.migrations, self.memory, self.rebalancer.balancer
        )
        self.inventory_rows: tuple[TrackedRows[Any, Any], ...] = (
            NodeRows(cluster, self.inventory),
            PodRows(self.inventory, self.placement.reservations),
        )
        self._usage_rows = (
            PodUsageRows(cluster, self.inventory),
            FleetUsageRows(cluster, self.inventory),
        )
        self.request_rows: tuple[TrackedRows[Any, Any], ...] = (
            RequestRows(cluster, self.inventory, self.placement),
            GroupRows(cluster, self.inventory, self.placement),
        )
        self.collect = CollectRelay()
        self.written_row = b""
        """The cluster's own row as it was written last; empty: it was not."""
        self._judge_paused()

    @property
    def empty(self) -> bool:
        """Nothing is known of the cluster that a record could not begin anew."""
        return (
            self.policy_record is None
            and not len(self.placement.pending)
            and self.inventory.empty
            and not any(map(len, self.memory_rows))
        )

    @property
    def memory_rows(self) -> tuple[TrackedRows[Any, Any], ...]:
        """Rows of what is remembered beside nodes, pods and requests."""
        return (
            *self.memory.tracked_rows,
            *self.migrations.tracked_rows,
            *self.rebalancer.balancer.tracked_rows,
            *self._usage_rows,
        )

    @property
    def tracked_rows(self) -> tuple[TrackedRows[Any, Any], ...]:
        """All rows but the cluster's own and its policy's, in the order in which they are written
        and restored."""
        return (*self.inventory_rows, *self.memory_rows, *self.request_rows)

    def apply(self, message: Any, position: Position) -> Answer:
        """Apply one record; answers with the messages that it causes."""
        if isinstance(message, ClockTick):
            with self.inventory.numbers.if_asked():
                answer = self._tick(message, position)
            self.placement.note_openings()
        else:
            self.inventory.numbers.begin()
            answer = self._apply(message, position)
            if self.inventory.opened and not isinstance(answer, Refusal):
                answer = [*answer, *self.placement.use_openings(self._cause(position))]
        said = self.migrations.take()
        return [*answer, *said] if said and not isinstance(answer, Refusal) else answer

    def _apply(self, message: Any, position: Position) -> Answer:
        match message:
            case NodeMetric():
                return self._metric(message)
            case SchedulingRequest():
                return self._request(message, position)
            case PodLifecycle():
                return self._lifecycle(message, position)
            case NodeState():
                return self._node(message, position)
            case ListBegin():
                self.inventory.lists.begin(position.topic, message, self.inventory.numbers.sequence)
                return []
            case ListEnd():
                return self._list_end(message, position)
            case CommandOutcome():
                return self._outcome(message, position)
            case PolicyRecord():
                return self._policy(message, position)
            case MigrationRequest():
                return self.migrations.request(message, self._cause(position)) or []
            case WorkloadState():
                return (
                    self.migrations.workload(
                        message, self.inventory.numbers.sequence, self.inventory.now_ms
                    )
                    or []
                )
            case DisruptionBudget():
                return self.migrations.budget(message, self.inventory.numbers.sequence) or []
            case NamespaceState():
                return self.migrations.namespace(message, self.inventory.numbers.sequence) or []
            case PriorityClassState():
                return (
                    self.migrations.priority_class(message, self.inventory.numbers.sequence) or []
                )
            case PersistentVolumeState() | PersistentVolumeClaimState():
                return []  # nothing is decided by them; `unsupported` of a pod says what it requires
        raise TypeError(f"{type(message).__name__} is no input of the cluster stage")

    # --- inputs ---------------------------------------------------------------------------------

    def _metric(self, metric: NodeMetric) -> Answer:
        wrong = (
            self._early(metric)
            or check_amounts(metric)
            or check_lifetime_columns(metric)
            or self._foreign(metric)
        )
        if wrong is not None:
            # The record's key names the cluster alone.
            return replace(wrong, reason=f"node {metric.node}: {wrong.reason}")
        full = None if metric.removed else self._full(metric.node)
        if full is not None:
            return full
        self.inventory.apply_metric(metric)
        if metric.updated_at_ms is not None:
            self.memory.moves.metric(metric.node, metric.updated_at_ms)
        return []

    def _early(self, metric: NodeMetric) -> Refusal | None:
        if metric.updated_at_ms is None or self.now_ms is None:
            return None
        limit_ms = self.policy.metric_future_seconds * 1000
        return check_not_future(metric.updated_at_ms, self.now_ms, limit_ms, "updated_at_ms")

    def _foreign(self, metric: NodeMetric) -> Refusal | None:
        """Refuse what the node cannot have used, or an earlier node of its name has used."""
        node = self.inventory.nodes.get(metric.node)
        if node is None or node.state is None or self.policy.compat == "koordinator":
            return None
        created_ms, updated_ms = node.state.created_at_ms, metric.updated_at_ms
        if created_ms is not None and updated_ms is not None and updated_ms < created_ms:
            return Refusal(
                "late",
                f"updated_at_ms is {updated_ms}, before the node was created at {created_ms}: it is "
                "of another node of its name",
            )
        return check_capacity(metric, node.installed)

    def _request(self, request: SchedulingRequest, position: Position) -> Answer:
        cause = self._cause(position)
        if request.withdrawn:
            self.migrations.withdrawn(request.pod.uid, cause)
        return self.placement.request(request, cause)

    def _node(self, state: NodeState, position: Position) -> Answer:
        full = None if state.event == "removed" else self._full(state.node)
        if full is not None:
            return full
        self.inventory.apply_node(state)
        if state.event == "removed":
            self.memory.moves.node_gone(state.node)
            self.rebalancer.balancer.node_gone(state.node)
            self.migrations.nodes_gone(self._cause(position))
        return []

    def _full(self, node: str) -> Refusal | None:
        if node in self.inventory.nodes or len(self.inventory.nodes) < NODES_MAX:
            return None
        return Refusal("limit", f"node {node} would be one more than {NODES_MAX} in the cluster")

    def _lifecycle(self, lifecycle: PodLifecycle, position: Position) -> Answer:
        pod = lifecycle.pod
        change = pod_change(self.inventory, lifecycle)
        if pod.node is not None and not change.over:
            # Only then it takes room, and a node that was not named before may come with it.
            if change.before is None and len(self.inventory.where) >= PODS_MAX:
                return Refusal("limit", f"pod {pod.name} would be one more than {PODS_MAX}")
            full = self._full(pod.node)
            if full is not None:
                return full
        beyond = None if change.over else find_exceeded_limit(pod)
        if beyond is not None:
            return Refusal("limit", f"pod {pod.namespace}/{pod.name} is not taken in: {beyond}")
        cause = self._cause(position)
        self.migrations.pod_changed(change, cause)
        decisions = self._settle(lifecycle, change, cause)
        observe(self.inventory, lifecycle)
        self.memory.pod_changed(
            pod, self.inventory.now_ms, arrived=change.arrived, over=change.over
        )
        return decisions

    def _settle(
        self, lifecycle: PodLifecycle, change: PodChange, cause: Cause
    ) -> list[OutputMessage]:
        """What a pod's change means for its request."""
        pod = change.after
        if lifecycle.event == "deleted":
            return self.placement.gone(pod.uid, cause, "the pod was deleted")
        before = change.before
        if (
            pod.node is not None
            and pod.failure in REJECTIONS
            and before is not None
            and before.decision_id is not None
            and before.expires_at_ms is None
        ):
            return self.placement.report_rejection(pod, pod.node, cause)
        if change.over:
            return self.placement.gone(pod.uid, cause, "the pod has finished")
        if pod.node is not None:
            return self.placement.bound(pod.uid, pod.node, cause)
        list_id = self.inventory.lists.resolve_id("pod-lifecycle", lifecycle.list_id)
        if list_id is not None:
            self.placement.listed(pod.uid, list_id)
        return []

    def _outcome(self, outcome: CommandOutcome, position: Position) -> Answer:
        self.migrations.outcome(outcome, self._cause(position))
        if outcome.command == "bind" and outcome.pod_gone:
            self.migrations.gone(outcome.pod.uid, self._cause(position))
        found = self.inventory.held(outcome.pod.uid)
        expected = found is not None and found[1].expires_at_ms is not None
        decisions = self.placement.outcome(outcome, self._cause(position))
        now_held = self.inventory.held(outcome.pod.uid)
        if expected and now_held is not None and now_held[1].expires_at_ms is None:
            node, held = now_held
            self.memory.arrived(held.pod, node.name, self.inventory.now_ms)
        return decisions

    def _list_end(self, end: ListEnd, position: Position) -> Answer:
        ended = self.inventory.lists.end(position.topic, end)
        if ended is None:
            return []
        list_id, begin = ended
        if position.topic == "node-state":
            self._unlisted.remove_nodes(self._cause(position))
            return []
        self.migrations.end_list(list_id, begin, end.kinds)
        return self._unlisted.remove_pods(self._cause(position))

    def _policy(self, record: PolicyRecord, position: Position) -> Answer:
        try:
            policy = read_policy(record.document, KNOWN)
        except PolicyError as error:
            return Refusal("invalid", f"the policy was not applied: {error}")
        self.policy_record = record
        self.policy_changed = True
        self.set_policy(policy)
        return self.collect.relay(policy.collect, self._cause(position))

    def _tick(self, tick: ClockTick, position: Position) -> Answer:
        passed_ms = 0 if self.now_ms is None else max(0, tick.now_ms - self.now_ms)
        self.advance(tick.now_ms)
        cause = self._cause(position)
        self.inventory.renew_fleet()
        self._unlisted.remove_nodes(cause)
        gone = self._unlisted.remove_pods(cause)
        self.inventory.forget_gone()
        outcomes = self.memory.tick(tick.now_ms, cause.as_of)
        # Pods that wait come before pods that would rather be elsewhere.
        share = 0.5 if self.rebalancer.takes_long(tick.now_ms) else 1.0
        decisions = self.placement.tick(cause, share)
        rounds = self.rebalancer.tick(cause)
        self.migrations.tick(cause, passed_ms)
        collect = []
        if self.policy_record is not None:
            collect = self.collect.tick(self.policy.collect, cause)
        return [*gone, *decisions, *rounds, *outcomes, *collect]

    # --- state ----------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """By which the cluster decides."""
        return self.inventory.policy

    @property
    def now_ms(self) -> int | None:
        """The log's time; None before its first tick."""
        context = self.inventory.context
        return context.now_ms if context.begun else None

    def set_policy(self, policy: Policy) -> None:
        """Judge by another policy from now on; the same policy costs nothing."""
        if policy.digest != self.policy.digest:
            self.inventory.set_policy(policy)
            self.placement.policy_changed()
            self.memory.set_policy(policy, self.inventory.now_ms)
            self.migrations.set_policy(policy)
            self.rebalancer.set_policy(policy)
        self._judge_paused()

    def advance(self, now_ms: int) -> None:
        """It is later now."""
        self.inventory.advance(now_ms)
        self._judge_paused()

    def skip_to(self, now_ms: int) -> None:
        """It is later now, and nothing is decided.

        As if the state had been put together from its rows now.
        """
        self.advance(now_ms)
        self.placement.pending.release_delayed(now_ms)

    def _judge_paused(self) -> None:
        paused = self.policy_record is not None and self.policy_record.paused
        if paused != self.inventory.context.paused:
            self.inventory.pause(paused)

    def _cause(self, position: Position) -> Cause:
        return Cause(
            cluster=self.cluster,
            topic=position.topic,
            partition=position.partition,
            offset=position.offset,
            now_ms=self.inventory.now_ms,
            as_of=as_of(
                position.partition,
                position.offsets,
                self.policy.digest if self.policy_record else "default",
            ),
        )
