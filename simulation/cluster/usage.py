"""Measures the machines of a simulated cluster: their base load, and what their pods use on top.

A node of the cluster may be this very machine: its base load is what was really measured.
"""

from collections.abc import AsyncIterator, Callable
from typing import ClassVar

from connectors.ports.usage_source import UsageSource
from schemas.usage import MemoryReadings, NodeUsage
from simulation.cluster.cluster import SimulatedCluster
from simulation.cluster.readings import Readings


class SimulatedUsage(UsageSource):
    """Samples at the times of the readings of the base load, up to the cluster's time."""

    name: ClassVar[str] = "simulated"

    def __init__(
        self,
        cluster: SimulatedCluster,
        readings: Readings,
        *,
        live: int | None = None,
        measured: Callable[[], NodeUsage] | None = None,
        backlog_max_ms: int | None = None,
    ) -> None:
        """`live` is the index of the node that is this machine; `measured` measures it.

        Samples that are older than `backlog_max_ms` when they are due are left out.
        """
        self._cluster = cluster
        self._readings = readings
        self._live = live
        self._measured = measured
        self._backlog_max_ms = backlog_max_ms
        self._read = 0
        """How many readings have become samples, or were left out."""

    async def read(self) -> AsyncIterator[NodeUsage]:
        """A sample for each reading since the last call."""
        now_ms = self._cluster.now_ms
        first, self._read = self._read, self._readings.until(now_ms)
        if self._backlog_max_ms is not None:
            first = max(first, self._readings.until(now_ms - self._backlog_max_ms))
        for index in range(first, self._read):
            yield self._sample(index)

    def _sample(self, index: int) -> NodeUsage:
        readings, cluster = self._readings, self._cluster
        number = int(readings.machine[index])
        measured = None
        if number == self._live and self._measured is not None:
            measured = self._measured()
            # Kept, so that a comparison afterwards has the same load.
            readings.millicores[index] = measured.usage["cpu"]
            readings.memory_bytes[index] = measured.usage["memory"]
        node, at_ms = cluster.machines[number].name, int(readings.at_ms[index])
        sample = cluster.kubelets.sample(cluster.name, node, readings.base(index), at_ms)
        return sample if measured is None else merged(sample, measured)


def merged(sample: NodeUsage, measured: NodeUsage) -> NodeUsage:
    """A sample with the page cache and the host applications of the machine below it."""
    memory = measured.memory or MemoryReadings()
    cached = (memory.usage_with_page_cache_bytes or 0) - measured.usage["memory"]
    readings = MemoryReadings(
        usage_without_page_cache_bytes=sample.usage["memory"],
        usage_with_page_cache_bytes=sample.usage["memory"] + max(0, cached),
    )
    return sample.model_copy(
        update={"memory": readings, "host_applications": measured.host_applications}
    )
