"""Memory in use, in the two readings of Koordinator's collect policies (`schemas.messages.usage`).

    reading                  node                                    cgroup (memory.stat)
    usageWithoutPageCache    MemTotal - MemAvailable                 anonymous + unevictable
    usageWithPageCache       MemTotal - MemFree                      ... + active and inactive file

as koordlet has them (pkg/koordlet/util/meminfo.go, util/system/cgroup.go MemoryStatRaw). Pages on the anonymous lists contain shared memory. In v1 the figures with
`total_` have those of all cgroups below; v2 has only such. Kernel memory of a cgroup, which
`memory.current` would contain, counts to the system part of the node.
"""

import re
from dataclasses import dataclass

from connectors.agent.files import pairs
from schemas.messages.usage import MemoryReadings

_MEMINFO = re.compile(r"^(MemTotal|MemAvailable|MemFree):\s+(\d+) kB$", re.MULTILINE)
_USED = ("inactive_anon", "active_anon", "unevictable")
_CACHE = ("inactive_file", "active_file")


@dataclass(frozen=True, slots=True)
class Memory:
    """What /proc/meminfo says, in bytes."""

    total: int
    available: int
    free: int


def parse_memory(text: str) -> Memory:
    """/proc/meminfo; raises ValueError where one of the three fields is missing."""
    found = dict(_MEMINFO.findall(text))
    missing = [name for name in ("MemTotal", "MemAvailable", "MemFree") if name not in found]
    if missing:
        raise ValueError(f"/proc/meminfo: {', '.join(missing)} not found")
    total, available, free = (
        int(found[name]) * 1024 for name in ("MemTotal", "MemAvailable", "MemFree")
    )
    return Memory(total, min(available, total), free)


def node_readings(memory: Memory) -> MemoryReadings:
    """Return the readings of a node."""
    return MemoryReadings(
        usage_without_page_cache_bytes=memory.total - memory.available,
        usage_with_page_cache_bytes=memory.total - memory.free,
    )


def cgroup_readings(memory_stat: dict[str, int]) -> MemoryReadings | None:
    """Readings of a cgroup from its `memory.stat`; None where figures are missing."""
    prefix = "total_" if "total_inactive_anon" in memory_stat else ""
    try:
        used = sum(memory_stat[prefix + name] for name in _USED)
        cached = sum(memory_stat[prefix + name] for name in _CACHE)
    except KeyError:
        return None
    return MemoryReadings(
        usage_without_page_cache_bytes=used, usage_with_page_cache_bytes=used + cached
    )


def parse_memory_stat(text: str) -> dict[str, int]:
    """`memory.stat` of a cgroup; raises ValueError."""
    return pairs(text)
