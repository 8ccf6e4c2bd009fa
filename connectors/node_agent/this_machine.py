"""Measures this very machine as a node: what it uses now, read from /proc.

CPU is the mean over about the last second, since the counters of the kernel move in steps of 10 ms.
Memory comes in two readings: without the page cache (MemTotal - MemAvailable) and with it
(MemTotal - MemFree). The programs that use most CPU are reported as host applications, all
processes of one name together. A measurement costs well below a millisecond; the processes are
looked through only now and then. Only Linux has these files; `available` says so elsewhere.
"""

import os
import re
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from connectors.node_agent.cpu import CpuTimes, parse_cpu_times
from connectors.node_agent.memory import Memory, parse_memory
from connectors.ports.usage_source import UsageSource
from connectors.process import wall_clock
from schemas.usage import HostApplicationUsage, MemoryReadings, NodeUsage

PROC = Path("/proc")

#: CPU usage is the mean over this time.
_WINDOW_S = 1.0
#: Time between two looks through all processes.
_PROCESSES_EVERY_S = 3.0
#: How many programs are reported.
APPLICATIONS_MAX = 3
#: A program that uses less is not reported.
_LEAST_MILLICORES = 10

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its program, the ticks that it has spent, and its memory in bytes."""

    pid: int
    program: str
    ticks: int
    memory_bytes: int


def parse_process(text: str) -> Process | None:
    """/proc/PID/stat; None where it cannot be read as such."""
    begin, end = text.find("("), text.rfind(")")
    fields = text[end + 2 :].split()
    if begin < 0 or end < begin or len(fields) < 22:
        return None
    program = _NOT_IN_A_NAME.sub("-", text[begin + 1 : end]).strip("-") or "unnamed"
    ticks = int(fields[11]) + int(fields[12])
    return Process(int(text[:begin]), program, ticks, max(0, int(fields[21])) * _PAGE_BYTES)


def heaviest(
    before: Iterable[Process], now: Iterable[Process], elapsed_s: float
) -> tuple[HostApplicationUsage, ...]:
    """The programs that used most CPU between two looks, heaviest first."""
    known = {(process.pid, process.program): process.ticks for process in before}
    cpu: dict[str, float] = defaultdict(float)
    memory: dict[str, int] = defaultdict(int)
    for process in now:
        spent = process.ticks - known.get((process.pid, process.program), process.ticks)
        cpu[process.program] += max(0, spent) / _TICKS_PER_S / elapsed_s * 1000
        memory[process.program] += process.memory_bytes
    order = sorted(cpu, key=lambda program: (-cpu[program], program))
    return tuple(
        HostApplicationUsage(name=name, usage={"cpu": round(cpu[name]), "memory": memory[name]})
        for name in order[:APPLICATIONS_MAX]
        if cpu[name] >= _LEAST_MILLICORES
    )


class ThisMachine(UsageSource):
    """Measures this machine as a node of a cluster, as often as it is asked."""

    name: ClassVar[str] = "this-machine"

    def __init__(self, cluster: str, node: str, proc: Path = PROC) -> None:
        self._cluster, self._node = cluster, node
        self._proc = proc
        self.millicores = (os.cpu_count() or 1) * 1000
        self.memory_bytes = self._memory().total
        self._times: deque[tuple[float, CpuTimes]] = deque([(time.monotonic(), self._cpu_times())])
        self._looked_s = time.monotonic()
        self._processes = self._all_processes()
        self._applications: tuple[HostApplicationUsage, ...] = ()

    @staticmethod
    def available(proc: Path = PROC) -> str:
        """Why this machine cannot be measured; empty if it can."""
        missing = [name for name in ("stat", "meminfo") if not (proc / name).is_file()]
        return f"there is no {proc / missing[0]}; only Linux has it" if missing else ""

    async def read(self) -> AsyncIterator[NodeUsage]:
        """What is used now."""
        yield self.sample()

    def sample(self) -> NodeUsage:
        """What is used now; raises OSError."""
        now_s, times = time.monotonic(), self._cpu_times()
        self._times.append((now_s, times))
        while len(self._times) > 2 and now_s - self._times[1][0] >= _WINDOW_S:
            self._times.popleft()
        first = self._times[0][1]
        total = times.total - first.total
        share = (times.used - first.used) / total if total > 0 else 0.0
        if now_s - self._looked_s >= _PROCESSES_EVERY_S:
            processes = self._all_processes()
            self._applications = heaviest(self._processes, processes, now_s - self._looked_s)
            self._processes, self._looked_s = processes, now_s
        memory = self._memory()
        used_bytes = memory.total - memory.available
        return NodeUsage(
            cluster=self._cluster,
            node=self._node,
            sampled_at_ms=wall_clock.now_ms(),
            usage={
                "cpu": round(min(1.0, max(0.0, share)) * self.millicores),
                "memory": used_bytes,
            },
            memory=MemoryReadings(
                usage_without_page_cache_bytes=used_bytes,
                usage_with_page_cache_bytes=memory.total - memory.free,
            ),
            host_applications=self._applications,
        )

    def _cpu_times(self) -> CpuTimes:
        return parse_cpu_times((self._proc / "stat").read_text())

    def _memory(self) -> Memory:
        return parse_memory((self._proc / "meminfo").read_text())

    def _all_processes(self) -> list[Process]:
        found = []
        for entry in self._proc.iterdir():
            if entry.name.isdigit():
                try:
                    process = parse_process((entry / "stat").read_text(errors="replace"))
                except OSError:
                    continue  # it has ended meanwhile
                if process is not None:
                    found.append(process)
        return found
