"""Small worlds that tests feed with messages.

`World` has the cluster stage of one partition and `SampleWorld` the aggregate stage, each with the rows
that a worker keeps. `CoreWorld` has an inventory and a placer without a stage; `RoundWorld` adds a balancer.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import orjson
import pytest

from schemas.base.refusals import Refusal
from schemas.messages.commands import EvictionCommand
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import HostApplicationMetric, NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod, PodLifecycle
from schemas.messages.rounds import RebalanceRound
from schemas.policy import Policy, read_policy
from schemas.storage.tables import is_of_cluster, kind_of_key, row_key
from schemas.topics.catalog import TOPIC_OF, key_of
from schemas.topics.codec import decode, encode, encode_fields
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.cluster.state import ClusterState
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.inventory.pod_events import apply_lifecycle
from streams.moves.history import MoveHistory
from streams.placement.placer import Exclusions, Placer
from streams.placement.plugin import Filter
from streams.placement.ranking import Ranking
from streams.pods.kind import Kind, kind_of
from streams.rebalance.balancer import Balancer
from streams.rebalance.candidates import Candidate, Gate, RoundRules
from streams.rebalance.outcome import HotNodeOutcome, PoolOutcome, RoundOutcome
from streams.stage.cause import Cause
from streams.stage.packing import apply_changes
from streams.stage.records import (
    InputRecord,
    OutputMessage,
    OutputRecord,
    RowChange,
    StageResult,
    read_row,
)
from tests.streams.builders import (
    AS_OF,
    BY_THRESHOLDS,
    CLUSTER,
    MINUTE,
    NO_LIMITS,
    QUICK_COLLECTING,
    START_MS,
    at,
    bare_pod,
    container,
    controlled_by,
    lifecycle,
    metric,
    node,
    pod_metric,
    policy_record,
    tick,
)

#: Millicores of one percent of a node in a `RoundWorld`.
PERCENT = 100


def read_message(output: OutputMessage) -> Any:
    """The message, which its class accepts and encodes in the same way."""
    return read_output(output.topic, encode_fields(output.fields))


def read_output(topic: str, value: bytes) -> Any:
    """The message of a record, which its class accepts and encodes in the same way."""
    message = decode(topic, value)
    assert not isinstance(message, Refusal), message.reason
    assert encode(message) == value
    return message


class Log:
    """Input topics of one partition, filled with messages."""

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.ends: dict[str, int] = {}
        self.records: list[InputRecord] = []

    def add(self, *messages: Any, topic: str | None = None) -> list[InputRecord]:
        """Append messages; see `record`."""
        return [self.record(message, topic) for message in messages]

    def record(self, message: Any, topic: str | None = None) -> InputRecord:
        """Append a message, or a sample as it is written. The begin and end of a list need a topic."""
        if isinstance(message, Mapping):
            key = f"{message['cluster']}/{message['node']}".encode()
            return self.add_raw(
                "node-usage", key, orjson.dumps(message), int(message["sampled_at_ms"])
            )
        topic = topic or TOPIC_OF[type(message)]
        return self.add_raw(topic, key_of(topic, message).encode(), encode(message))

    def add_raw(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int = START_MS
    ) -> InputRecord:
        """Append a record of any content."""
        offset = self.ends.get(topic, 0)
        self.ends[topic] = offset + 1
        record = InputRecord(topic, self.partition, offset, key, value, timestamp_ms)
        self.records.append(record)
        return record


class World:
    """A cluster stage with its rows and outputs; outputs are also kept by their class."""

    def __init__(self, *messages: Any, partition: int = 0, partitions: int = 1) -> None:
        self.partition, self.partitions = partition, partitions
        self.log = Log(partition)
        self.seconds: float = 0
        self.rows: dict[str, bytes] = {}
        self.outputs: list[OutputRecord] = []
        self.dead_letters: list[DeadLetter] = []
        self.decisions: list[PlacementDecision] = []
        self.evictions: list[EvictionCommand] = []
        self.migrations: list[MigrationStatus] = []
        self.drains: list[DrainStatus] = []
        self.rounds: list[RebalanceRound] = []
        self.moves: list[MoveOutcome] = []
        self.stage = ClusterStage(partition, partitions, self.recall)
        self._lists = 0
        if messages:
            self.send(*messages)

    def send(self, *messages: Any, topic: str | None = None) -> list[PlacementDecision]:
        """Apply messages as one batch; return its decisions. No message may be refused."""
        before = len(self.dead_letters)
        decisions = self.apply(self.log.add(*messages, topic=topic))
        assert [letter.reason for letter in self.dead_letters[before:]] == []
        return decisions

    def send_refused(self, *messages: Any) -> list[DeadLetter]:
        """Apply messages as one batch; return its dead letters."""
        before = len(self.dead_letters)
        self.apply(self.log.add(*messages))
        return self.dead_letters[before:]

    def full_list(
        self, topic: str, *messages: Any, kinds: tuple[str, ...] = ()
    ) -> list[PlacementDecision]:
        """Apply a full list as one batch."""
        self._lists += 1
        list_id = f"list-{self._lists}"
        return self.send(
            ListBegin(cluster=CLUSTER, list_id=list_id),
            *(message.model_copy(update={"list_id": list_id}) for message in messages),
            ListEnd(cluster=CLUSTER, list_id=list_id, kinds=kinds),
            topic=topic,
        )

    def later(self, seconds: float = 1) -> list[PlacementDecision]:
        """Let time pass to one tick."""
        self.seconds += seconds
        return self.send(tick(self.seconds))

    def measure(self, used: Mapping[str, int], seconds: int) -> None:
        """A tick, and a metric of node-1 with the cpu that pods of it use, by uid."""
        pods = tuple(pod_metric(uid, cpu=cpu) for uid, cpu in used.items())
        self.send(tick(seconds), metric(cpu=sum(used.values()), seconds=seconds, pods=pods))

    def apply(self, records: Sequence[InputRecord]) -> list[PlacementDecision]:
        """Apply records as one batch; return its decisions."""
        before = len(self.decisions)
        self._keep(self.stage.apply(records))
        return self.decisions[before:]

    def _keep(self, result: StageResult) -> None:
        self.outputs += result.outputs
        self._sort([read_output(output.topic, output.value) for output in result.outputs])
        for letter in result.dead_letters:
            self.dead_letters.append(read_letter(letter))
        keys = [row.key for row in result.rows]
        assert len(keys) == len(set(keys)), "a key occurs once in a batch"
        apply_changes(self.rows, result.rows)

    def _sort(self, outputs: Iterable[Any]) -> None:
        kept: dict[type, list[Any]] = {
            PlacementDecision: self.decisions,
            EvictionCommand: self.evictions,
            MigrationStatus: self.migrations,
            DrainStatus: self.drains,
            RebalanceRound: self.rounds,
            MoveOutcome: self.moves,
        }
        for output in outputs:
            kept.get(type(output), []).append(output)

    # --- state and rows -------------------------------------------------------------------------

    @property
    def state(self) -> ClusterState:
        """The state of the one cluster that builders speak of."""
        return self.stage.clusters[CLUSTER]

    def recall(self, cluster: str) -> dict[str, bytes]:
        """The rows of a cluster, as a worker gives them to a stage."""
        return {k: v for k, v in self.rows.items() if is_of_cluster(k, self.partition, cluster)}

    def restart(self, rows: Mapping[str, bytes] | None = None) -> None:
        """Go on with a stage that is restored from the rows, in the order given."""
        rows = self.rows if rows is None else rows
        self.stage = ClusterStage.restore(self.partition, self.partitions, rows, self.recall)

    @property
    def kinds(self) -> set[str]:
        """Kinds of rows that there are."""
        return set(map(kind_of_key, self.rows))

    def keys(self, kind: str) -> list[str]:
        """Keys of rows of a kind, in order."""
        return sorted(key for key in self.rows if kind_of_key(key) == kind)

    def row(self, key: str) -> Any:
        """A row as it is read back."""
        return read_row(key, self.rows[key])

    @property
    def waiting(self) -> list[str]:
        """uids of the pods that wait, in the order of arrival."""
        return [waiting.request.pod.uid for waiting in self.state.placement.pending]

    # --- migrations -----------------------------------------------------------------------------

    def migration(self, uid: str) -> Any:
        """The migration of a pod."""
        row = self.state.migrations.lifecycle.registry.find_by_pod(uid)
        assert row is not None
        return row

    @property
    def last(self) -> tuple[str, str]:
        """Phase and reason of a migration that were reported last."""
        return self.migrations[-1].phase, self.migrations[-1].reason

    def propose(self, uid: str, node: str | None = None, **fields: Any) -> str | None:
        """Propose a pod as a round does; return why it stays."""
        gate = self.gate(uid, node, **fields)
        return None if gate is None else gate.text

    def gate(self, uid: str, node: str | None = None, **fields: Any) -> Gate | None:
        """Propose a pod as a round does; return the gate that keeps it."""
        entry = self.state.inventory.find_held(uid)
        assert entry is not None
        fields_of_candidate = {
            "pool": "default",
            "phase": "node",
            "reason": "node is overutilized",
            "target": None,
            "usage": {},
            **fields,
        }
        candidate = Candidate(entry[1], node or entry[0].name, **fields_of_candidate)
        offset = self.log.ends["clock"] = self.log.ends.get("clock", 0) + 1
        cause = Cause(CLUSTER, "clock", 0, offset, at(self.seconds), AS_OF)
        migrations = self.state.migrations
        protected = migrations.lifecycle.gates.protections.explain(entry[1])
        answer = (
            (None if protected is None else Gate("Protection", protected))
            or migrations.check_pod(entry[1], candidate.node, cause.now_ms)
            or migrations.propose(candidate, cause)
        )
        self._sort(map(read_message, migrations.lifecycle.take_messages()))
        return answer


class SampleWorld:
    """An aggregate stage with its log and its table rows."""

    def __init__(
        self, collecting: PoolRules = QUICK_COLLECTING, limits: AggregateLimits | None = None
    ) -> None:
        self.log = Log()
        self.table: dict[str, bytes] = {}
        self.collecting, self.limits = collecting, limits
        self.stage = self.restarted()

    def restarted(self) -> AggregateStage:
        """A stage that is restored from the rows."""
        return aggregate_stage(self.table, self.collecting, self.limits)

    def restart(self) -> None:
        """Go on with a stage that is restored from the rows."""
        self.stage = self.restarted()

    def send(self, *messages: Any) -> StageResult:
        """Apply samples and collect policies as one batch."""
        return self.apply(self.log.add(*messages))

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records as one batch, and take its rows into the table."""
        result = self.stage.apply(records)
        apply_changes(self.table, result.rows)
        return result


