"""`descheduling`: limits of all plugins that move pods, with the descheduler's names."""

from pydantic import Field

from schemas.policy.durations import PositiveDuration
from schemas.policy.parts import Count, PolicyPart
from schemas.policy.selectors import LabelSelector


class DeschedulingLimits(PolicyPart):
    """How often rounds happen and how many pods a round may evict; an absent limit is off."""

    descheduling_interval_ms: PositiveDuration = Field(60_000, alias="deschedulingInterval")
    """Time between two rounds. Nodes report once a minute, so a shorter interval looks at the same
    figures twice."""
    dry_run: bool = False
    """Evictions are dry."""
    node_selector: LabelSelector | None = None
    """Nodes that rounds look at; none: all."""
    max_no_of_pods_to_evict_per_node: Count | None = None
    """Evictions per node in one round; none: no limit."""
    max_no_of_pods_to_evict_per_namespace: Count | None = None
    """Evictions per namespace in one round; none: no limit."""
    max_no_of_pods_to_evict_total: Count | None = None
    """Evictions in one round; none: no limit."""
