"""What all pools have in common, in all rounds under one policy."""

from dataclasses import dataclass

from schemas.policy import LowNodeLoadArgs
from streams.rebalance.inputs import PodFilter
from streams.rebalance.koordinator.detectors import Detectors
from streams.rebalance.node_arrays import Universe


@dataclass(frozen=True, slots=True)
class Standing:
    """Arguments, resources, and what is kept between rounds."""

    args: LowNodeLoadArgs
    universe: Universe
    pod_filter: PodFilter
    detectors: Detectors
