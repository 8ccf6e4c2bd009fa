"""Memory in use, in the two readings of Koordinator's collect policies (`schemas.messages.usage`).

    reading                  node                        cgroup (memory.stat)
    usageWithoutPageCache    MemTotal - MemAvailable     anonymous + unevictable
    usageWithPageCache       MemTotal - MemFree          ... + active and inactive file

The formulas are koordlet's (pkg/koordlet/util/meminfo.go, util/system/cgroup.go MemoryStatRaw).
Anonymous pages include shared memory. In v1, fields with `total_` include all cgroups below; in v2 all
fields do. Kernel memory of a cgroup, which `memory.current` includes, counts as the node's system part.
"""

import re
from dataclasses import dataclass

from schemas.messages.usage import MemoryReadings

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
