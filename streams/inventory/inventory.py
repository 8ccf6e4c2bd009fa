"""Nodes and pods of one cluster.

`Inventory` applies node states and node metrics; `pod_events` applies records of pods. A `Node` updates its
usage and statistics. The inventory updates data about several nodes: rows in the index, the node of each pod,
owners, fresh metrics, and the names of changed table rows until they are written.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.policy import OVERUTILIZATION_RISK, Policy
from streams.inventory.freshness import Freshness
from streams.inventory.full_lists import FullLists
from streams.inventory.node import Node, RestoredPod
from streams.inventory.node_index import Change, NodeIndex
from streams.inventory.pod_index import AntiAffinity, OwnedPods
from streams.inventory.record_numbers import RecordNumbers
from streams.pods.held_pod import HeldPod
from streams.risk.fleet_usage import Fleet
from streams.usage.estimate import Estimator
from streams.usage.metric import check_capacity
from streams.usage.thresholds import compute_filter_thresholds

#: Most metrics that a tick forgets.
_FORGOTTEN_PER_TICK_MAX = 1_000


class Inventory:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.now_ms = 0
        """Log time; 0 before the first clock tick."""
        self.has_time = False
        """Whether a clock tick has set the log time."""
        self.paused = False
        """Whether the cluster applies records without making decisions."""
        self.nodes: dict[str, Node] = {}
        self.index = NodeIndex()
        """Rows of the nodes with a state; see `update_index`."""
        self.node_of_pod: dict[str, str] = {}
        """Name of the node that holds a pod, by uid of the pod."""
        self.owners = OwnedPods()
        self.anti_affinity = AntiAffinity()
        self._reservation_ends: list[tuple[int, str, str]] = []
        """Heap of time, uid and decision of reservations; some were confirmed or released since."""
        self.cordoned: dict[str, None] = {}
        """Nodes that get no new pods because they are being drained."""
        self.numbers = RecordNumbers()
        self.changed_nodes: dict[str, None] = {}
        """Nodes with a changed row in table `nodes` that is not written yet (an ordered set)."""
        self.changed_pods: dict[tuple[str, str], None] = {}
        """Node and uid of pods with a changed item in table `reserved_pods`."""
        self.changed_lifetimes: dict[str, None] = {}
        """Nodes with a changed row in table `pod_usage`."""
        self.fleet_changed = False
        """Whether the row of table `fleet_usage` has changed."""
        self.touched: dict[str, None] = {}
        """Nodes that have changed since rebalancing last read them."""
        self.openings: dict[str, int] = {}
        """Changed parts, by name, of nodes that may accept more pods; placement takes and clears them."""
        self.freshness = Freshness()
        self.lists = FullLists()
        self.fleet: Fleet | None = None
        """Usage of all pods of the cluster; None if no plugin uses statistics."""
        self._policy_parts: tuple[object, ...] = ()
        """Parts of the policy that nodes and arrays depend on."""
        self.set_policy(policy)

    # --- policy and time ------------------------------------------------------------------------

    def set_policy(self, policy: Policy) -> None:
        """Apply a policy; recompute nodes if a part that they depend on has changed."""
        parts = (
            policy.compat,
            policy.when_overloaded,
            policy.load_aware,
            policy.plugins,
            policy.resource_limits,
            policy.overutilization_risk,
            policy.moving_thresholds.filter,
        )
        self.policy = policy
        self._mean_window_ms = max(
            section.as_message.average_ms for section in policy.collect.by_section.values()
        )
        if parts != self._policy_parts:
            self._policy_parts = parts
            self._apply_policy(policy)

    def _apply_policy(self, policy: Policy) -> None:
        self.estimator = Estimator(policy.load_aware, policy.compat)
        self.filter_thresholds = compute_filter_thresholds(policy, self.now_ms)
        self.estimator.thresholds = self.filter_thresholds.thresholds
        self.freshness.apply_policy(policy)
        self.index.clear(self.nodes.values())
        self._set_fleet(policy)
        for node in self.nodes.values():
            if node.set_estimator(self.estimator):
                # Rounds use estimates too.
                self.touched[node.name] = None
        self.index_stale = True

    def _set_fleet(self, policy: Policy) -> None:
        plugins, before = policy.plugins, self.fleet
        used = plugins.scores(OVERUTILIZATION_RISK) or plugins.balances(OVERUTILIZATION_RISK)
        args = policy.overutilization_risk if used else None
        if args == (None if before is None else before.args):
            return
        self.fleet = None if args is None else Fleet(args, before)
        if before is None or self.fleet is None or self.fleet.resources != before.resources:
            self.fleet_changed = True
        for node in self.nodes.values():
            if node.set_fleet(self.fleet):
                self.changed_lifetimes[node.name] = None

    def advance(self, now_ms: int) -> None:
        """Set log time; metrics may expire."""
        self.now_ms, self.has_time = now_ms, True
        for node in self.nodes.values():
            if node.fresh and node.usage.is_expired(now_ms):
                self.freshness.update_fresh(node, now_ms)
                self._touch(node, Change.METRIC)
        self._update_thresholds()

    def _update_thresholds(self) -> None:
        """Update thresholds that depend on the time of the week."""
        if self.policy.moving_thresholds.filter is None:
            return
        self.filter_thresholds = compute_filter_thresholds(self.policy, self.now_ms)
        if self.filter_thresholds.thresholds == self.estimator.thresholds:
            return
        self.estimator.thresholds = self.filter_thresholds.thresholds
        for node in self.nodes.values():
            node.update_thresholds()
            self._touch(node, Change.METRIC)

    def update_fleet(self) -> None:
        """Recompute the usage of all pods if it is due; called at each tick."""
        if self.fleet is None or not self.fleet.is_due(self.now_ms):
            return
        self.fleet_changed = True
        nodes = self.nodes.values()
        statistics = [node.statistics for node in nodes if node.statistics is not None]
        sums = [node_statistics.fleet_sums for node_statistics in statistics]
        tiny_request_sums = [node_statistics.tiny_request_sums for node_statistics in statistics]
        if self.fleet.recompute(sums, tiny_request_sums, self.now_ms):
            for node in self.index.nodes:
                if node.row >= 0:
                    self.index.touch(node, Change.FLEET)

    def update_index(self) -> NodeIndex:
        """Give each node with a state a row; return the index."""
        if self.index_stale:
            nodes = [node for node in self.nodes.values() if node.state is not None]
            for node in nodes:
                if node.row < 0:
                    self.freshness.add(node, self.now_ms)
            self.index.assign_rows(nodes)
            self.index_stale = False
        return self.index

    @property
    def stale_nodes(self) -> int:
        """Number of nodes with a row and without a fresh metric."""
        return self.index.size - self.freshness.nodes

    # --- nodes ----------------------------------------------------------------------------------

    def apply_node(self, state: NodeState) -> None:
        """Apply a node's state in Kubernetes."""
        node = self.get_or_create_node(state.node)
        list_id = self.lists.resolve_id("node-state", state.list_id)
        if list_id is None and node.state is None and state.event != "removed":
            list_id = self.lists.get_begun_id("node-state")
        node.list_id = list_id or node.list_id
        self.changed_nodes[state.node] = None
        if state.event == "removed":
            self._remove(node)
            return
        if node.state is None:
            self.index_stale = True
        node.set_state(state)
        metric = node.usage.metric
        if (
            metric is not None
            and self.policy.compat != "koordinator"
            and check_capacity(metric, node.installed) is not None
        ):
            # The capacity of the node was unknown when the metric was applied.
            self._forget_usage(node)
            self.freshness.update_fresh(node, self.now_ms)
        self._touch(node, Change.STATE | Change.METRIC)

    def apply_metric(self, metric: NodeMetric, *, restored: bool = False) -> None:
        """Apply a node metric; `restored` tells whether it comes from a table row."""
        node = self.get_or_create_node(metric.node)
        if node.set_metric(
            None if metric.removed else metric, average_ms=self._mean_window_ms, extend=not restored
        ):
            self.changed_lifetimes[node.name] = None
        self.freshness.update_fresh(node, self.now_ms)
        self.changed_nodes[metric.node] = None
        self._touch(node, Change.METRIC)
        self._forget_empty(node)

    def _remove(self, node: Node) -> None:
        if node.row >= 0:
            node.row = -1
            self.freshness.remove(node)
        node.set_state(None)
        self._forget_usage(node)
        self.index_stale = True
        self._forget_empty(node)

    def _forget_usage(self, node: Node) -> None:
        node.forget_usage()
        if self.fleet is not None:
            self.changed_lifetimes[node.name] = None

    def remove_unlisted_nodes(self, list_id: str, limit: int) -> bool:
        """Remove at most `limit` nodes that a full list does not contain; return whether all are removed."""
        unlisted = [
            node
            for _, node in sorted(self.nodes.items())
            if node.state is not None and node.list_id != list_id
        ]
        for node in unlisted[:limit]:
            self.changed_nodes[node.name] = None
            self._remove(node)
        return len(unlisted) < limit

    def _forget_empty(self, node: Node) -> None:
        if node.state is None and not node.held and node.usage.metric is None:
            self.nodes.pop(node.name, None)
            self.changed_nodes[node.name] = None
            if self.fleet is not None:
                self.changed_lifetimes[node.name] = None

    def forget_expired_metrics(self) -> None:
        """Forget expired metrics of nodes without state and pods; called at each tick.

        Otherwise these metrics would accumulate, because new nodes have new names.
        """
        removed = [
            node.name
            for node in self.nodes.values()
            if node.state is None and not node.held and node.usage.has_expired_metric(self.now_ms)
        ]
        # By name, because a restored state does not have the original order.
        for name in sorted(removed)[:_FORGOTTEN_PER_TICK_MAX]:
            self._forget_metric(name)

    @property
    def is_empty(self) -> bool:
        """Whether there are only expired metrics of nodes without a state."""
        return not (
            self.node_of_pod or self.lists.begun or self.lists.ending or self.cordoned
        ) and all(
            node.state is None and node.usage.is_expired(self.now_ms)
            for node in self.nodes.values()
        )

    def forget_metrics(self) -> None:
        """Forget all metrics; an empty inventory then has no nodes."""
        for name in list(self.nodes):
            self._forget_metric(name)

    def _forget_metric(self, name: str) -> None:
        self.apply_metric(NodeMetric(cluster="-", node=name, removed=True))

    def get_or_create_node(self, name: str) -> Node:
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name, self.estimator, self.fleet)
            node.cordoned = name in self.cordoned
        return node

    def set_cordoned(self, name: str, *, cordoned: bool) -> None:
        """Set whether a node gets no new pods; the node need not exist yet."""
        if cordoned:
            self.cordoned[name] = None
        else:
            self.cordoned.pop(name, None)
        node = self.nodes.get(name)
        if node is not None and node.cordoned != cordoned:
            node.cordoned = cordoned
            self._touch(node, Change.STATE)

    def _touch(self, node: Node, change: int, *, opens: bool = True) -> None:
        self.touched[node.name] = None
        if opens:
            self.openings[node.name] = self.openings.get(node.name, 0) | change
        if node.row >= 0:
            if change != Change.PODS:
                self.freshness.update_missing(node)
            self.index.touch(node, change)

    # --- pods -----------------------------------------------------------------------------------

    def find_held(self, uid: str) -> tuple[Node, HeldPod] | None:
        """Return the node that holds a pod, and the held pod; None if no node holds it."""
        name = self.node_of_pod.get(uid)
        if name is None:
            return None
        node = self.nodes[name]
        return node, node.held[uid]

    def hold(self, name: str, held: HeldPod, *, first_seen: bool) -> None:
        """Hold a pod on a node; the caller releases the pod's room on another node.

        With `first_seen`, the pod's time for estimation starts now, even if the pod has not changed.
        """
        uid = held.pod.uid
        if not held.arrival:
            held = replace(held, arrival=self.numbers.next_arrival())
        node = self.get_or_create_node(name)
        before = node.held.get(uid)
        self._register(node, held)
        node.hold(held, self.now_ms, first_seen=first_seen)
        self.changed_pods[name, uid] = None
        # The requests of a running pod may become smaller.
        opens = (
            before is not None
            and before.kind is not held.kind
            and before.kind.demand != held.kind.demand
        )
        self._touch(node, Change.PODS, opens=opens)

    def _register(self, node: Node, held: HeldPod) -> None:
        before = node.held.get(held.pod.uid)
        if before is not None:
            self.anti_affinity.drop(before.pod, node.name)
        self.anti_affinity.add(held.pod, node.name)
        self.node_of_pod[held.pod.uid] = node.name
        self.owners.add(held.pod)
        if held.expires_at_ms is not None and held.decision_id is not None:
            end = (held.expires_at_ms, held.pod.uid, held.decision_id)
            heapq.heappush(self._reservation_ends, end)

    def restore_held(self, name: str, pods: Sequence[RestoredPod]) -> None:
        """Hold all pods of a table row."""
        node = self.get_or_create_node(name)
        for pod in pods:
            self._register(node, pod.held)
        node.restore(pods)

    def release(self, uid: str, name: str | None = None) -> HeldPod | None:
        """Release a pod's room on a node, by default the last node that held it; return the held pod."""
        name = name or self.node_of_pod.get(uid)
        node = None if name is None else self.nodes.get(name)
        if node is None:
            return None
        metric_time_ms, gone = node.usage.metric_time_ms, node.gone
        held = node.release(uid, self.now_ms)
        if held is None:
            return None
        self.anti_affinity.drop(held.pod, node.name)
        if self.node_of_pod[uid] == node.name:
            del self.node_of_pod[uid]
            self.owners.drop(uid)
        self.changed_pods[node.name, uid] = None
        if node.usage.metric_time_ms != metric_time_ms or node.gone is not gone:
            self.changed_nodes[node.name] = None
        self._touch(node, Change.PODS)
        self._forget_empty(node)
        return held

    def pop_expired(self, now_ms: int) -> Iterator[tuple[Node, HeldPod]]:
        """Yield the pods whose reservations end now, once each, the earliest first."""
        while self._reservation_ends and self._reservation_ends[0][0] <= now_ms:
            _, uid, decision_id = heapq.heappop(self._reservation_ends)
            node, held = self.find_held(uid) or (None, None)
            if node is None or held is None or held.expires_at_ms is None:
                continue
            if held.decision_id == decision_id:
                yield node, held

    def set_expiry(self, uid: str, expires_at_ms: int | None) -> None:
        """Change the end of a pod's reservation; None confirms the pod."""
        self._update_held(uid, expires_at_ms=expires_at_ms)

    def mark_listed(self, uid: str, list_id: str) -> None:
        """Note the last full list that contains a pod."""
        self._update_held(uid, list_id=list_id)

    def _update_held(self, uid: str, **changes: Any) -> None:
        node_and_held = self.find_held(uid)
        if node_and_held is not None:
            node, held = node_and_held
            node.held[uid] = replace(held, **changes)
            self.changed_pods[node.name, uid] = None
