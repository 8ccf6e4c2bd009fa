"""`collect`: how usage samples become node metrics, by default and per pool of nodes.

Names come from Koordinator's colocation config. A sample names the pool of its node. A pool inherits
fields that it does not set; a pool that is not listed has the default policy. Windows and intervals
below Koordinator's minimum are refused, while Koordinator raises them silently.
"""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from schemas.messages.usage import (
    WINDOWS_MAX,
    MemoryCollectPolicy,
    NodeCollectPolicy,
)
from schemas.policy.durations import PositiveDuration
from schemas.policy.parts import (
    NODE_POOLS_MAX,
    Conflict,
    Items,
    Name,
    PolicyPart,
    find_repeated,
    int_range,
)

#: Longest window: this many seconds of samples are kept for every node.
WINDOW_SECONDS_MAX = 12 * 3600
_AggregateSeconds = Annotated[int, int_range(60, WINDOW_SECONDS_MAX)]
_ReportSeconds = Annotated[int, int_range(30, WINDOW_SECONDS_MAX)]


class AggregatePolicy(PolicyPart):
    """Windows of the percentiles."""

    durations_ms: Annotated[Items[PositiveDuration], Field(max_length=WINDOWS_MAX)] = Field(
        (300_000, 600_000, 1_800_000), alias="durations"
    )
    """Windows of the percentiles, each at most 12 h."""

    def conflicts(self) -> Iterable[Conflict]:
        for index, duration_ms in enumerate(self.durations_ms):
            if duration_ms in self.durations_ms[:index]:
                message = "the window is listed twice"
                yield Conflict(("durations", index), message, ("durations",))
            if duration_ms > WINDOW_SECONDS_MAX * 1_000:
                message = f"the window is too long; expected at most {WINDOW_SECONDS_MAX // 3600}h"
                yield Conflict(("durations", index), message, ("durations",))


class PoolCollectPolicy(PolicyPart):
    """The collect policy of one pool; absent fields are inherited."""

    name: Name
    """Name of the pool, as usage samples give it."""
    metric_aggregate_duration_seconds: _AggregateSeconds | None = None
    """None: as in `collect`."""
    metric_report_interval_seconds: _ReportSeconds | None = None
    """None: as in `collect`."""
    metric_aggregate_policy: AggregatePolicy | None = None
    """None: as in `collect`."""
    metric_memory_collect_policy: MemoryCollectPolicy | None = None
    """None: as in `collect`."""


class CollectPolicy(PolicyPart):
    """The collect policy of a node."""

    metric_aggregate_duration_seconds: _AggregateSeconds = 300
    """Window of the means."""
    metric_report_interval_seconds: _ReportSeconds = 60
    """Time between two metrics of a node."""
    metric_aggregate_policy: AggregatePolicy = Field(default_factory=AggregatePolicy)
    metric_memory_collect_policy: MemoryCollectPolicy = "usageWithoutPageCache"
    """The memory reading of a sample that counts."""

    @property
    def as_message(self) -> NodeCollectPolicy:
        return NodeCollectPolicy(
            average_ms=self.metric_aggregate_duration_seconds * 1_000,
            report_ms=self.metric_report_interval_seconds * 1_000,
            durations_ms=self.metric_aggregate_policy.durations_ms,
            memory=self.metric_memory_collect_policy,
        )


class CollectPolicies(CollectPolicy):
    """The default policy, and pools with other policies."""

    pools: Annotated[Items[PoolCollectPolicy], Field(max_length=NODE_POOLS_MAX)] = ()
    """Pools of nodes that differ from the fields above."""

    def conflicts(self) -> Iterable[Conflict]:
        return find_repeated(self, "pools")

    def of_pool(self, name: str | None) -> CollectPolicy:
        """Return the policy of nodes in this pool; None: of nodes without a pool."""
        overrides: dict[str, Any] = {}
        for pool in self.pools:
            if pool.name == name:
                overrides = {key: value for key, value in pool if value is not None}
        return CollectPolicy.model_construct(
            **{key: overrides.get(key, getattr(self, key)) for key in CollectPolicy.model_fields}
        )

    @property
    def by_section(self) -> dict[str, CollectPolicy]:
        """The default policy and the policies of pools, by the path of their section."""
        pools = {f"collect.pools[{pool.name}]": self.of_pool(pool.name) for pool in self.pools}
        return {"collect": self.of_pool(None), **pools}

    @property
    def as_messages(self) -> tuple[NodeCollectPolicy, dict[str, NodeCollectPolicy]]:
        """The default policy, and the policies of pools by name."""
        pools = {pool.name: self.of_pool(pool.name).as_message for pool in self.pools}
        return self.of_pool(None).as_message, pools
