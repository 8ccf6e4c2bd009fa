"""Takes the records of `node-usage` into the state of a partition.

A sample that is a report interval or more after the node's last report emits a metric, whose update
time is the sample's.

A cluster's collect policy comes among its samples, as a record that the cluster stage wrote: it
holds from its place in the log on. So the order of samples and policies is that of one log,
whenever and wherever they are applied.

Three things are seen to, at places which the order of the log fixes: a node that vanished is
forgotten; a node whose clock was set back begins anew instead of being refused for as long as its
clock had been ahead; and so does a node that was removed and added again under its name.
"""

from collections import Counter

from schemas.base.refusals import Refusal, check_not_future
from schemas.messages.collect import CollectPolicyRecord
from schemas.messages.usage import NodeUsage
from schemas.topics.catalog import key_of, node_key
from schemas.topics.codec import decode, encode_fields
from schemas.topics.partitions import check_partition
from streams.aggregate.collect import AggregateLimits, Collecting, CollectRules
from streams.aggregate.known_sample import KnownSample, decode_known
from streams.aggregate.lifetimes import MemberLifetimes
from streams.aggregate.node import NodeWindows
from streams.aggregate.partition import PartitionState
from streams.aggregate.reading import SampleFigures, read
from streams.aggregate.report import report
from streams.aggregate.rows import SampleEntry
from streams.stage.records import InputRecord, OutputRecord

INPUT = "node-usage"
OUTPUT = "node-metrics"


