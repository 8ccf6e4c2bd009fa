"""A cluster on both stages, with usage in percent of nodes.

Nodes have ten cores and 40 GiB, so one percent is 100 millicores and 0.4 GiB. All input is applied to the
stages as records, and outputs are kept by class.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from connectors.kubernetes.watch.kinds import KINDS
from connectors.kubernetes.watch.objects import Objects
from connectors.kubernetes.watch.pod_reporter import PodReporter
from connectors.kubernetes.watch.volumes import Claims
from connectors.queries.whynot.evidence import Evidence
from connectors.queries.whynot.node import explain_node
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision, SchedulingRequest
from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.migrations import MigrationStatus
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod, PodLifecycle
from schemas.messages.rounds import HotNode, RebalanceRound
from schemas.messages.usage import NodeUsage
from schemas.policy import read_policy
from schemas.topics.catalog import TOPIC_BY_NAME, key_of
from schemas.topics.codec import encode
from streams.in_process.pipeline import LocalPipeline, ProducedRecord
from tests.streams.builders import (
    CLUSTER,
    START_MS,
    at,
    container,
    controlled_by,
    metric,
    node,
    pod,
    policy_record,
    tick,
)
from tests.streams.world import read_output

CPU, MEMORY = 100, 40 * 1024**3 // 100
"""One percent of a node, in millicores and bytes."""
_DAY_MS = 86_400_000
_TOPIC_BY_CLASS = {cls: name for name, topic in TOPIC_BY_NAME.items() for cls in topic.classes}

#: Rounds by thresholds that evict pods in the first round, with as few gates as possible.
MOVING_POLICY = """
mode: enforce
plugins: {balance: [LowNodeLoad]}
rebalance:
  lowThresholds: {cpu: 30}
  highThresholds: {cpu: 70}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
migration:
  schedulerNames: [loadstream]
  maxMigratingPerNode: 0
  skipCheckExpectedReplicas: true
  evictQPS: 1000
  evictBurst: 1000
  objectLimiters: {workload: {duration: 0s}}
  skipEvictionGates: [MaxMigratingPerWorkload, MaxUnavailablePerWorkload]
