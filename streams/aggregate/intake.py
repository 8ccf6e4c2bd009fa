"""Applies the records of `node-usage` to the state of a partition.

A sample that is at least a report interval newer than the node's last report emits a metric with the sample's
time. Collect policies are records between the samples, written by the cluster stage. A policy applies to
later samples. So the result depends only on the order of one topic.

A node's windows are dropped in these cases, which the order of records determines too:

- The node sends no more samples.
- The clock of the node was set back, so that its samples would be refused until the old time is reached.
- The node was removed, and a new node with the same name was added.
"""

from collections import Counter

from schemas.base.refusals import Refusal, check_not_future
from schemas.messages.usage import CollectPolicyRecord, NodeCollectPolicy, NodeUsage
from schemas.topics.catalog import node_key
from schemas.topics.codec import decode, encode_fields
from schemas.topics.partitions import check_key, check_partition
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.lifetimes import MemberLifetimes
from streams.aggregate.node import NodeWindows
from streams.aggregate.partition import PartitionState
from streams.aggregate.report import build_metric
from streams.aggregate.rows import SampleEntry
from streams.aggregate.samples import KnownSample, SampleFigures, decode_known, extract_figures
from streams.stage.records import InputRecord, OutputRecord

INPUT = "node-usage"
OUTPUT = "node-metrics"