class SampleIntake:
    """Samples and collect policies of one partition."""

    def __init__(
        self,
        state: PartitionState,
        partitions: int,
        limits: AggregateLimits,
        counts: Counter[str],
    ) -> None:
        """`counts` is where records are counted by what they came to; the rest: as `AggregateStage`."""
        self._state = state
        self._partitions = partitions
        self._limits = limits
        self._counts = counts
        self.metrics: dict[int, OutputRecord] = {}
        """Metrics that samples of the batch have emitted, by offset of the sample."""

    def apply(self, record: InputRecord) -> Refusal | None:
        """Take a record in, or say why not."""
        refusal = check_partition(record.key, record.partition, self._partitions)
        if refusal is not None:
            return refusal
        node = self._state.nodes.get(node_of(record))
        if node is not None:
            self._state.touch(node)
            sample = decode_known(
                record.value, node.cluster, node.name, node.pods.members, node.samples.resources
            )
            if sample is not None:
                return self._apply_sample(sample, record)
        message: NodeUsage | CollectPolicyRecord | Refusal = decode(INPUT, record.value)
        if not isinstance(message, Refusal):
            message = _mislabelled(record, message) or message
        match message:
            case Refusal():
                return message
            case CollectPolicyRecord():
                return self._adopt(message, record.offset)
        return self._apply_sample(message, record)

    def _adopt(self, policy: CollectPolicyRecord, offset: int) -> Refusal | None:
        """A cluster's collect policy comes, which may be the one that it has."""
        policies = self._state.policies
        found = policies.all.get(policy.cluster)
        if found is None and len(policies.all) >= self._limits.policies_per_partition:
            return Refusal(
                "limit",
                f"policies_per_partition: the policy of {policy.cluster} is one too many; allowed are at most "
                f"{self._limits.policies_per_partition}",
            )
        if found is not None and found.collecting == Collecting.of(policy.default, policy.pools):
            self._counts["policy_repeated"] += 1
        else:
            self._state.adopt(policy, offset)
            self._counts["policy_adopted"] += 1
        return None

    def _apply_sample(self, sample: NodeUsage | KnownSample, record: InputRecord) -> Refusal | None:
        refusal = self._from_the_future(sample.sampled_at_ms, record)
        if refusal is not None:
            return refusal
        policy = self._state.policies.of(sample.cluster).of_pool(sample.pool)
        reading = read(sample, record.value or b"", policy.memory_field)
        impossible = reading.find_impossible(sample.capacity) if sample.capacity else None
        if impossible is not None:
            return Refusal("limit", f"usage, {impossible}")
        node = self._state.nodes.get(node_key(sample.cluster, sample.node))
        if node is None:
            if len(self._state.nodes) >= self._limits.nodes_per_partition:
                self._state.clock.hear(reading.sampled_at_ms)
                return Refusal(
                    "limit",
                    f"nodes_per_partition: {sample.cluster}/{sample.node} is one node too many; "
                    f"allowed are at most {self._limits.nodes_per_partition}",
                )
            node = self._state.create(sample.cluster, sample.node, record.offset)
        return self._take(node, reading, policy, record.offset)

    def _take(
        self, node: NodeWindows, reading: SampleFigures, policy: CollectRules, offset: int
    ) -> Refusal | None:
        state = self._state
        collecting = state.policies.of(node.cluster)
        state.clock.hear(reading.sampled_at_ms)
        verdict = node.judge(reading, collecting, self._limits)
        begins = reading.node_created_at_ms > (node.newest_ms or reading.node_created_at_ms)
        if begins or (isinstance(verdict, Refusal) and self._was_set_back(node, reading)):
            verdict = NodeWindows(node.cluster, node.name, offset).judge(
                reading, collecting, self._limits
            )
            if verdict == "take":
                self._counts["renewed" if begins else "set_back"] += 1
                node.clear(state.samples_log, state.pods_log)
                node.since_offset = offset
        if verdict == "duplicate":
            self._counts["duplicate"] += 1
            return None
        if isinstance(verdict, Refusal):
            return verdict
        if node.key not in state.nodes:
            state.keep(node)
        figures = node.take(reading, offset, collecting, state.samples_log, state.pods_log)
        is_newest = reading.sampled_at_ms == node.newest_ms
        self._counts["taken" if is_newest else "taken_late"] += 1
        refusal = None
        if is_newest and reading.sampled_at_ms >= node.anchor_ms + policy.report_ms:
            lifetimes = node.find_lifetimes(collecting)
            if lifetimes is not None and lifetimes.at_ms <= node.anchor_ms:
                lifetimes = None
            node.anchor_ms = reading.sampled_at_ms
            refusal = self._report(node, policy, reading, offset, lifetimes)
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
        node: NodeWindows,
        policy: CollectRules,
        reading: SampleFigures,
        offset: int,
        lifetimes: MemberLifetimes | None,
    ) -> Refusal | None:
        metric = report(node, policy, reading, lifetimes)
        value = encode_fields(metric)
        refusal = None
        if len(value) > self._limits.metric_bytes:
            refusal = Refusal(
                "limit",
                f"metric_bytes: the metric of {node.key} has {len(value)} bytes; allowed are at most "
                f"{self._limits.metric_bytes}: it is emitted without its pods and host applications",
            )
            metric.pop("lifetimes", None)
            value = encode_fields({**metric, "pods": [], "host_applications": []})
        self.metrics[offset] = OutputRecord(OUTPUT, node.cluster, value)
        self._counts["reported"] += 1
        return refusal

    def _from_the_future(self, at_ms: int, record: InputRecord) -> Refusal | None:
        if record.timestamp_ms < 0:
            return None  # the record has no timestamp to hold its sample against
        return check_not_future(at_ms, record.timestamp_ms, self._limits.future_ms)

    def _was_set_back(self, node: NodeWindows, reading: SampleFigures) -> bool:
        """Whether a node's newest sample is the odd one out, and not the one that comes after it."""
        newest_ms, horizon_ms = node.newest_ms, self._state.policies.of(node.cluster).horizon_ms
        if newest_ms is None or reading.sampled_at_ms >= newest_ms - horizon_ms:
            return False
        now_ms = self._state.clock.now_ms
        if now_ms is None or newest_ms <= now_ms + horizon_ms:
            return False
        return abs(reading.sampled_at_ms - now_ms) <= horizon_ms

    def sweep(self) -> None:
        """Forget nodes that vanished, once in as many records as there are nodes."""
        state = self._state
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
                self._counts["forgotten"] += 1


def node_of(record: InputRecord) -> str:
    """Key of the record's node; what is no text is the key of no node."""
    return (record.key or b"").decode(errors="surrogateescape")


def _mislabelled(record: InputRecord, message: NodeUsage | CollectPolicyRecord) -> Refusal | None:
    expected = key_of(INPUT, message)
    if record.key == expected.encode():
        return None
    return Refusal(
        "invalid",
        f"key: found {record.key!r}; allowed for this cluster and node is {expected!r}",
    )