"""
#: Placement by usage alone; pods wait if the load of every node is too high.
LOAD_AWARE = "whenOverloaded: wait\nplugins: {score: [LoadAwareScheduling]}\n"


def merge(document: str, changes: str) -> str:
    """Return a policy document with changed fields; maps are merged, null removes a field."""

    def merge_values(old: Any, new: Any) -> Any:
        if not isinstance(old, dict) or not isinstance(new, dict):
            return new
        merged = old | {name: merge_values(old.get(name), value) for name, value in new.items()}
        return {name: value for name, value in merged.items() if value is not None}

    values = (yaml.safe_load(text) or {} for text in (document, changes))
    return yaml.safe_dump(merge_values(*values))


def make_policy(changes: str = "") -> str:
    return merge(MOVING_POLICY, changes)


class Cluster:
    """Nodes with their usage, and pods on the nodes.

    `nodes` has the CPU usage of each node in percent, including pods; None: the node is not measured.
    """

    def __init__(self, policy: str = "", **nodes: float | None) -> None:
        self.pipeline = LocalPipeline()
        self.seconds = 0.0
        self.outputs: dict[type, list[Any]] = {}
        self.nodes: dict[str, NodeState] = {}
        self.used: dict[str, dict[str, float]] = {}
        """Usage of each node in percent, by resource."""
        self.metrics: dict[str, NodeMetric] = {}
        self.pods: dict[str, tuple[str, Pod, dict[str, float]]] = {}
        """Node, pod, and usage in percent, of measured pods by uid."""
        self._reporters: dict[str, Any] = {
            "pods": PodReporter(CLUSTER, ["loadstream"], Claims(), lambda: at(self.seconds)),
            **{path.rpartition("/")[2]: Objects(CLUSTER, kind) for path, kind in KINDS.items()},
        }
        self.policy = read_policy(policy)
        self.apply(policy_record(policy), tick())
        if refusals := self.list_refusals():
            raise ValueError(refusals[0])
        for name, used in nodes.items():
            self.add_node(name, used)

    def apply(self, *messages: Any, topic: str | None = None) -> list[Any]:
        """Apply messages as one batch; return the outputs of both stages."""
        records = []
        for message in messages:
            name = topic or _TOPIC_BY_CLASS[type(message)]
            records.append(
                ProducedRecord(name, key_of(name, message), encode(message), at(self.seconds))
            )
        outputs = [read_output(*output) for output in self.pipeline.apply(records)]
        for output in outputs:
            self.outputs.setdefault(type(output), []).append(output)
        return outputs

    # --- nodes and pods -------------------------------------------------------------------------

    def add_node(
        self, name: str, cpu: float | None = None, memory: float | None = 10, **fields: Any
    ) -> None:
        """Add a node with fields of its record, and usage of further resources in `used`."""
        used = fields.pop("used", {})
        self.nodes[name] = state = node(name, cpu="10", memory="40Gi", **fields)
        self.apply(state)
        if cpu is not None:
            self.used[name] = {"cpu": cpu, **({} if memory is None else {"memory": memory}), **used}

    def add_pod(
        self, uid: str, node: str, cpu: float | None = None, *, memory: float = 1, **fields: Any
    ) -> Pod:
        """Add a pod of a ReplicaSet that runs since yesterday. Without `cpu` it is not measured."""
        times = ("created_at_ms", "scheduled_at_ms", "initialized_at_ms")
        running = {"phase": "Running", "ready": True, "owners": controlled_by(uid), "node": node}
        yesterday = dict.fromkeys(times, START_MS - _DAY_MS)
        running_pod = make_pod(uid, **{**running, **yesterday, **fields})
        self.apply(PodLifecycle(cluster=CLUSTER, event="seen", pod=running_pod))
        if cpu is not None:
            self.pods[uid] = (node, running_pod, {"cpu": cpu, "memory": memory})
        return running_pod

    def report(self, kind: str, document: dict[str, Any], cpu: float | None = None) -> list[Any]:
        """Let the watch report an object of the API server; return the outputs of the stages.

        `kind` is the last part of the object's path. A pod with `cpu` is measured.
        """
        reporter = self._reporters[kind]
        records = list(reporter.report_object(reporter.key(document), document, None))
        for _, message in records:
            if cpu is not None and isinstance(message, PodLifecycle):
                node, pod = message.pod.node or "", message.pod
                self.pods[pod.uid] = (node, pod, {"cpu": cpu, "memory": 1})
        return [output for topic, message in records for output in self.apply(message, topic=topic)]

    def schedule(self, document: dict[str, Any]) -> str:
        """Let the watch report a waiting pod; return its node, or the outcome with its message."""
        outputs = self.report("pods", document)
        decisions = [output for output in outputs if isinstance(output, PlacementDecision)]
        return describe(decisions[-1]) if decisions else "no decision"

    def delete_pod(self, uid: str) -> None:
        node, pod, used = self.pods.pop(uid)
        node_usage = self.used[node].items()
        self.used[node] = {name: share - used.get(name, 0) for name, share in node_usage}
        self.apply(PodLifecycle(cluster=CLUSTER, event="deleted", pod=pod))

    # --- time -----------------------------------------------------------------------------------

    def measure(self, *names: str) -> None:
        """Send metrics of the named nodes, or of all measured nodes."""
        for name in names or self.used:
            self.metrics[name] = self.build_metric(name)
            self.apply(self.metrics[name])

    def build_metric(self, name: str) -> NodeMetric:
        pods = [entry for entry in self.pods.values() if entry[0] == name]
        used = self.used[name]
        system_usage_shares = {
            resource: max(0, share - sum(entry[2].get(resource, 0) for entry in pods))
            for resource, share in used.items()
        }
        measured = tuple(
            PodMetric(namespace=pod.namespace, name=pod.name, usage=to_amounts(shares))
            for _, pod, shares in pods
        )
        return metric(name, usage=to_amounts(used), system_usage=to_amounts(system_usage_shares), pods=measured,
                      seconds=self.seconds, report_interval_ms=60_000)  # fmt: skip

    def pass_minutes(self, count: int = 1, *, measured: bool = True) -> "Cluster":
        """Advance the clock; in each minute, nodes send metrics and a round runs."""
        for _ in range(count):
            self.seconds += 60
            if measured:
                self.measure()
            self.apply(tick(self.seconds))
        return self

    def build_sample(self, node: str, seconds: float, cpu: float, **fields: Any) -> NodeUsage:
        """Return a usage sample of a node with this percentage of CPU."""
        usage = {"cpu": round(cpu * CPU), "memory": 10 * MEMORY}
        fields = {"cluster": CLUSTER, "node": node, "usage": usage, **fields}
        return NodeUsage(sampled_at_ms=at(seconds), **fields)

    # --- outcomes -------------------------------------------------------------------------------

    def list_outputs(self, kind: type) -> list[Any]:
        return self.outputs.get(kind, [])

    @property
    def newest_round(self) -> RebalanceRound:
        newest: RebalanceRound = self.list_outputs(RebalanceRound)[-1]
        return newest

    def find_hot(self, node: str) -> HotNode | None:
        hot_nodes = (hot for pool in self.newest_round.pools for hot in pool.hot)
        return next((hot for hot in hot_nodes if hot.node == node), None)

    def describe_moves(self) -> str:
        """Return the moves of the newest round, such as `a n1->n2`."""
        verdicts = [
            f"{pod.pod.name} {hot.node}->{pod.target}"
            for pool in self.newest_round.pools
            for hot in pool.hot
            for pod in hot.pods
            if not pod.gate
        ]
        return ", ".join(verdicts) or "none"

    def find_gate(self, uid: str = "") -> str:
        """Return the gate of a pod in the newest round, or the first gate of any pod, node or pool."""
        for pool in self.newest_round.pools:
            for hot in pool.hot:
                for verdict in hot.pods:
                    if verdict.pod.uid == uid or (not uid and verdict.gate):
                        return verdict.gate or "leaves"
                if hot.gate and not uid:
                    return hot.gate
            if pool.gate and not uid:
                return pool.gate
        return "not looked at" if uid else "nothing stopped"

    def list_commands(self) -> list[EvictionCommand]:
        """Return all eviction commands that are not dry."""
        return [command for command in self.list_outputs(EvictionCommand) if not command.dry_run]

    def report_outcome(
        self, command: EvictionCommand, result: Any, reason: str = "", **fields: Any
    ) -> None:
        self.apply(
            CommandOutcome(
                command_id=command.command_id, cluster=CLUSTER, command="evict", pod=command.pod,
                node=command.node, result=result, reason=reason, happened_at_ms=at(self.seconds),
                **fields,
            )
        )  # fmt: skip

    def read_status(self) -> str:
        """Return phase, reason and message of the newest migration status."""
        report: MigrationStatus = self.list_outputs(MigrationStatus)[-1]
        return f"{report.phase} {report.reason}: {report.message}"

    def place(self, pod: Pod) -> str:
        """Send a scheduling request; return the node, or the outcome with its message."""
        return describe(self.decide(pod))

    def decide(self, pod: Pod) -> PlacementDecision:
        request = SchedulingRequest(cluster=CLUSTER, pod=pod, requested_at_ms=at(self.seconds))
        outputs = self.apply(request)
        decisions = [output for output in outputs if isinstance(output, PlacementDecision)]
        if not decisions:
            raise ValueError(f"no decision but {outputs}")
        return decisions[-1]

    def list_refusals(self) -> list[str]:
        return [letter.reason for letter in self.list_outputs(DeadLetter)]

    def explain_node(self, node: str) -> list[str]:
        """Return the sentences of `cluster why-not --node`."""
        evidence = Evidence(
            CLUSTER,
            at(self.seconds),
            tick_ms=at(self.seconds),
            rounds=tuple(reversed(self.list_outputs(RebalanceRound))),
            metrics=dict(self.metrics),
            nodes=dict(self.nodes),
            migrations=tuple(reversed(self.list_outputs(MigrationStatus))),
            policy=self.policy,
        )
        return list(explain_node(evidence, node).sentences)


def describe(decision: PlacementDecision) -> str:
    """Return the node of a decision, or its outcome and message."""
    return decision.node or f"{decision.outcome}: {decision.message}"


def make_object(name: str, node: str = "", cpu: str = "100m", **fields: Any) -> dict[str, Any]:
    """Return a pod as JSON of the API server: on a node it runs since yesterday, else it waits.

    `fields` are fields of the spec, or `annotations`, `labels`, `owner` (kind and uid) and `status`.
    """
    annotations, labels = fields.pop("annotations", {}), fields.pop("labels", {})
    kind, uid = fields.pop("owner", ("ReplicaSet", name))
    owner = {"kind": kind, "name": uid, "uid": uid, "controller": True}
    times = dict.fromkeys(("PodScheduled", "Initialized", "Ready"), "2025-10-08T08:53:20Z")
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": time} for name, time in times.items()
    ]
    running = {"phase": "Running", "conditions": conditions}
    status = {**(running if node else {"phase": "Pending"}), **fields.pop("status", {})}
    return {
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "annotations": annotations,
            "labels": labels, "ownerReferences": [owner] if kind else [],
            "creationTimestamp": "2025-10-08T08:53:20Z",
        },
        "spec": {
            "schedulerName": "loadstream",
            "containers": [
                {"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}
            ],
            **({"nodeName": node} if node else {}),
            **fields,
        },
        "status": status,
    }  # fmt: skip


def to_amounts(shares: Mapping[str, float]) -> dict[str, int]:
    """Convert percentages to amounts; resources other than CPU and memory are amounts already."""
    units = {"cpu": CPU, "memory": MEMORY}
    return {name: round(share * units.get(name, 1)) for name, share in shares.items()}


def make_pod(uid: str, cpu: str = "100m", **fields: Any) -> Pod:
    """Return a pod of namespace default that loadstream places; its name is its uid."""
    amounts = {"cpu": cpu, "memory": "100Mi"}
    return pod(uid, **{"scheduler": "loadstream", "containers": (container(amounts),), **fields})