class SampleIntake:
    """Applies samples and collect policies of one partition."""

    def __init__(
        self,
        state: PartitionState,
        partitions: int,
        limits: AggregateLimits,
        counts: Counter[str],
    ) -> None:
        """`counts` counts records by result; the other arguments are those of `AggregateStage`."""
        self._state = state
        self._partitions = partitions
        self._limits = limits
        self._counts = counts
        self.metrics: list[OutputRecord] = []
        """Metrics emitted in the batch."""

    def apply(self, record: InputRecord) -> Refusal | None:
        """Apply a record, or return why it is refused."""
        refusal = check_partition(record.key, record.partition, self._partitions)
        if refusal is not None:
            return refusal
        node = self._state.nodes.get(get_node_key(record))
        if node is not None:
            self._state.touch(node)
            sample = decode_known(
                record.value, node.cluster, node.name, node.pods.members, node.samples.resources
            )
            if sample is not None:
                return self._apply_sample(sample, record)
        message: NodeUsage | CollectPolicyRecord | Refusal = decode(INPUT, record.value)
        if not isinstance(message, Refusal):
            message = check_key(INPUT, record.key, message) or message
        match message:
            case Refusal():
                return message
            case CollectPolicyRecord():
                return self._adopt(message, record.offset)
        return self._apply_sample(message, record)

    def _adopt(self, policy: CollectPolicyRecord, offset: int) -> Refusal | None:
        """Apply a collect policy, unless the cluster has it already."""
        policies = self._state.policies
        before = policies.by_cluster.get(policy.cluster)
        if before is None and len(policies.by_cluster) >= self._limits.policies_per_partition:
            return Refusal(
                "limit",
                f"policies_per_partition: the partition has policies of {len(policies.by_cluster)} clusters; "
                f"allowed are at most {self._limits.policies_per_partition}",
            )
        if before is not None and before.rules == PoolRules(policy.default, policy.pools):
            self._counts["policy_repeated"] += 1
        else:
            self._state.apply_policy(policy, offset)
            self._counts["policy_adopted"] += 1
        return None

    def _apply_sample(
        self, message: NodeUsage | KnownSample, record: InputRecord
    ) -> Refusal | None:
        # A record without a timestamp has no time to compare that of the sample with.
        if record.timestamp_ms >= 0:
            refusal = check_not_future(
                message.sampled_at_ms, record.timestamp_ms, self._limits.future_ms
            )
            if refusal is not None:
                return refusal
        rules = self._state.policies.get_pool_rules(message.cluster).get_rules(message.pool)
        sample = extract_figures(message, record.value or b"", rules.memory_field)
        impossible = sample.find_impossible(message.capacity or {})
        if impossible is not None:
            return Refusal("limit", f"usage, {impossible}")
        node = self._state.nodes.get(node_key(message.cluster, message.node))
        if node is None:
            if len(self._state.nodes) >= self._limits.nodes_per_partition:
                self._state.clock.add(sample.sampled_at_ms)
                return Refusal(
                    "limit",
                    f"nodes_per_partition: {message.cluster}/{message.node} is one node too many; "
                    f"allowed are at most {self._limits.nodes_per_partition}",
                )
            node = self._state.create(message.cluster, message.node, record.offset)
        return self._add_sample(node, sample, rules, record.offset)

    def _add_sample(
        self, node: NodeWindows, sample: SampleFigures, rules: NodeCollectPolicy, offset: int
    ) -> Refusal | None:
        state = self._state
        pool_rules = state.policies.get_pool_rules(node.cluster)
        state.clock.add(sample.sampled_at_ms)
        verdict = node.check_sample(sample, pool_rules, self._limits)
        is_new_node = sample.node_created_at_ms > (node.newest_ms or sample.node_created_at_ms)
        if is_new_node or (isinstance(verdict, Refusal) and self._was_set_back(node, sample)):
            verdict = node.begin(offset).check_sample(sample, pool_rules, self._limits)
            if verdict == "add":
                self._counts["renewed" if is_new_node else "set_back"] += 1
                node.clear()
                node.since_offset = offset
        if verdict == "duplicate":
            self._counts["duplicate"] += 1
            return None
        if isinstance(verdict, Refusal):
            return verdict
        if sample.unmeasured_pods:
            self._counts["unmeasured_pods"] += sample.unmeasured_pods
        if node.key not in state.nodes:
            state.add(node)
        figures = node.add_sample(sample, offset, pool_rules)
        is_newest = sample.sampled_at_ms == node.newest_ms
        self._counts["taken" if is_newest else "taken_late"] += 1
        refusal = None
        if is_newest and sample.sampled_at_ms >= node.reported_at_ms + rules.report_ms:
            lifetimes = node.find_lifetimes(pool_rules)
            if lifetimes is not None and lifetimes.at_ms <= node.reported_at_ms:
                lifetimes = None
            node.reported_at_ms = sample.sampled_at_ms
            refusal = self._report(node, rules, sample, lifetimes)
        state.samples_log.append(
            SampleEntry(
                node.key,
                offset,
                node.since_offset,
                sample.sampled_at_ms,
                node.reported_at_ms,
                sample.digest,
                tuple(node.samples.resources),
                figures,
            )
        )
        return refusal

    def _report(
        self,
        node: NodeWindows,
        rules: NodeCollectPolicy,
        sample: SampleFigures,
        lifetimes: MemberLifetimes | None,
    ) -> Refusal | None:
        metric = build_metric(node, rules, sample, lifetimes)
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
        self.metrics.append(OutputRecord(OUTPUT, node.cluster, value))
        self._counts["reported"] += 1
        return refusal

    def _was_set_back(self, node: NodeWindows, sample: SampleFigures) -> bool:
        """Tell whether earlier samples were ahead of the partition's clock, and this one is not."""
        newest_ms = node.newest_ms
        horizon_ms = self._state.policies.get_pool_rules(node.cluster).horizon_ms
        if newest_ms is None or sample.sampled_at_ms >= newest_ms - horizon_ms:
            return False
        now_ms = self._state.clock.now_ms
        if now_ms is None or newest_ms <= now_ms + horizon_ms:
            return False
        return abs(sample.sampled_at_ms - now_ms) <= horizon_ms

    def sweep(self) -> None:
        """Forget nodes without new samples; searches once in as many records as there are nodes."""
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
            horizon_ms = state.policies.get_pool_rules(node.cluster).horizon_ms
            if (node.newest_ms or 0) < oldest_ms - horizon_ms:
                state.forget(node)
                self._counts["forgotten"] += 1


def get_node_key(record: InputRecord) -> str:
    """Return the key of the record's node; no node has a key that is not UTF-8."""
    return (record.key or b"").decode(errors="surrogateescape")
