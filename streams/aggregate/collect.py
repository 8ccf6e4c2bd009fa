"""Collect policies in the form that the stage reads, and the limits of the stage.

They come as records of the log (`schemas.messages.collect`), which the cluster stage makes of a cluster's
policy; a sample names the pool of its node, and a pool that no policy names has the default one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.messages.collect import NodeCollectPolicy
from schemas.messages.metrics import PODS_PER_METRIC_MAX
from schemas.messages.usage import HOST_APPLICATIONS_PER_SAMPLE_MAX

#: Longest that the names of one pod can be together: namespace, name, uid, priority class.
_MEMBER_CHARACTERS_MAX = 253 + 253 + 128 + 253

#: Koordinator's names of memory readings, and the fields of `MemoryReadings` that hold them.
_MEMORY_FIELDS = {
    "usageWithoutPageCache": "usage_without_page_cache_bytes",
    "usageWithPageCache": "usage_with_page_cache_bytes",
}


@dataclass(frozen=True, slots=True)
class CollectRules:
    """How the samples of a node become its metric."""

    average_ms: int = 300_000
    """Window of the averages."""
    report_ms: int = 60_000
    """Time between two reports, in the samples' time."""
    durations_ms: tuple[int, ...] = (300_000, 600_000, 1_800_000)
    """Windows of the percentiles."""
    memory_field: str = "usage_without_page_cache_bytes"
    """Field of `MemoryReadings` that counts as memory."""

    @classmethod
    def of(cls, given: NodeCollectPolicy) -> "CollectRules":
        """The policy as a record gives it."""
        return cls(
            given.average_ms, given.report_ms, given.durations_ms, _MEMORY_FIELDS[given.memory]
        )


@dataclass(frozen=True, slots=True)
class Collecting:
    """The policies of all pools of a cluster."""

    default: CollectRules = CollectRules()
    pools: Mapping[str, CollectRules] = field(default_factory=dict)
    horizon_ms: int = field(init=False)
    """How long samples are kept behind a node's newest: the longest window of any pool. It is the
    same for all nodes of the cluster, so what is kept does not depend on when a node changed its
    pool."""
    average_horizon_ms: int = field(init=False)
    """How long figures of pods are kept: the longest average window of any pool."""

    def __post_init__(self) -> None:
        policies = (self.default, *self.pools.values())
        average_ms = max(policy.average_ms for policy in policies)
        durations_ms = (duration for policy in policies for duration in policy.durations_ms)
        object.__setattr__(self, "average_horizon_ms", average_ms)
        object.__setattr__(self, "horizon_ms", max((average_ms, *durations_ms)))

    @classmethod
    def of(cls, default: NodeCollectPolicy, pools: Mapping[str, NodeCollectPolicy]) -> "Collecting":
        """The policies as a record gives them."""
        of_pools = {name: CollectRules.of(given) for name, given in pools.items()}
        return cls(CollectRules.of(default), of_pools)

    def of_pool(self, pool: str | None) -> CollectRules:
        """The policy of a node whose newest sample names this pool."""
        return self.default if pool is None else self.pools.get(pool, self.default)


@dataclass(frozen=True, slots=True)
class AggregateLimits:
    """Bounds of the stage; what exceeds one goes to `dead-letters` with the limit's name."""

    future_ms: int = 60_000
    """A sample may be so much later than the timestamp of its own record."""
    forget_after_ms: int = 1_800_000
    """A node is forgotten so long after its newest sample has left the longest window, by the clock
    of the partition's samples."""
    sweep_records: int = 64
    """Vanished nodes are looked for once in this many records, or in as many as there are nodes."""
    nodes_per_partition: int = 20_000
    """Nodes that a partition holds."""
    policies_per_partition: int = 20_000
    """Clusters whose collect policy a partition holds."""
    samples_per_node: int = 8_192
    """Samples within the longest window: half an hour of four samples a second."""
    resources_per_node: int = 32
    """Different resources in a node's window."""
    pods_per_node: int = PODS_PER_METRIC_MAX
    """Different pods within the average window."""
    host_applications_per_node: int = HOST_APPLICATIONS_PER_SAMPLE_MAX
    """Different host applications within the average window."""
    name_characters_per_node: int = 262_144
    """Characters of all names of pods and host applications within the average window."""
    pod_figures_per_node: int = 2_000_000
    """Numbers kept for pods within the average window: 16 MB."""
    metric_bytes: int = 4 * 1024 * 1024
    """Size of a node metric, which no reader takes larger; one without its pods is emitted instead."""

    @property
    def members_never_too_many(self) -> int:
        """This many pods and host applications keep every limit, whatever they are called."""
        return min(
            self.pods_per_node,
            self.host_applications_per_node,
            self.name_characters_per_node // _MEMBER_CHARACTERS_MAX,
        )
