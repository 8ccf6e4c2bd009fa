"""What measures the nodes of a cluster.

A source yields what is new. A node that cannot be read is left out, and so is a resource or a pod
that was not measured: missing data becomes stale, zero would be believed. Times are those of the
measurement. Several sources may serve one cluster.

A source is read again and again, `interval_s` after the last time. What it does meanwhile, such as
asking many nodes in turn, it does in `run`; of each node it keeps only what is newest, so a reader
that is late finds no queue.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import ClassVar, Literal

from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import NodeUsage


class UsageSource(ABC):
    """Measures nodes of one cluster."""

    name: ClassVar[str]
    """What the registry knows it by."""
    topic: ClassVar[Literal["node-usage", "node-metrics"]] = "node-usage"
    """Where its messages go: samples, or aggregates that were computed elsewhere."""
    interval_s: float = 1.0
    """From one `read` to the next, in seconds."""

    async def run(self) -> None:  # noqa: B027  # most sources have nothing to do
        """What goes on between reads, until it is cancelled; by default nothing."""

    @abstractmethod
    def read(self) -> AsyncIterator[NodeUsage | NodeMetric]:
        """What was measured since the last call; of each node in the order of time.

        It never raises because one node cannot be read. Raises OSError if nothing can.
        """
