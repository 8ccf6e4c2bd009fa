"""CPU time, and the rate between two readings.

Used time is user, nice, system, irq and softirq time, as in Koordinator's koordlet
(pkg/koordlet/util/stat.go, readTotalCPUStat). It does not include iowait (the CPU is idle) and steal
(the hypervisor gave the time to other machines); node_exporter separates both, too. User time
includes guest time.
"""

import os
from dataclasses import dataclass

from connectors.agent.files import parse_pairs

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


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

    None if it is unknown: there is no earlier reading, no time has passed, or the counter was reset in
    between.
    """
    if before is None or now.at_ns <= before.at_ns or now.spent_ns < before.spent_ns:
        return None
    spent_ns, passed_ns = now.spent_ns - before.spent_ns, now.at_ns - before.at_ns
    return (2_000 * spent_ns + passed_ns) // (2 * passed_ns)
