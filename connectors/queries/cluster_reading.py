"""Reads the newest records of a cluster, and the state of brokers and consumer groups.

Each topic is read backwards from its end, until the newest record of every node, pod or migration is
found, or a limit is reached. A partition without a leader is skipped; `KafkaState` names it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from connectors.kafka.admin import Group, find_topics, read_groups
from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from connectors.kafka.extents import Extent, read_extents
from connectors.kafka.reader import Partition
from connectors.kafka.topics import (
    Finding,
    compare_all,
    expected_topics,
    find_worst_grade,
)
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome
from schemas.messages.decisions import PlacementDecision
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import RebalanceRound
from schemas.settings.connection import APP_ID, name_duty_group
from schemas.topics.catalog import TOPIC_OF
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for

#: Consumer groups of workers, one per value of LOADSTREAM_WORKER_STAGES.
WORKER_GROUPS = (APP_ID, f"{APP_ID}-aggregate", f"{APP_ID}-cluster")
#: Processes between a cluster and Kafka; each has a consumer group per cluster.
DUTIES = ("watch", "collect", "bind", "evict")
#: How far back rounds, moves and decisions are read, from the newest record.
BACK_MS = 3_600_000
#: Limits of records per topic: a full list of 5,000 nodes and its changes, metrics of three report
#: intervals, decisions of some minutes.
RECORDS_MAX = {
    "node-state": 50_000,
    "node-metrics": 20_000,
    "status": 5_000,
    "placement-decisions": 5_000,
    "command-outcomes": 200,
    "policies": 5_000,
    "clock": 1_000,
}
#: Topics whose newest records name every cluster, including clusters without a worker.
_NAMING_TOPICS = frozenset({"status", "node-state", "policies"})
#: Metrics to read besides two per node, for clusters with few nodes.
_EXTRA_METRICS = 200


@dataclass(frozen=True, slots=True)
class KafkaState:
    servers: str
    brokers: int
    embedded: bool
    topics: dict[str, list[Finding]]
    """Comparison with the expected settings, by topic."""
    leaderless: frozenset[Partition] = frozenset()
    """Partitions without a leader, which can be neither read nor written."""
    partly_copied: int = 0
    """Partitions with a leader and a missing or lagging replica."""

    @property
    def missing(self) -> list[str]:
        """Topics that do not exist."""
        grades = {name: find_worst_grade(findings) for name, findings in self.topics.items()}
        return [name for name, grade in grades.items() if grade == "missing"]


@dataclass(slots=True)
class ClusterRecords:
    """The newest records of one cluster. Mappings are in the order of reading, newest first."""

    cluster: str
    now_ms: int
    """Time on this machine, from which ages are counted."""
    partition: int = 0
    """The cluster's partition of every topic."""
    unreadable: frozenset[str] = frozenset()
    """Topics whose partition has no leader."""
    tick_ms: int | None = None
    """Newest tick of the cluster's clock; None: it has never ticked."""
    nodes: dict[str, NodeState] = field(default_factory=dict)
    """Newest state of each node; removed nodes are left out."""
    metrics: dict[str, NodeMetric] = field(default_factory=dict)
    """Newest metric of each node, without its pods."""
    measured_pods: dict[str, int] = field(default_factory=dict)
    """Number of pods in that metric."""
    round: RebalanceRound | None = None
    """The newest round."""
    migrations: dict[str, MigrationStatus] = field(default_factory=dict)
    """Newest status of each migration of the last hour, by id."""
    moves: dict[str, MoveOutcome] = field(default_factory=dict)
    """Outcomes of evictions of the last hour, by the id of the migration."""
    decisions: dict[str, PlacementDecision] = field(default_factory=dict)
    """Newest decision on each pod of the last hour, by uid."""
    decisions_cut: bool = False
    """Whether a limit was reached before all decisions of the hour were read."""
    outcomes: dict[str, CommandOutcome] = field(default_factory=dict)
    """Newest outcome by command: bind, evict."""
    policy: PolicyRecord | None = None
    """The newest policy record; None: the default policy applies."""
    groups: dict[str, Group] = field(default_factory=dict)
    """Consumer groups of workers, and of the duties of this cluster, by name."""
    extents: dict[str, tuple[Extent, ...]] = field(default_factory=dict)
    """First and next offsets of topics that a group reads, by topic."""

    @property
    def is_known(self) -> bool:
        """Whether a record other than a policy names the cluster; a policy may have a mistyped name."""
        seen = self.nodes or self.metrics or self.decisions or self.migrations
        return bool(seen) or (self.round is not None and any(p.nodes for p in self.round.pools))


def read_kafka(connection: Connection) -> KafkaState:
    """Read brokers, and compare topics with their expected settings. Raises BrokerUnavailable."""
    expected = expected_topics(connection.settings)
    names = [topic.name for topic in expected]
    metadata = connection.read_metadata()
    partitions = {
        (name, partition.id): partition
        for name in metadata.topics.keys() & set(names)
        for partition in metadata.topics[name].partitions.values()
    }
    return KafkaState(
        servers=",".join(connection.settings.servers()),
        brokers=len(metadata.brokers),
        embedded=connection.embedded,
        topics=compare_all(expected, find_topics(connection, names)),
        leaderless=frozenset(key for key, partition in partitions.items() if partition.leader < 0),
        partly_copied=sum(
            partition.leader >= 0 and len(partition.isrs) < len(partition.replicas)
            for partition in partitions.values()
        ),
    )


