"""A filter plugin that places no pods on nodes with the label `maintenance: "true"`.

To use the plugin, copy this module into `streams/placement/filters/`, add a line to the docstring of
that package, and name the filter in the list `plugins.filter` of a policy.
"""

import numpy as np

from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray


class UnderMaintenance(SingleReasonFilter):
    """Filters out nodes under maintenance."""

    name = "UnderMaintenance"
    single_reason = "node(s) were under maintenance"
    watches = Change.STATE
    columns = ("_is_under_maintenance",)

    def __init__(self) -> None:
        self._is_under_maintenance: BoolArray = np.zeros(0, dtype=np.bool_)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        labels = {} if node.state is None else node.state.labels
        self._is_under_maintenance[row] = labels.get("maintenance") == "true"

    def prepare(self, kind: Kind) -> None:
        """Compute nothing, because the filter does not depend on the pod."""

    def mask(self, prepared: None) -> BoolArray | None:
        return ~self._is_under_maintenance

    def reason(self, prepared: None, row: int) -> str | None:
        return self.single_reason if self._is_under_maintenance[row] else None