class CoreWorld:
    """An inventory and its placer, without a stage."""

    def __init__(self, policy: Policy | str = "", *messages: Any, now_ms: int = START_MS) -> None:
        self.policy = read_policy(policy) if isinstance(policy, str) else policy
        self.inventory = Inventory(self.policy)
        self.inventory.advance(now_ms)
        self.placer = Placer(self.inventory)
        self.send(*messages)

    def send(self, *messages: Any) -> None:
        """Apply node states, metrics, pod lifecycles and policies."""
        for message in messages:
            match message:
                case NodeState():
                    self.inventory.apply_node(message)
                case NodeMetric():
                    self.inventory.apply_metric(message)
                case PodLifecycle():
                    apply_lifecycle(self.inventory, message)
                case Policy():
                    self.policy = message
                    self.inventory.set_policy(message)
                case _:
                    raise TypeError(message)

    def hold(self, name: str, *pods: Pod) -> None:
        """Let pods take room on a node."""
        self.send(*(lifecycle("seen", pod, name) for pod in pods))

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.inventory.advance(self.inventory.now_ms + round(seconds * 1000))

    @property
    def nodes(self) -> list[Node]:
        """Nodes that may be placed on, by row."""
        return self.inventory.update_index().nodes

    def rank(self, pod: Pod) -> Ranking:
        return self.placer.rank(kind_of(pod))

    # --- the policy's first filter ----------------------------------------------------------------

    @property
    def filter(self) -> Filter:
        """The first filter, up to date."""
        self.inventory.update_index()
        self.placer.refresh()
        return self.placer.filters[0]

    def passing(self, kind: Kind) -> list[str]:
        """Names of the nodes that pass, by the mask."""
        mask = self.filter.mask(self.filter.prepare(kind))
        return [node.name for row, node in enumerate(self.nodes) if mask is None or mask[row]]

    def reasons(self, kind: Kind) -> dict[str, str | None]:
        """Why the filter refuses each node."""
        prepared = self.filter.prepare(kind)
        return {node.name: self.filter.reason(prepared, i) for i, node in enumerate(self.nodes)}


