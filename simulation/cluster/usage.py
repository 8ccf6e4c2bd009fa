"""Measures the machines of a simulated cluster: their base load, and what their pods use on top."""

from collections.abc import AsyncIterator
from typing import ClassVar

from connectors.ports.usage_source import UsageSource
from schemas.messages.usage import NodeUsage
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
        backlog_max_ms: int | None = None,
    ) -> None:
        """Samples that are older than `backlog_max_ms` when they are due are left out."""
        self._cluster = cluster
        self._readings = readings
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
        node, at_ms = cluster.machines[number].name, int(readings.at_ms[index])
        return cluster.kubelets.sample(cluster.name, node, readings.base(index), at_ms)
