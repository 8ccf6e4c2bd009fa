"""The port that measures the nodes of a cluster.

A source yields new measurements. It leaves out nodes that cannot be read, and resources and pods that
were not measured: missing data becomes stale, while a zero would count as a measurement. Times are
those of the measurement. Several sources can serve one cluster.

A source is read again `interval_s` after the previous reading. Work in between, such as polling many
nodes, happens in `run`; only the newest measurement of each node is kept, so a slow reader causes no
queue.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import ClassVar, Literal

from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import NodeUsage


class UsageSource(ABC):
    """Measures nodes of one cluster."""

    name: ClassVar[str]
    """Name in the registry."""
    topic: ClassVar[Literal["node-usage", "node-metrics"]] = "node-usage"
    """Topic of its messages: samples, or aggregates that were computed elsewhere."""
    interval_s: float = 1.0
    """Time between two calls of `read`, in seconds."""

    async def run(self) -> None:  # noqa: B027  # most sources have nothing to do
        """Work between readings, until it is cancelled; by default nothing."""

    @abstractmethod
    def read(self) -> AsyncIterator[NodeUsage | NodeMetric]:
        """Yield the measurements since the last call, those of each node in order of time.

        A node that cannot be read raises no exception. Raises OSError if nothing can be read.
        """