def filter_world(name: str, *states: NodeState) -> CoreWorld:
    """Nodes under a policy with one filter."""
    return CoreWorld(f"plugins: {{filter: [{name}]}}", *states)


class RoundWorld(CoreWorld):
    """A balancer over nodes of ten cores; usage of pods and nodes is in percent of a node."""

    def __init__(self, document: str = BY_THRESHOLDS, *, now_ms: int = START_MS) -> None:
        # Pods move by thresholds alone unless the policy names plugins.
        if "plugins:" not in document and "compat: koordinator" not in document:
            document += "\nplugins: {balance: [LowNodeLoad]}\n"
        super().__init__(document, now_ms=now_ms)
        self.now_ms = now_ms
        self.moves = MoveHistory(CLUSTER, self.policy)
        self.balancer = self._build_balancer()
        self.rows: dict[str, bytes] = {}
        self.used: dict[str, dict[str, dict[str, int]]] = {}
        """Usage by node and pod."""
        self.system: dict[str, dict[str, int]] = {}
        self.hosts: dict[str, dict[str, int]] = {}
        """cpu of host applications in percent, by node and name."""
        self.stale: set[str] = set()
        """Nodes that send no metrics."""
        self.outcome = RoundOutcome(0)

    def _build_balancer(self) -> Balancer:
        return Balancer(CLUSTER, self.inventory, Exclusions(self.moves, self.inventory))

    def node(self, name: str, system: int = 0, **fields: Any) -> None:
        """Add a node whose system part uses a share."""
        self.send(node(name, **{"cpu": "10", **fields}))
        self.used.setdefault(name, {})
        self.system[name] = {"cpu": system * PERCENT, "memory": 0}

    def pod(self, uid: str, name: str, cpu: int | None = 10, **fields: Any) -> None:
        """Add a pod of a ReplicaSet that uses a share of a node; None: it is not measured."""
        usage = fields.pop("usage", None)
        if usage is None and cpu is not None:
            usage = {"cpu": cpu * PERCENT, "memory": 0}
        defaults = {
            "phase": "Running",
            "owners": controlled_by("web"),
            "containers": (container({"cpu": "100m"}),),
            "created_at_ms": START_MS,
            # Long ago: the pod's measured usage counts, not its estimate.
            "scheduled_at_ms": START_MS - 86_400_000,
        }
        self.hold(name, bare_pod(uid, **{**defaults, **fields}))
        if usage is not None:
            self.used[name][uid] = usage

    def gone(self, uid: str, *, reported: bool = False) -> None:
        """Remove a pod; its node may still report it."""
        self.inventory.release(uid)
        for pods in self.used.values() if not reported else ():
            pods.pop(uid, None)

    def avoid(self, names: Iterable[str], owner: str = "web") -> None:
        """Record that pods of an owner have just left nodes that were hot."""
        for name in names:
            self.moves.record_departure(owner, name, self.now_ms, "hot")

    def measure(self) -> None:
        """Send a metric of every node that is not stale."""
        for name, used in self.used.items():
            if name in self.stale:
                continue
            hosts = self.hosts.get(name, {}).items()
            self.send(
                NodeMetric(
                    cluster=CLUSTER,
                    node=name,
                    updated_at_ms=self.now_ms,
                    report_interval_ms=MINUTE,
                    usage={"cpu": 1},
                    system_usage=self.system[name],
                    pods=tuple(pod_metric(uid, "", **use) for uid, use in used.items()),
                    host_applications=tuple(
                        HostApplicationMetric(name=host, usage={"cpu": cpu * PERCENT})
                        for host, cpu in hosts
                    ),
                )
            )

    def settle(self, minutes: int = 20) -> Self:
        """Measure the pods every minute, so that their own usage counts."""
        for _ in range(minutes):
            self.now_ms += MINUTE
            self.inventory.advance(self.now_ms)
            self.measure()
        return self

    def round(self, gate: Any = None, leaving: Collection[str] = (), **functions: Any) -> list[str]:
        """Make a round a minute later; return "pod node->target" of each move.

        Functions of `RoundRules` that are not given let every pod leave. A gate may return a text alone.
        """

        def propose(candidate: Candidate) -> Gate | None:
            stopped = None if gate is None else gate(candidate)
            return Gate("Asked", stopped) if isinstance(stopped, str) else stopped

        defaults = {
            "explain_protection": lambda _: None,
            "find_refusing_nodes": lambda _: np.zeros(len(self.inventory.nodes), np.bool_),
            "check_pod": lambda *_: None,
        }
        self.settle(1)
        rules = RoundRules(leaving=leaving, propose=propose, **{**defaults, **functions})
        self.outcome = self.balancer.make_round(self.now_ms, rules)
        self.write()
        return [f"{move.held.pod.uid} {move.node}->{move.target}" for move in self.outcome.moves]

    def write(self) -> None:
        """Write the rows that have changed."""
        for table in self.balancer.tracked_rows:
            for name, row in table.take_changed_rows():
                apply_changes(self.rows, [RowChange(row_key(0, CLUSTER, table.kind, name), row)])

    def restart(self) -> None:
        """Restore the balancer from its rows; nodes and pods stay."""
        self.balancer = self._build_balancer()
        self.inventory.touched.update(dict.fromkeys(self.inventory.nodes))
        for table in self.balancer.tracked_rows:
            keys = sorted(key for key in self.rows if kind_of_key(key) == table.kind)
            table.restore(read_row(key, self.rows[key]) for key in keys)

    # --- the last round ---------------------------------------------------------------------------

    @property
    def pool(self) -> PoolOutcome:
        """The only pool."""
        (pool,) = self.outcome.pools
        return pool

    def hot(self, name: str) -> HotNodeOutcome:
        """A hot node."""
        return next(hot for pool in self.outcome.pools for hot in pool.hot if hot.name == name)

    def gates(self, name: str) -> dict[str, str]:
        """The gate of each pod of a hot node that was checked; empty: it leaves."""
        return {verdict.pod.uid: verdict.gate for verdict in self.hot(name).pods}


