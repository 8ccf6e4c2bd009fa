"""CPU time: counters of the kernel, and the rate between two of them.

Used is what runs: user, nice, system, irq and softirq time, as Koordinator's koordlet counts it
(pkg/koordlet/util/stat.go, readTotalCPUStat). Waiting for a disk (iowait) is idle, and time that
the hypervisor gave to others (steal) was not used here; node_exporter keeps both apart, too, as
modes of `node_cpu_seconds_total`. Guest time is contained in user time.
"""

import os
from dataclasses import dataclass

from connectors.agent.files import pairs

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Ticks that all cores together have spent since the machine started."""

    used: int
    total: int
    cores: int = 0
    """How many cores the machine has; 0: not said."""

    @property
    def used_ns(self) -> int:
        """Used time in nanoseconds."""
        return self.used * 1_000_000_000 // _TICKS_PER_S


def parse_cpu_times(text: str) -> CpuTimes:
    """The first line of /proc/stat; raises ValueError where it is another one."""
    label, _, rest = text.split("\n", 1)[0].partition(" ")
    ticks = rest.split()
    if label != "cpu" or len(ticks) < 4:
        raise ValueError(f"/proc/stat: found {text[:60]!r}; expected a line that begins with cpu")
    # user nice system idle iowait irq softirq steal; old kernels end earlier
    spent = [int(tick) for tick in ticks[:8]]
    used = sum(spent[:3]) + sum(spent[5:7])
    return CpuTimes(used=used, total=sum(spent), cores=text.count("\ncpu"))


def parse_cpuacct_usage(text: str) -> int:
    """Nanoseconds in `cpuacct.usage` (cgroup v1); raises ValueError."""
    return int(text)


def parse_cpu_stat(text: str) -> int:
    """Nanoseconds in `cpu.stat` (cgroup v2); raises ValueError."""
    found = pairs(text)
    if "usage_usec" not in found:
        raise ValueError("usage_usec not found")
    return found["usage_usec"] * 1_000


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU time spent up to a moment."""

    spent_ns: int
    at_ns: int
    """By a clock that never goes back."""


def millicores(before: CpuReading | None, now: CpuReading) -> int | None:
    """Mean CPU between two readings of a counter.

    None where it cannot be known: there is no earlier reading, no time has passed, or the counter
    went back, which means that it began anew at some moment in between.
    """
    if before is None or now.at_ns <= before.at_ns or now.spent_ns < before.spent_ns:
        return None
    spent_ns, passed_ns = now.spent_ns - before.spent_ns, now.at_ns - before.at_ns
    return (2_000 * spent_ns + passed_ns) // (2 * passed_ns)
