"""CPU time and memory in use, from the kernel's files.

Used CPU time is user, nice, system, irq and softirq time, as in Koordinator's koordlet
(pkg/koordlet/util/stat.go, readTotalCPUStat). It does not include iowait (the CPU is idle) and steal
(the hypervisor gave the time to other machines); node_exporter separates both, too. User time
includes guest time.

Memory has the two readings of Koordinator's collect policies (`schemas.messages.usage`):

    reading                  node                        cgroup (memory.stat)
    usageWithoutPageCache    MemTotal - MemAvailable     anonymous + unevictable
    usageWithPageCache       MemTotal - MemFree          ... + active and inactive file

The formulas are koordlet's (pkg/koordlet/util/meminfo.go, util/system/cgroup.go MemoryStatRaw).
Anonymous pages include shared memory. In v1, fields with `total_` include all cgroups below; in v2 all
fields do. Kernel memory of a cgroup, which `memory.current` includes, counts as the node's system part.
"""

import os
import re
from dataclasses import dataclass

from connectors.agent.files import parse_pairs
from schemas.messages.usage import MemoryReadings

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Ticks of all cores together since boot."""

    used: int
    total: int
    cores: int = 0
    """Number of cores; 0: unknown."""

    @property
    def used_ns(self) -> int:
        return self.used * 1_000_000_000 // _TICKS_PER_S


def parse_cpu_times(text: str) -> CpuTimes:
    """Parse the first line of /proc/stat; raises ValueError."""
    label, _, rest = text.split("\n", 1)[0].partition(" ")
    ticks = rest.split()
    if label != "cpu" or len(ticks) < 4:
        raise ValueError(f"/proc/stat: found {text[:60]!r}; expected a line that begins with cpu")
    # user nice system idle iowait irq softirq steal; old kernels end earlier
    spent = [int(tick) for tick in ticks[:8]]
    used = sum(spent[:3]) + sum(spent[5:7])
    return CpuTimes(used=used, total=sum(spent), cores=text.count("\ncpu"))


def parse_cpu_stat(text: str) -> int:
    """Return the nanoseconds of `cpu.stat` (cgroup v2); raises ValueError."""
    values = parse_pairs(text)
    if "usage_usec" not in values:
        raise ValueError("usage_usec not found")
    return values["usage_usec"] * 1_000


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU time at a moment."""

    spent_ns: int
    at_ns: int
    """Time of a monotonic clock."""


def compute_millicores(before: CpuReading | None, now: CpuReading) -> int | None:
    """Return the mean CPU usage between two readings of a counter.

    None: there is no earlier reading, no time has passed, or the counter was reset in between.
    """
    if before is None or now.at_ns <= before.at_ns or now.spent_ns < before.spent_ns:
        return None
    spent_ns, passed_ns = now.spent_ns - before.spent_ns, now.at_ns - before.at_ns
    return (2_000 * spent_ns + passed_ns) // (2 * passed_ns)


_MEMINFO = re.compile(r"^(MemTotal|MemAvailable|MemFree):\s+(\d+) kB$", re.MULTILINE)
_USED = ("inactive_anon", "active_anon", "unevictable")
_CACHE = ("inactive_file", "active_file")


@dataclass(frozen=True, slots=True)
class Memory:
    """Amounts of /proc/meminfo, in bytes."""

    total: int
    available: int
    free: int


def parse_memory(text: str) -> Memory:
    """Parse /proc/meminfo; raises ValueError if a field is missing."""
    kib = dict(_MEMINFO.findall(text))
    missing = [name for name in ("MemTotal", "MemAvailable", "MemFree") if name not in kib]
    if missing:
        raise ValueError(f"/proc/meminfo: {', '.join(missing)} not found")
    total, available, free = (
        int(kib[name]) * 1024 for name in ("MemTotal", "MemAvailable", "MemFree")
    )
    return Memory(total, min(available, total), free)


def build_node_readings(memory: Memory) -> MemoryReadings:
    return MemoryReadings(
        usage_without_page_cache_bytes=memory.total - memory.available,
        usage_with_page_cache_bytes=memory.total - memory.free,
    )


def build_cgroup_readings(memory_stat: dict[str, int]) -> MemoryReadings | None:
    """Return the readings of a cgroup from its `memory.stat`; None if a field is missing."""
    prefix = "total_" if "total_inactive_anon" in memory_stat else ""
    try:
        used = sum(memory_stat[prefix + name] for name in _USED)
        cached = sum(memory_stat[prefix + name] for name in _CACHE)
    except KeyError:
        return None
    return MemoryReadings(
        usage_without_page_cache_bytes=used, usage_with_page_cache_bytes=used + cached
    )