def hot_world(document: str = BY_THRESHOLDS) -> RoundWorld:
    """One hot node with a pod that just covers the excess, and one target."""
    world = RoundWorld(document)
    world.node("hot", system=60)
    world.pod("a", "hot", 15)
    add_targets(world, ["calm"])
    return world


def add_targets(world: RoundWorld, names: Iterable[str], system: int = 10) -> None:
    """Add calm nodes."""
    for name in names:
        world.node(name, system)


def acting_rounds(world: RoundWorld, hot: list[bool], interval_ms: int = 10_000) -> list[int]:
    """Numbers of the rounds, from 1, in which a pod left; `hot` says in which the node "hot" is."""
    acted = []
    for number, over in enumerate(hot, 1):
        world.system["hot"] = {"cpu": (70 if over else 45) * PERCENT, "memory": 0}
        world.now_ms += interval_ms - MINUTE
        if world.round():
            acted.append(number)
    return acted


def counted_world(document: str) -> RoundWorld:
    """A hot node with one pod that covers any excess, and a target."""
    world = RoundWorld(document)
    world.node("hot", system=70)
    world.pod("a", "hot", 10)
    world.node("calm")
    return world


def aggregate_stage(
    table: Mapping[str, bytes] | None = None,
    collecting: PoolRules = QUICK_COLLECTING,
    limits: AggregateLimits | None = None,
    partition: int = 0,
    partitions: int = 1,
) -> AggregateStage:
    """An aggregate stage that is restored from table rows."""
    state = restore(partition, table or {}, collecting)
    return AggregateStage(state, partitions, limits or AggregateLimits())


