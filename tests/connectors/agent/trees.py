"""Writes file trees like those of the kernel and the kubelet."""

from pathlib import Path
from typing import Literal

MIB = 1024 * 1024

UID_A = "3f1c2b7e-9a10-4c5d-8e21-0b6f5a4d3c2e"
UID_B = "a0b1c2d3-e4f5-4678-9abc-def012345678"
#: The uid of a static pod, a hash of its manifest.
UID_STATIC = "0123456789abcdef0123456789abcdef"

Version = Literal["v1", "v2", "hybrid"]
Driver = Literal["systemd", "cgroupfs"]

STAT = """\
cpu  {user} 20 100 5000 300 7 9 {steal} 11 0
cpu0 1 1 1 1 1 1 1 1 0 0
intr 123 0 0
ctxt 456
"""

MEMINFO = """\
MemTotal:        1000000 kB
MemFree:          200000 kB
MemAvailable:     600000 kB
Buffers:           13200 kB
HugePages_Total:       0
DirectMap4k:      100000 kB
"""


class NodeFiles:
    """The files of one node below a folder."""

    def __init__(self, root: Path, version: Version, driver: Driver) -> None:
        self.version, self.driver = version, driver
        self.proc, self.cgroup, self.pod_logs = root / "proc", root / "cgroup", root / "pod-logs"
        self.proc.mkdir(parents=True)
        self.pod_logs.mkdir()
        self.tick(0)
        (self.proc / "meminfo").write_text(MEMINFO)
        if version != "v1":
            unified = self.cgroup if version == "v2" else self.cgroup / "unified"
            unified.mkdir(parents=True)
            (unified / "cgroup.controllers").write_text("cpu io memory\n" * (version == "v2"))
        if version != "v2":
            for folder in ("cpu,cpuacct", "memory"):
                (self.cgroup / folder / "system.slice").mkdir(parents=True)
            (self.cgroup / "cpuacct").symlink_to("cpu,cpuacct")
            (self.cgroup / "cpuacct" / "cpuacct.usage").write_text("1\n")
            (self.cgroup / "memory" / "memory.stat").write_text("cache 1\n")

    def tick(self, user: int, steal: int = 50) -> None:
        """Add ticks of user time to the node."""
        (self.proc / "stat").write_text(STAT.format(user=user, steal=steal))

    def pod_path(self, uid: str, qos: Literal["", "burstable", "besteffort"]) -> str:
        """Return the path of a pod's cgroup in the kubelet's layout."""
        if self.driver == "cgroupfs":
            return "/".join(filter(None, ("kubepods", qos, f"pod{uid}")))
        stem = f"kubepods-{qos}" if qos else "kubepods"
        parent = f"kubepods.slice/{stem}.slice" if qos else "kubepods.slice"
        return f"{parent}/{stem}-pod{uid.replace('-', '_')}.slice"

    def write(self, path: str, cpu_ns: int, used: int, cached: int) -> None:
        """Write CPU time and memory of a cgroup, without and with the page cache."""
        memory = {
            "inactive_anon": used - 2 * MIB,
            "active_anon": MIB,
            "inactive_file": cached - MIB,
            "active_file": MIB,
            "unevictable": MIB,
        }
        if self.version == "v2":
            folder = self._make(self.cgroup / path)
            (folder / "cpu.stat").write_text(
                f"usage_usec {cpu_ns // 1000}\nuser_usec 1\nsystem_usec 1\nnr_throttled 0\n"
            )
            (folder / "memory.current").write_text(f"{used + cached + 9 * MIB}\n")
            (folder / "memory.stat").write_text(_lines({"anon": 1, **memory, "slab": 5}))
            return
        (self._make(self.cgroup / "cpu,cpuacct" / path) / "cpuacct.usage").write_text(f"{cpu_ns}\n")
        own_values = dict.fromkeys(memory, 0)
        total = {f"total_{name}": value for name, value in memory.items()}
        (self._make(self.cgroup / "memory" / path) / "memory.stat").write_text(
            _lines({"cache": 0, **own_values, "hierarchical_memory_limit": 2**63 - 4096, **total})
        )

    def name(self, uid: str, namespace: str, name: str) -> None:
        """Create the kubelet's folder for the logs of a pod."""
        (self.pod_logs / f"{namespace}_{name}_{uid}" / "main").mkdir(parents=True)

    @staticmethod
    def _make(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _lines(figures: dict[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in figures.items())