def read_nodes(
    connection: Connection, kafka: KafkaState, cluster: str, now_ms: int
) -> ClusterRecords:
    """Read nodes and metrics, the newest round, clock and policy. Raises BrokerUnavailable."""
    records = ClusterRecords(cluster, now_ms)
    records.partition = partition_for(cluster.encode(), connection.settings.partitions)
    records.unreadable = frozenset(t for t, p in kafka.leaderless if p == records.partition)
    records.tick_ms = next(
        (tick.now_ms for tick in _read_newest(connection, records, ClockTick)), None
    )
    records.policy = next(_read_newest(connection, records, PolicyRecord), None)
    _read_states(connection, records)
    _read_metrics(connection, records)
    records.round = next(_read_newest(connection, records, RebalanceRound), None)
    return records


def read_cluster(
    connection: Connection, kafka: KafkaState, cluster: str, now_ms: int
) -> ClusterRecords:
    """Read everything about a cluster. Raises BrokerUnavailable."""
    records = read_nodes(connection, kafka, cluster, now_ms)
    _read_moves(connection, records)
    _read_decisions(connection, records)
    for outcome in _read_newest(connection, records, CommandOutcome):
        records.outcomes.setdefault(outcome.command, outcome)
        if records.outcomes.keys() == {"bind", "evict"}:
            break
    duties = [name_duty_group(duty, cluster) for duty in DUTIES]
    records.groups = read_groups(connection, [*WORKER_GROUPS, *duties])
    committed = {partition for group in records.groups.values() for partition in group.committed}
    topics = {topic for topic, _ in committed} & kafka.topics.keys() - set(kafka.missing)
    topics -= {topic for topic, _ in kafka.leaderless}
    records.extents = read_extents(
        connection, dict.fromkeys(topics, connection.settings.partitions)
    )
    return records


def list_clusters(connection: Connection, kafka: KafkaState) -> list[str]:
    """Return the clusters that the newest records name. Raises BrokerUnavailable."""
    names: set[str] = set()
    unreadable = {topic for topic, _ in kafka.leaderless}
    for topic in _NAMING_TOPICS - unreadable:
        past = PastMessages(connection, topic, None, 1_000)
        names.update(message.cluster for message in past.newest())
    return sorted(names)


def _read_newest(
    connection: Connection,
    records: ClusterRecords,
    *classes: type[Any],
    progress: SearchProgress | None = None,
) -> Iterator[Any]:
    """Yield the cluster's messages of some classes of one topic, newest first; none if it is unreadable."""
    topic = TOPIC_OF[classes[0]]
    if topic in records.unreadable:
        return
    past = PastMessages(connection, topic, records.cluster, RECORDS_MAX[topic])
    for message in past.newest(progress):
        if isinstance(message, classes):
            yield message


def _read_states(connection: Connection, records: ClusterRecords) -> None:
    """Read back to the beginning of the newest complete list, which contains every node."""
    states: dict[str, NodeState] = {}
    complete: str | None = None
    for message in _read_newest(connection, records, NodeState, ListBegin, ListEnd):
        if isinstance(message, NodeState):
            states.setdefault(message.node, message)
        elif isinstance(message, ListEnd):
            complete = complete or message.list_id
        elif message.list_id == complete:
            break
    records.nodes = {name: state for name, state in states.items() if state.event != "removed"}


def _read_metrics(connection: Connection, records: ClusterRecords) -> None:
    """Read until every node has a metric, or two per node and `_EXTRA_METRICS` were read.

    In the latter case a node without a metric has not reported for two intervals. Decoding takes most of
    the time, so pods are not decoded (150,000 take seconds).
    """
    if "node-metrics" in records.unreadable:
        return
    past = PastMessages(connection, "node-metrics", records.cluster, RECORDS_MAX["node-metrics"])
    count = 0
    for record in past.records(SearchProgress()):
        if record.key != records.cluster.encode():
            continue
        nodes = len(records.nodes) or len(records.metrics)
        count += 1
        if len(records.metrics) == len(records.nodes) > 0 or count > 2 * nodes + _EXTRA_METRICS:
            break
        metric, pods = _decode_without_pods(record.value or b"")
        if metric is None or metric.node in records.metrics:
            continue
        if metric.node in records.nodes or not records.nodes:
            records.metrics[metric.node] = metric
            records.measured_pods[metric.node] = pods


def _decode_without_pods(value: bytes) -> tuple[NodeMetric | None, int]:
    """Return the metric without its pods, and their number."""
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None, 0
    if not isinstance(fields, dict):
        return None, 0
    pods = fields.pop("pods", ())
    fields.pop("lifetimes", None)  # has an entry for each pod
    metric = decode("node-metrics", orjson.dumps(fields))
    return (metric, len(pods)) if isinstance(metric, NodeMetric) else (None, 0)


def _read_moves(connection: Connection, records: ClusterRecords) -> None:
    since_ms: int | None = None
    for message in _read_newest(connection, records, MigrationStatus, MoveOutcome, RebalanceRound):
        at_ms = _time_of(message)
        since_ms = since_ms or at_ms - BACK_MS
        if at_ms < since_ms:
            break
        if isinstance(message, MigrationStatus):
            records.migrations.setdefault(message.migration_id, message)
        elif isinstance(message, MoveOutcome):
            records.moves.setdefault(message.migration_id, message)


def _time_of(message: RebalanceRound | MigrationStatus | MoveOutcome) -> int:
    if isinstance(message, RebalanceRound):
        return message.decided_at_ms
    return message.ended_at_ms if isinstance(message, MoveOutcome) else message.happened_at_ms


def _read_decisions(connection: Connection, records: ClusterRecords) -> None:
    progress = SearchProgress()
    since_ms: int | None = None
    for decision in _read_newest(connection, records, PlacementDecision, progress=progress):
        since_ms = since_ms or decision.decided_at_ms - BACK_MS
        if decision.decided_at_ms < since_ms:
            return
        records.decisions.setdefault(decision.pod.uid, decision)
    records.decisions_cut = bool(progress.records) and not progress.whole
