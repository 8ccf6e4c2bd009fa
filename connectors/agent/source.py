"""Measures the node that it runs on: one sample with the node, its pods, memory and pressure.

CPU is the mean since the sample before, memory and pressure hold for the moment. A pod that is new,
whose counter began anew, or whose file could not be read has no CPU in this sample; one whose
cgroup went is not in it. The system part is left to the rule of `schemas.messages.usage`: the node without
its pods and host applications.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EIO
from pathlib import Path
from typing import ClassVar

from connectors.agent.cpu import CpuReading, CpuTimes, millicores, parse_cpu_times
from connectors.agent.files import Files
from connectors.agent.hierarchies import find_hierarchies
from connectors.agent.memory import (
    cgroup_readings,
    node_readings,
    parse_memory,
    parse_memory_stat,
)
from connectors.agent.names import PodNames
from connectors.agent.pods import PodCgroups
from connectors.agent.pressure import node_pressure
from connectors.ports.usage_source import UsageSource
from connectors.process import wall_clock
from schemas.base.message import EPOCH_MS_MAX, EPOCH_MS_MIN
from schemas.messages.usage import (
    PODS_PER_SAMPLE_MAX,
    HostApplicationUsage,
    MemoryReadings,
    NodeUsage,
    PodUsage,
)

_Used = tuple[dict[str, int], MemoryReadings | None]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the node's files are; a pod has them mounted elsewhere."""

    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")
    pod_logs: Path = Path("/var/log/pods")


class AgentSource(UsageSource):
    """One sample for each reading."""

    name: ClassVar[str] = "agent"

    def __init__(
        self,
        cluster: str,
        node: str,
        places: Places | None = None,
        host_applications: Mapping[str, str] | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Read all counters once, so that the first sample has rates.

        Args:
            cluster: its name.
            node: name of the node.
            places: where the node's files are.
            host_applications: cgroup below the root, by the name of the application.
            clock_ns: a clock that never goes back.

        Raises:
            OSError: there are no cgroups, or nothing of the node can be read.
        """
        places = places or Places()
        self.files = Files()
        self.unnamed = 0
        """Pods that the newest sample lacks, because they had no name or were too many."""
        self.unmeasured: dict[str, str] = {}
        """Cgroups of host applications of which the newest sample has nothing, by name."""
        self._cluster, self._node = cluster, node
        self._proc, self._clock_ns = str(places.proc), clock_ns
        self._trees = find_hierarchies(places.cgroup)
        self._pods = PodCgroups(self.files, self._trees.roots)
        self._names = PodNames(self.files, str(places.pod_logs))
        self._applications = dict(host_applications or {})
        self._counters: dict[str, CpuReading] = {}
        self._seen: dict[str, CpuReading] = {}
        self._node_counter: CpuReading | None = None
        self.sample()

    async def read(self) -> AsyncIterator[NodeUsage]:
        """What was used since the last call, and now; raises OSError if nothing can be read."""
        yield self.sample()

    def sample(self) -> NodeUsage:
        """What was used since the last call, and now; raises OSError if nothing can be read."""
        now_ms = wall_clock.now_ms()
        if not EPOCH_MS_MIN <= now_ms <= EPOCH_MS_MAX:
            year = datetime.fromtimestamp(now_ms / 1_000, UTC).year
            raise OSError(
                EIO, f"its clock says {year}; samples must be from 2000 to 2100: correct the clock"
            )
        self._seen = {}
        usage, memory, interval_ms, capacity = self._measure_node()
        if not usage and self._node_counter is None:
            missing = f"found neither stat nor meminfo in {self._proc}; expected the node's /proc"
            why = self.files.last_failure or missing
            raise OSError(EIO, f"nothing of the node can be read: {why}")
        found = NodeUsage(
            cluster=self._cluster,
            node=self._node,
            sampled_at_ms=now_ms,
            interval_ms=interval_ms,
            usage=usage,
            memory=memory,
            memory_is="notAvailable",
            capacity=capacity,
            pressure=node_pressure(self.files, self._proc),
            pods=self._measure_pods(),
            host_applications=self._measure_applications(),
            source=self.name,
        )
        # What was not read this time begins anew: its rate would be over another time.
        self._counters = self._seen
        return found

    def _measure_node(
        self,
    ) -> tuple[dict[str, int], MemoryReadings | None, int, dict[str, int]]:
        """Usage, readings of memory, over how many ms the CPU is a mean, and capacity."""
        before, times = self._node_counter, self._cpu_times()
        now = None if times is None else CpuReading(times.used_ns, self._clock_ns())
        self._node_counter = now
        usage: dict[str, int] = {}
        interval_ms = 0
        cpu = None if now is None else millicores(before, now)
        if before is not None and now is not None and cpu is not None:
            usage["cpu"] = cpu
            interval_ms = round((now.at_ns - before.at_ns) / 1_000_000)
        memory = self.files.read("node", f"{self._proc}/meminfo", parse_memory)
        readings = None if memory is None else node_readings(memory)
        capacity = {} if times is None else {"cpu": 1_000 * times.cores}
        if memory is not None:
            capacity["memory"] = memory.total
        return _with_memory(usage, readings), readings, interval_ms, capacity

    def _cpu_times(self) -> CpuTimes | None:
        return self.files.read("node", f"{self._proc}/stat", parse_cpu_times)

    def _measure_pods(self) -> tuple[PodUsage, ...]:
        cgroups = self._pods.look()
        names = self._names.of(cgroups)
        named = sorted((*name, uid) for uid, name in names.items())[:PODS_PER_SAMPLE_MAX]
        self.unnamed = len(cgroups) - len(named)
        pods = []
        for namespace, name, uid in named:
            usage, readings = self._measure(cgroups[uid])
            if usage:
                pods.append(
                    PodUsage(namespace=namespace, name=name, uid=uid, usage=usage, memory=readings)
                )
        return tuple(pods)

    def _measure_applications(self) -> tuple[HostApplicationUsage, ...]:
        found = []
        self.unmeasured = {}
        for name, cgroup in self._applications.items():
            usage, readings = self._measure(cgroup)
            if usage:
                found.append(HostApplicationUsage(name=name, usage=usage, memory=readings))
            else:
                self.unmeasured[name] = cgroup
        return tuple(found)

    def _measure(self, cgroup: str) -> _Used:
        """Usage of a cgroup; empty where it is gone."""
        trees, usage = self._trees, dict[str, int]()
        if trees.cpu is not None:
            path = f"{trees.cpu}/{cgroup}/{trees.cpu_file}"
            spent_ns = self.files.read("pods", path, trees.parse_cpu)
            if spent_ns is not None:
                now = self._seen[cgroup] = CpuReading(spent_ns, self._clock_ns())
                cpu = millicores(self._counters.get(cgroup), now)
                if cpu is not None:
                    usage["cpu"] = cpu
        readings = None
        if trees.memory is not None:
            path = f"{trees.memory}/{cgroup}/memory.stat"
            memory_stat = self.files.read("pods", path, parse_memory_stat)
            if memory_stat is not None:
                readings = cgroup_readings(memory_stat)
        return _with_memory(usage, readings), readings


def _with_memory(usage: dict[str, int], readings: MemoryReadings | None) -> dict[str, int]:
    """Usage with the memory that the default collect policy counts."""
    used = None if readings is None else readings.usage_without_page_cache_bytes
    return usage if used is None else {**usage, "memory": used}
