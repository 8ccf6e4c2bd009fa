"""A cluster stage with what it has read and written, as the worker around it keeps them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.messages.clock import ClockTick
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import MigrationRequest
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.nodes import NodeState
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.messages.workloads import DisruptionBudget, WorkloadState
from schemas.storage.tables import kind_of_key
from schemas.topics.codec import decode, encode
from streams.cluster.stage import ClusterStage
from streams.cluster.state import ClusterState
from streams.stage.packing import apply_changes
from streams.stage.records import InputRecord, StageResult, read_row
from tests.streams.cluster.builders import CLUSTER, metric, pod_metric, tick
from tests.streams.outputs import read_output

_TOPICS: dict[type, str] = {
    NodeState: "node-state",
    PodLifecycle: "pod-lifecycle",
    SchedulingRequest: "scheduling-requests",
    PolicyRecord: "policies",
    NodeMetric: "node-metrics",
    ClockTick: "clock",
    CommandOutcome: "command-outcomes",
    MigrationRequest: "migration-requests",
    WorkloadState: "pod-lifecycle",
    DisruptionBudget: "pod-lifecycle",
    NamespaceState: "pod-lifecycle",
    PriorityClassState: "pod-lifecycle",
}

Row = tuple[str, bytes]


class Log:
    """Turns messages into records, numbered per topic."""

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.ends: dict[str, int] = {}
        self.records: list[InputRecord] = []

    def message(self, message: Any, topic: str | None = None) -> InputRecord:
        """The record of a message; those of lists need their topic."""
        key = str(self.partition) if isinstance(message, ClockTick) else message.cluster
        return self.raw(topic or _TOPICS[type(message)], encode(message), key.encode())

    def raw(self, topic: str, value: bytes | None, key: bytes | None) -> InputRecord:
        """A record as it is."""
        offset = self.ends.get(topic, 0)
        self.ends[topic] = offset + 1
        record = InputRecord(topic, self.partition, offset, key, value, timestamp_ms=0)
        self.records.append(record)
        return record


class Run:
    """A stage, the table rows that it has written, and what it has said."""

    def __init__(self, partition: int = 0, partitions: int = 1) -> None:
        self.partition, self.partitions = partition, partitions
        self.log = Log(partition)
        self.stage = ClusterStage(partition, partitions)
        self.rows: dict[str, bytes] = {}
        self.outputs: list[bytes] = []
        self.dead_letters: list[DeadLetter] = []

    @property
    def state(self) -> ClusterState:
        """The state of the one cluster that builders speak of."""
        return self.stage.clusters[CLUSTER]

    def say(self, *messages: Any, topic: str | None = None) -> list[PlacementDecision]:
        """Apply messages as one batch; answers with the decisions."""
        return self.apply([self.log.message(message, topic) for message in messages])

    def full_list(self, topic: str, list_id: str, *messages: Any) -> list[PlacementDecision]:
        """Apply a full list."""
        begin = ListBegin(cluster=CLUSTER, list_id=list_id)
        end = ListEnd(cluster=CLUSTER, list_id=list_id)
        named = [each.model_copy(update={"list_id": list_id}) for each in messages]
        return self.say(begin, *named, end, topic=topic)

    def apply(self, records: Sequence[InputRecord]) -> list[PlacementDecision]:
        """Apply records as one batch; answers with the decisions among what it says."""
        result = self.stage.apply(records)
        self.keep(result)
        said = [read_output(output.topic, output.value) for output in result.outputs]
        return [each for each in said if isinstance(each, PlacementDecision)]

    def keep(self, result: StageResult) -> None:
        """Take over what a batch came to."""
        self.outputs += [output.value for output in result.outputs]
        for letter in result.dead_letters:
            read = decode("dead-letters", letter.value)
            assert isinstance(read, DeadLetter)
            assert read.category != "internal", f"a defect of ours: {read.reason}"
            self.dead_letters.append(read)
        keys = [row.key for row in result.rows]
        assert len(keys) == len(set(keys)), "a key occurs once in a batch"
        apply_changes(self.rows, result.rows)

    def restart(self, rows: Iterable[Row] | None = None) -> None:
        """Go on with a stage that is put together from the rows, in the order given."""
        self.stage = ClusterStage.restore(
            self.partition, self.partitions, self.rows if rows is None else dict(rows)
        )

    def stored(self) -> list[Row]:
        """Keys and values of the table rows."""
        return list(self.rows.items())

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

    def measure(self, used: Mapping[str, int], seconds: int) -> None:
        """A tick, and a metric of node-1 with the cpu that pods of it use, by uid."""
        pods = tuple(pod_metric(uid, cpu=cpu) for uid, cpu in used.items())
        self.say(tick(seconds), metric(cpu=sum(used.values()), seconds=seconds, pods=pods))


def decision(value: bytes) -> PlacementDecision:
    """A decision as its reader sees it."""
    read = decode("placement-decisions", value)
    assert isinstance(read, PlacementDecision)
    return read


def only(decisions: Sequence[PlacementDecision]) -> PlacementDecision:
    """The one decision that there is."""
    assert len(decisions) == 1, [each.outcome for each in decisions]
    return decisions[0]


def cluster(*messages: Any) -> Run:
    """A run of one cluster that got these messages at second 0."""
    run = Run()
    run.say(tick(), *messages)
    return run


def waiting(run: Run) -> list[str]:
    """uids of the pods that wait, in the order of arrival."""
    return [each.request.pod.uid for each in run.state.placement.pending]


def outcomes(decisions: Sequence[PlacementDecision]) -> list[tuple[str, str]]:
    """Pod and outcome of each decision."""
    return [(each.pod.uid, each.outcome) for each in decisions]
