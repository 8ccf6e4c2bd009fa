"""One partition on a real stage, fed with messages, with the rows that a worker around it keeps.

`World` has the cluster stage, `SampleWorld` the aggregate stage.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pytest

from schemas.base.refusals import Refusal
from schemas.messages.commands import EvictionCommand
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.pods import Pod
from schemas.messages.rounds import RebalanceRound
from schemas.storage.tables import is_of_cluster, kind_of_key
from schemas.topics.catalog import TOPIC_OF, key_of
from schemas.topics.codec import decode, encode, encode_fields
from streams.aggregate.collect import AggregateLimits, PoolRules
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.cluster.state import ClusterState
from streams.rebalance.candidates import Candidate, Gate
from streams.stage.cause import Cause
from streams.stage.packing import apply_changes
from streams.stage.records import InputRecord, OutputMessage, OutputRecord, StageResult, read_row
from tests.streams.builders import (
    AS_OF,
    CLUSTER,
    NO_LIMITS,
    QUICK_COLLECTING,
    START_MS,
    at,
    lifecycle,
    metric,
    node,
    pod_metric,
    policy_record,
    tick,
)


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
            *(each.model_copy(update={"list_id": list_id}) for each in messages),
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
        for each in outputs:
            kept.get(type(each), []).append(each)

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
        return [each.request.pod.uid for each in self.state.placement.pending]

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
        found = self.state.inventory.find_held(uid)
        assert found is not None
        given = {
            "pool": "default",
            "phase": "node",
            "reason": "node is overutilized",
            "target": None,
            "usage": {},
            **fields,
        }
        candidate = Candidate(found[1], node or found[0].name, **given)
        offset = self.log.ends["clock"] = self.log.ends.get("clock", 0) + 1
        cause = Cause(CLUSTER, "clock", 0, offset, at(self.seconds), AS_OF)
        migrations = self.state.migrations
        protected = migrations.lifecycle.gates.protections.explain(found[1])
        answer = (
            (None if protected is None else Gate("Protection", protected))
            or migrations.hold_back(found[1], candidate.node, cause.now_ms)
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
    world.send(*(lifecycle("seen", each, name) for each, name in pods))
    return world


def only(decisions: Sequence[PlacementDecision]) -> PlacementDecision:
    """The one decision that there is."""
    assert len(decisions) == 1, [each.outcome for each in decisions]
    return decisions[0]


def outcomes(decisions: Sequence[PlacementDecision]) -> list[tuple[str, str]]:
    """Pod and outcome of each decision."""
    return [(each.pod.uid, each.outcome) for each in decisions]


def count_calls(patch: pytest.MonkeyPatch, owner: Any, *names: str) -> Counter[str]:
    """Count from now on how often functions of a class or module are called, by name."""
    calls = Counter[str]()

    def count(name: str) -> None:
        call = getattr(owner, name)

        def counting(*given: Any, **named: Any) -> Any:
            calls[name] += 1
            return call(*given, **named)

        patch.setattr(owner, name, counting)

    for name in names:
        count(name)
    return calls
