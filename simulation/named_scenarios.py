"""Named scenarios: kinds of load that commands offer. This module imports nothing slow."""

from collections.abc import Mapping
from typing import Any

#: Default loads in percent, and the parameters that differ from `mixed`, by name of the scenario.
SCENARIOS: Mapping[str, tuple[tuple[float, ...], Mapping[str, Any]]] = {
    # All pods of an owner have similar demand, which follows the owner's time of day.
    "web": ((50,), {"alike_share": 1.0, "day_swing": 0.5, "day_spread_hours": 12.0}),
    # 13 different pods per node.
    "mixed": ((40, 55), {}),
    # Pods that live for 15 minutes.
    "batch": ((50,), {"life_median_hours": 0.25, "life_spread": 0.5, "life_min_s": 60}),
    # 3 pods per node, with the published sizes.
    "big-pods": ((50,), {"pod_divisor": 1}),
    # 30 pods per node.
    "small-pods": ((55,), {"pod_divisor": 10}),
    # Half of the load comes from the nodes themselves.
    "own-load": ((55,), {"system_share": 0.275}),
    # Pods use more memory than they request, some much more.
    "memory": ((40,), {"memory_start": (0.2, 2.6), "memory_growth": (0.0, 1.0)}),
    # The load of all pods rises and falls together.
    "peak": ((40,), {"day_swing": 0.4}),
}
