"""The aggregate stage of one partition: records of `node-usage` in, node metrics and rows out.

A fold: what comes out depends on the records and their order alone, not on how they are cut into
batches and not on restarts in between. A record that cannot be used goes to `dead-letters` and
changes nothing else. A sample that is a report interval or more after the node's last report emits
a metric, whose update time is the sample's.

A cluster's collect policy comes among its samples, as a record that the cluster stage wrote: it
holds from its place in the log on. So the order of samples and policies is that of one log,
whenever and wherever they are applied.

A defect of loadstream that a sample shows, in applying it or in writing its rows, touches its node
alone: the sample is refused, and the node is forgotten, since what is in memory of it may be half
of what it should be. Its windows begin anew with the next sample, also with one of the same batch.

Two things are seen to that no single sample says, at places which the order of the log fixes: a
node that vanished is forgotten, and a node whose clock was set back begins anew instead of being
refused for as long as its clock had been ahead.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from schemas.codec import decode
from schemas.collect import CollectPolicyRecord
from schemas.partitions import misplaced
from schemas.refusals import Refusal, from_the_future
from schemas.topics import key_of, node_key
from schemas.usage import NodeUsage
from streams.aggregate.collect import AggregateLimits, Collecting, CollectPolicy
from streams.aggregate.node import NodeState
from streams.aggregate.partition import PartitionState
from streams.aggregate.reading import SampleFigures, read
from streams.aggregate.report import encoded, report
from streams.aggregate.rows import SampleEntry
from streams.aggregate.shortcut import shortcut
from streams.aggregate.unwritable import unwritable
from streams.stage.dead_letters import buried
from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult
from streams.stage.statistics import Counts, Figures

logger = logging.getLogger(__name__)

INPUT = "node-usage"
OUTPUT = "node-metrics"


class AggregateStage:
    """Windows of the nodes of one partition; see `streams.stage.records.Stage`."""

    def __init__(
        self,
        state: PartitionState,
        partitions: int,
        limits: AggregateLimits,
        *,
        has_table: bool = True,
    ) -> None:
        """Start from a state.

        Args:
            state: of the partition.
            partitions: how many `node-usage` has: a key must hash to the one it is found in.
            limits: of the stage.
            has_table: without one no rows are made; all else is the same.
        """
        self.state = state
        self.counts: Counter[str] = Counter()
        """How many records came to what, since `take_counts`: taken, taken_late, duplicate,
        redelivered, refused_<category>; and reported, forgotten, set_back, policy_adopted,
        policy_repeated."""
        self._partitions = partitions
        self._limits = limits
        self._has_table = has_table
        self._outputs: dict[int, list[OutputRecord]] = {}
        """What the batch emits, by the offset of the record that causes it."""
        self._dead_letters: dict[int, list[OutputRecord]] = {}

    @property
    def positions(self) -> Mapping[str, int]:
        """Offset of the record applied last."""
        return {INPUT: self.state.position} if self.state.position >= 0 else {}

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Id of the topic that the position is of."""
        return {} if self.state.topic_id is None else {INPUT: self.state.topic_id}

    @property
    def now_ms(self) -> int | None:
        """The time of the partition's samples."""
        return self.state.clock.now_ms

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records in the order of the log; those applied before change nothing."""
        applied: list[InputRecord] = []
        for record in records:
            if record.topic_id is not None:
                self.state.begin_topic(record.topic_id)
            if record.offset <= self.state.position:
                self.counts["redelivered"] += 1
                continue
            applied.append(record)
            self.state.position = record.offset
            self._put(record)
            self._sweep()
        rows = self._rows(applied) if applied else ()
        outputs, self._outputs = _in_order(self._outputs), {}
        dead_letters, self._dead_letters = _in_order(self._dead_letters), {}
        return StageResult(outputs, rows, dead_letters)

    def prepare(self) -> bool:
        """Nothing waits here: each sample is worked out when it comes."""
        return False

    def take_counts(self) -> Counts:
        """What was done since the last call."""
        taken, self.counts = self.counts, Counter()
        counts = Counts(results=Counter(taken))
        for result, number in taken.items():
            if result.startswith("refused_"):
                counts.refused[INPUT, result.removeprefix("refused_")] += number
        return counts

    def figures(self) -> Figures:
        """The partition's nodes, and the time of their samples."""
        return Figures(self.state.clock.now_ms, len(self.state.nodes))

    def _put(self, record: InputRecord) -> None:
        refusal = self._contained(record)
        if refusal is not None:
            self._refuse(record, refusal)

    def _contained(self, record: InputRecord) -> Refusal | None:
        """Apply a record; a defect of ours touches its node alone, which begins anew."""
        try:
            return self._apply(record)
        except Exception as error:
            logger.exception("%s offset %d", record.topic, record.offset)
            node = self.state.nodes.get(_node_of(record))
            if node is not None:
                self.state.forget(node)
            return Refusal("internal", f"{type(error).__name__}: {error}")

    def _rows(self, applied: list[InputRecord]) -> tuple[RowChange, ...]:
        """Rows of the batch; what cannot be written is left out, and its node begins anew."""
        if not self._has_table:
            self.state.settle()
            return ()
        left = list(applied)
        while True:
            try:
                return self.state.changes()
            except Exception:
                blamed = unwritable(self.state, left[0].offset, partial(_newest_of, left))
                if not blamed:
                    raise
                logger.exception("rows of %s cannot be written", sorted(blamed))
                for name, (offset, cause) in sorted(blamed.items()):
                    left = self._leave_out(name, offset, cause, left)

    def _leave_out(
        self, name: str, offset: int, cause: Exception, left: list[InputRecord]
    ) -> list[InputRecord]:
        """A record makes a node unwritable: refuse it, and apply those of the node after it once
        more.

        Answers with the batch's records that have not failed.
        """
        self.state.drop(name, offset)
        again = [each for each in left if each.offset >= offset and _node_of(each) == name]
        for record in again:
            self._outputs.pop(record.offset, None)
            self._dead_letters.pop(record.offset, None)
        failed, *after = again
        self._refuse(failed, Refusal("internal", f"{type(cause).__name__}: {cause}"))
        for record in after:
            self._put(record)
        return [each for each in left if each is not failed]

    def _apply(self, record: InputRecord) -> Refusal | None:
        refusal = misplaced(record.key, record.partition, self._partitions)
        if refusal is not None:
            return refusal
        node = self.state.nodes.get(_node_of(record))
        if node is not None:
            self.state.touch(node)
            of_pool = self.state.policies.of(node.cluster).of_pool
            known = shortcut(record.value, node, lambda pool: of_pool(pool).memory_field)
            if known is not None:
                pool, reading = known
                policy = of_pool(pool)
                return self._from_the_future(reading.sampled_at_ms, record) or self._take(
                    node, reading, policy, record.offset
                )
        message: NodeUsage | CollectPolicyRecord | Refusal = decode(INPUT, record.value)
        if not isinstance(message, Refusal):
            message = _mislabelled(record, message) or message
        match message:
            case Refusal():
                return message
            case CollectPolicyRecord():
                return self._adopt(message, record.offset)
        return self._from_the_future(message.sampled_at_ms, record) or self._apply_sample(
            message, record
        )

    def _adopt(self, policy: CollectPolicyRecord, offset: int) -> Refusal | None:
        """A cluster's collect policy comes, which may be the one that it has."""
        policies = self.state.policies
        found = policies.all.get(policy.cluster)
        if found is None and len(policies.all) >= self._limits.policies_per_partition:
            return Refusal(
                "limit",
                f"policies_per_partition: the policy of {policy.cluster} is one too many; allowed are at most "
                f"{self._limits.policies_per_partition}",
            )
        if found is not None and found.collecting == Collecting.of(policy.default, policy.pools):
            self.counts["policy_repeated"] += 1
        else:
            self.state.adopt(policy, offset)
            self.counts["policy_adopted"] += 1
        return None

    def _apply_sample(self, sample: NodeUsage, record: InputRecord) -> Refusal | None:
        """A sample that is read by its contract."""
        policy = self.state.policies.of(sample.cluster).of_pool(sample.pool)
        reading = read(sample, record.value or b"", policy.memory_field)
        node = self.state.nodes.get(node_key(sample.cluster, sample.node))
        if node is None:
            if len(self.state.nodes) >= self._limits.nodes_per_partition:
                self.state.clock.hear(reading.sampled_at_ms)
                return Refusal(
                    "limit",
                    f"nodes_per_partition: {sample.cluster}/{sample.node} is one node too many; "
                    f"allowed are at most {self._limits.nodes_per_partition}",
                )
            node = self.state.create(sample.cluster, sample.node, record.offset)
        return self._take(node, reading, policy, record.offset)

    def _take(
        self, node: NodeState, reading: SampleFigures, policy: CollectPolicy, offset: int
    ) -> Refusal | None:
        state = self.state
        collecting = state.policies.of(node.cluster)
        state.clock.hear(reading.sampled_at_ms)
        verdict = node.judge(reading, collecting, self._limits)
        if isinstance(verdict, Refusal) and self._was_set_back(node, reading):
            verdict = NodeState(node.cluster, node.name, offset).judge(
                reading, collecting, self._limits
            )
            if verdict == "take":
                self.counts["set_back"] += 1
                node.clear(state.samples_log, state.pods_log)
                node.since_offset = offset
        if verdict == "duplicate":
            self.counts["duplicate"] += 1
            return None
        if isinstance(verdict, Refusal):
            return verdict
        if node.key not in state.nodes:
            state.keep(node)
        window_ms = collecting.average_horizon_ms
        figures = node.take(reading, offset, window_ms, state.samples_log, state.pods_log)
        is_newest = reading.sampled_at_ms == node.newest_ms
        self.counts["taken" if is_newest else "taken_late"] += 1
        refusal = None
        if is_newest and reading.sampled_at_ms >= node.anchor_ms + policy.report_ms:
            since_ms, node.anchor_ms = node.anchor_ms, reading.sampled_at_ms
            refusal = self._report(node, policy, reading, offset, since_ms)
        state.samples_log.append(
            SampleEntry(
                node.key,
                offset,
                node.since_offset,
                reading.sampled_at_ms,
                node.anchor_ms,
                reading.digest,
                tuple(node.samples.resources),
                figures,
            )
        )
        return refusal

    def _report(
        self,
        node: NodeState,
        policy: CollectPolicy,
        reading: SampleFigures,
        offset: int,
        since_ms: int,
    ) -> Refusal | None:
        metric = report(node, policy, reading.pressure, reading.source, since_ms)
        value = encoded(metric)
        refusal = None
        if len(value) > self._limits.metric_bytes:
            refusal = Refusal(
                "limit",
                f"metric_bytes: the metric of {node.key} has {len(value)} bytes; allowed are at most "
                f"{self._limits.metric_bytes}: it is emitted without its pods and host applications",
            )
            value = encoded({**metric, "pods": [], "host_applications": []})
        self._outputs[offset] = [OutputRecord(OUTPUT, node.cluster, value)]
        self.counts["reported"] += 1
        return refusal

    def _from_the_future(self, at_ms: int, record: InputRecord) -> Refusal | None:
        if record.timestamp_ms < 0:
            return None  # the record has no timestamp to hold its sample against
        return from_the_future(at_ms, record.timestamp_ms, self._limits.future_ms)

    def _was_set_back(self, node: NodeState, reading: SampleFigures) -> bool:
        """Whether a node's newest sample is the odd one out, and not the one that comes after it."""
        newest_ms, horizon_ms = node.newest_ms, self.state.policies.of(node.cluster).horizon_ms
        if newest_ms is None or reading.sampled_at_ms >= newest_ms - horizon_ms:
            return False
        now_ms = self.state.clock.now_ms
        if now_ms is None or newest_ms <= now_ms + horizon_ms:
            return False
        return abs(reading.sampled_at_ms - now_ms) <= horizon_ms

    def _sweep(self) -> None:
        state = self.state
        state.since_sweep += 1
        if state.since_sweep < max(self._limits.sweep_records, len(state.nodes)):
            return
        state.since_sweep = 0
        now_ms = state.clock.now_ms
        if now_ms is None:
            return
        oldest_ms = now_ms - self._limits.forget_after_ms
        for node in list(state.nodes.values()):
            horizon_ms = state.policies.of(node.cluster).horizon_ms
            if (node.newest_ms or 0) < oldest_ms - horizon_ms:
                state.forget(node)
                self.counts["forgotten"] += 1

    def _refuse(self, record: InputRecord, refusal: Refusal) -> None:
        self.counts[f"refused_{refusal.category}"] += 1
        self._dead_letters[record.offset] = buried(record, refusal)


def _mislabelled(record: InputRecord, message: NodeUsage | CollectPolicyRecord) -> Refusal | None:
    expected = key_of(INPUT, message)
    if record.key == expected.encode():
        return None
    return Refusal(
        "invalid",
        f"key: found {record.key!r}; allowed for this cluster and node is {expected!r}",
    )


def _in_order(by_offset: Mapping[int, list[OutputRecord]]) -> tuple[OutputRecord, ...]:
    """All records in the order of what causes them."""
    return tuple(record for offset in sorted(by_offset) for record in by_offset[offset])


def _node_of(record: InputRecord) -> str:
    """Key of the record's node; what is no text is the key of no node."""
    return (record.key or b"").decode(errors="surrogateescape")


def _newest_of(records: Sequence[InputRecord], name: str) -> int:
    return next(each.offset for each in reversed(records) if _node_of(each) == name)
