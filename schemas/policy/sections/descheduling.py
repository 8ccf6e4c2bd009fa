"""`descheduling`: limits that hold over all plugins that move pods, by the descheduler's names."""

from pydantic import Field

from schemas.policy.durations import PositiveDuration
from schemas.policy.parts import Count, PolicyPart
from schemas.policy.selectors import LabelSelector


class DeschedulingLimits(PolicyPart):
    """How often rounds happen and how many pods one round may evict; a limit not given is off."""

    descheduling_interval_ms: PositiveDuration = Field(60_000, alias="deschedulingInterval")
    """Time between rounds. One minute by default: nodes report once a minute, so a shorter interval
    looks at the same figures twice. Upstream's 0, "run once and end", is not for a stream."""
    dry_run: bool = False
    node_selector: LabelSelector | None = None
    """Nodes that rebalancing looks at; none: all."""
    max_no_of_pods_to_evict_per_node: Count | None = None
    max_no_of_pods_to_evict_per_namespace: Count | None = None
    max_no_of_pods_to_evict_total: Count | None = None
