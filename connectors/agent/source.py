"""Measure this node: samples with the node, its pods and their memory.

CPU is the mean since the previous sample; memory is the current value. A pod has no CPU
in a sample if it is new, its counter was reset, or its file could not be read. A pod without a cgroup
is not in the sample. The system part is computed later (see `schemas.messages.usage`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EIO
from pathlib import Path

from connectors.agent.cgroups import PodCgroups, PodNames, find_hierarchies
from connectors.agent.files import Files, parse_pairs
from connectors.agent.measures import (
    CpuReading,
    build_cgroup_readings,
    build_node_readings,
    compute_millicores,
    parse_cpu_times,
    parse_memory,
)
from connectors.process import wall_clock
from schemas.base.message import EPOCH_MS_MAX, EPOCH_MS_MIN
from schemas.messages.usage import (
    PODS_PER_SAMPLE_MAX,
    MemoryReadings,
    NodeUsage,
    PodUsage,
)

_Used = tuple[dict[str, int], MemoryReadings | None]


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Paths of the node's files; in a pod they are mounted elsewhere."""

    proc: Path = Path("/proc")
    cgroup: Path = Path("/sys/fs/cgroup")
    pod_logs: Path = Path("/var/log/pods")


class AgentSource:
    """Measures one node."""

    def __init__(
        self,
        cluster: str,
        node: str,
        paths: NodePaths | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Read all counters once, so that the first sample has rates.

        Args:
            cluster: name of the cluster.
            node: name of the node.
            paths: paths of the node's files.
            clock_ns: a monotonic clock.

        Raises:
            OSError: there are no cgroups, or no file of the node can be read.
        """
        paths = paths or NodePaths()
        self.files = Files()
        self.unnamed = 0
        """Number of pods missing in the newest sample: they have no name, or there are too many."""
        self._cluster, self._node = cluster, node
        self._proc, self._clock_ns = str(paths.proc), clock_ns
        self._trees = find_hierarchies(paths.cgroup)
        self._pods = PodCgroups(self.files, self._trees.roots)
        self._names = PodNames(self.files, str(paths.pod_logs))
        self._counters: dict[str, CpuReading] = {}
        self._current: dict[str, CpuReading] = {}
        self._node_counter: CpuReading | None = None
        self.sample()

    def sample(self) -> NodeUsage:
        """Return the usage since the last call; raises OSError if no file can be read."""
        now_ms = wall_clock.now_ms()
        if not EPOCH_MS_MIN <= now_ms <= EPOCH_MS_MAX:
            year = datetime.fromtimestamp(now_ms / 1_000, UTC).year
            raise OSError(
                EIO, f"the clock says {year}; expected 2000 to 2100: correct the clock of the node"
            )
        self._current = {}
        usage, memory, interval_ms, capacity = self._measure_node()
        if not usage and self._node_counter is None:
            missing = f"found neither stat nor meminfo in {self._proc}; expected the node's /proc"
            why = self.files.last_failure or missing
            raise OSError(EIO, f"cannot read any usage of the node: {why}")
        sample = NodeUsage(
            cluster=self._cluster,
            node=self._node,
            sampled_at_ms=now_ms,
            interval_ms=interval_ms,
            usage=usage,
            memory=memory,
            memory_is="notAvailable",
            capacity=capacity,
            pods=self._measure_pods(),
            source="agent",
        )
        # An unread counter starts again, because its next rate would cover more than one interval.
        self._counters = self._current
        return sample

    def _measure_node(
        self,
    ) -> tuple[dict[str, int], MemoryReadings | None, int, dict[str, int]]:
        """Return usage, memory readings, interval of the CPU mean in ms, and capacity."""
        last_counter = self._node_counter
        times = self.files.read("node", f"{self._proc}/stat", parse_cpu_times)
        now = None if times is None else CpuReading(times.used_ns, self._clock_ns())
        self._node_counter = now
        usage: dict[str, int] = {}
        interval_ms = 0
        cpu = None if now is None else compute_millicores(last_counter, now)
        if last_counter is not None and now is not None and cpu is not None:
            usage["cpu"] = cpu
            interval_ms = round((now.at_ns - last_counter.at_ns) / 1_000_000)
        memory = self.files.read("node", f"{self._proc}/meminfo", parse_memory)
        readings = None if memory is None else build_node_readings(memory)
        capacity = {} if times is None else {"cpu": 1_000 * times.cores}
        if memory is not None:
            capacity["memory"] = memory.total
        return _with_memory(usage, readings), readings, interval_ms, capacity

    def _measure_pods(self) -> tuple[PodUsage, ...]:
        cgroups = self._pods.find()
        names = self._names.find(cgroups)
        named_pods = sorted((*name, uid) for uid, name in names.items())[:PODS_PER_SAMPLE_MAX]
        self.unnamed = len(cgroups) - len(named_pods)
        pods = []
        for namespace, name, uid in named_pods:
            usage, readings = self._measure(cgroups[uid])
            if usage:
                pods.append(
                    PodUsage(namespace=namespace, name=name, uid=uid, usage=usage, memory=readings)
                )
        return tuple(pods)

    def _measure(self, cgroup: str) -> _Used:
        """Return the usage of a cgroup; empty if the cgroup does not exist."""
        trees, usage = self._trees, dict[str, int]()
        if trees.cpu is not None:
            path = f"{trees.cpu}/{cgroup}/{trees.cpu_file}"
            spent_ns = self.files.read("pods", path, trees.parse_cpu)
            if spent_ns is not None:
                now = self._current[cgroup] = CpuReading(spent_ns, self._clock_ns())
                cpu = compute_millicores(self._counters.get(cgroup), now)
                if cpu is not None:
                    usage["cpu"] = cpu
        readings = None
        if trees.memory is not None:
            path = f"{trees.memory}/{cgroup}/memory.stat"
            memory_stat = self.files.read("pods", path, parse_pairs)
            if memory_stat is not None:
                readings = build_cgroup_readings(memory_stat)
        return _with_memory(usage, readings), readings


def _with_memory(usage: dict[str, int], readings: MemoryReadings | None) -> dict[str, int]:
    """Add the memory reading of the default collect policy."""
    used = None if readings is None else readings.usage_without_page_cache_bytes
    return usage if used is None else {**usage, "memory": used}
