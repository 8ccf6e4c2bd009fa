"""Samples, policies and records of `node-usage` for tests."""

from collections.abc import Mapping
from typing import Any

import orjson

from schemas.messages.collect import CollectPolicyRecord, NodeCollectPolicy
from schemas.messages.decisions import AsOf
from schemas.messages.usage import NodeUsage
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode
from schemas.topics.partitions import find_policy_numbers, partition_for
from streams.aggregate.collect import CollectRules, PoolRules
from streams.stage.records import InputRecord

AS_OF = AsOf(partition=0, offsets={}, policy_digest="digest")
#: A time of which nothing is special.
T0 = 1_700_000_000_000
SECOND = 1_000
MINUTE = 60_000

#: Windows so short that a test fills them with a few samples.
QUICK = CollectRules(
    average_ms=60 * SECOND, report_ms=30 * SECOND, durations_ms=(40 * SECOND, 120 * SECOND)
)
QUICK_COLLECTING = PoolRules(QUICK)


def windows(
    average_s: int = 60, report_s: int = 30, durations_s: tuple[int, ...] = (40, 120)
) -> NodeCollectPolicy:
    """How a node's samples become metrics; as `QUICK` unless said."""
    return NodeCollectPolicy(
        average_ms=average_s * SECOND,
        report_ms=report_s * SECOND,
        durations_ms=tuple(each * SECOND for each in durations_s),
        memory="usageWithoutPageCache",
    )


def sample(
    at_ms: int,
    cpu: int = 1_000,
    node: str = "n0",
    cluster: str = "c",
    **fields: Any,
) -> dict[str, Any]:
    """A usage sample as its producer writes it; `fields` are added or replace."""
    return {
        "schema_version": 1,
        "cluster": cluster,
        "node": node,
        "sampled_at_ms": at_ms,
        "usage": {"cpu": cpu},
        **fields,
    }


def pod(name: str, cpu: int, uid: str | None = None, **fields: Any) -> dict[str, Any]:
    """Usage of a pod in namespace `default`."""
    return {
        "namespace": "default",
        "name": name,
        "uid": uid or f"uid-{name}",
        "usage": {"cpu": cpu},
        **fields,
    }


class Log:
    """One partition of `node-usage`, as producers fill it; the only partition unless said."""

    def __init__(self, partition: int = 0, partitions: int = 1) -> None:
        self.partition = partition
        self.partitions = partitions
        self.records: list[InputRecord] = []

    def add(self, *samples: Mapping[str, Any]) -> list[InputRecord]:
        """Append samples, each written at its own time; answers with their records."""
        return [
            self.add_raw(
                f"{each['cluster']}/{each['node']}".encode(),
                orjson.dumps(each),
                int(each["sampled_at_ms"]),
            )
            for each in samples
        ]

    def add_policy(
        self,
        default: NodeCollectPolicy,
        pools: Mapping[str, NodeCollectPolicy] | None = None,
        cluster: str = "c",
    ) -> InputRecord:
        """Append a cluster's collect policy, as the cluster stage writes it."""
        policy = CollectPolicyRecord(
            cluster=cluster,
            number=find_policy_numbers(cluster, self.partitions)[self.partition],
            default=default,
            pools=dict(pools or {}),
            as_of=AS_OF,
        )
        return self.add_raw(key_of("node-usage", policy).encode(), encode(policy))

    def add_raw(
        self, key: bytes | None, value: bytes | None, timestamp_ms: int = T0
    ) -> InputRecord:
        """Append a record of any content."""
        record = InputRecord(
            "node-usage", self.partition, len(self.records), key, value, timestamp_ms
        )
        self.records.append(record)
        return record


def read(raw: Mapping[str, Any]) -> NodeUsage:
    """The message of a sample."""
    message = decode("node-usage", orjson.dumps(raw))
    assert isinstance(message, NodeUsage), message
    return message


def node_in(partition: int, partitions: int, cluster: str = "c") -> str:
    """A node whose records belong into this partition."""
    for number in range(10_000):
        if partition_for(f"{cluster}/n{number}".encode(), partitions) == partition:
            return f"n{number}"
    raise AssertionError("no such node")