def read_metrics(outputs: Iterable[OutputRecord]) -> list[NodeMetric]:
    """The metrics among outputs; each is a valid message under its cluster's key."""
    metrics = [read_output(output.topic, output.value) for output in outputs]
    assert [output.key for output in outputs] == [metric.cluster for metric in metrics]
    return metrics


def read_letter(output: OutputRecord) -> DeadLetter:
    """A dead letter as its reader sees it."""
    letter = read_output("dead-letters", output.value)
    assert isinstance(letter, DeadLetter)
    assert output.key == letter.topic
    return letter


def world_with_pods(policy: str = NO_LIMITS, *pods: tuple[Pod, str], nodes: int = 3) -> World:
    """Nodes node-1, node-2, ... with pods on them, at second 1."""
    world = World(policy_record(policy), *(node(f"node-{n + 1}") for n in range(nodes)))
    world.later()
    world.send(*(lifecycle("seen", pod, name) for pod, name in pods))
    return world


def only(decisions: Sequence[PlacementDecision]) -> PlacementDecision:
    """The one decision that there is."""
    assert len(decisions) == 1, [decision.outcome for decision in decisions]
    return decisions[0]


def placed_uids(decisions: Sequence[PlacementDecision]) -> list[str]:
    return [decision.pod.uid for decision in decisions if decision.outcome == "placed"]


def outcomes(decisions: Sequence[PlacementDecision]) -> list[tuple[str, str]]:
    """Pod and outcome of each decision."""
    return [(decision.pod.uid, decision.outcome) for decision in decisions]


def count_calls(patch: pytest.MonkeyPatch, owner: Any, *names: str) -> Counter[str]:
    """Count from now on how often functions of a class or module are called, by name."""
    calls = Counter[str]()

    def count(name: str) -> None:
        call = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return call(*args, **kwargs)

        patch.setattr(owner, name, counting)

    for name in names:
        count(name)
    return calls
