"""`descheduling`: limits of all plugins that move pods, with the descheduler's names."""

from pydantic import Field

from schemas.policy.durations import PositiveDuration
from schemas.policy.parts import Count, PolicyPart
from schemas.policy.selectors import LabelSelector


class DeschedulingLimits(PolicyPart):
    """How often rounds happen and how many pods a round may evict; an absent limit is off."""

    descheduling_interval_ms: PositiveDuration = Field(60_000, alias="deschedulingInterval")
    """Time between rounds.

    The default is one minute, because nodes report once a minute. Upstream's 0 (run once and exit)
    is not supported.
    """
    dry_run: bool = False
    node_selector: LabelSelector | None = None
    """Nodes that rebalancing considers; None: all."""
    max_no_of_pods_to_evict_per_node: Count | None = None
    max_no_of_pods_to_evict_per_namespace: Count | None = None
    max_no_of_pods_to_evict_total: Count | None = None
