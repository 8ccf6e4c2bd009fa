"""Find the mounted cgroup hierarchies, and the files with the usage of a cgroup.

    v2        everything at the root, which has a file `cgroup.controllers`
    v1        a folder per controller: cpuacct (or cpu,cpuacct) and memory
    hybrid    v1 with a v2 hierarchy in `unified`; each controller is in one of the two

The root is a setting, so that a pod can read the node's mount.
"""

from collections.abc import Callable
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path

from connectors.agent.cpu import parse_cpu_stat

_V1_CPU = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The hierarchies with CPU time and memory; at least one exists."""

    cpu: str | None
    """Root of the hierarchy with CPU time; None: none has it."""
    cpu_file: str
    """Name of a cgroup's file with its CPU time."""
    parse_cpu: Callable[[str], int]
    """Returns the nanoseconds in this file."""
    memory: str | None
    """Root of the hierarchy with memory; None: none has it."""

    @property
    def roots(self) -> tuple[str, ...]:
        """Roots to search for cgroups of pods, in order."""
        return tuple(dict.fromkeys(root for root in (self.cpu, self.memory) if root))


def find_hierarchies(root: Path) -> Hierarchies:
    """Return the hierarchies below a mount; raises FileNotFoundError if there are none."""
    unified = next((path for path in (root, root / "unified") if _is_v2(path)), None)
    v1_cpu = next(
        (root / name for name in _V1_CPU if (root / name / "cpuacct.usage").exists()), None
    )
    memory = root / "memory" if (root / "memory" / "memory.stat").exists() else unified
    if unified is None and v1_cpu is None and memory is None:
        raise FileNotFoundError(
            ENOENT,
            "found neither cgroup.controllers (v2) nor folders cpuacct and memory (v1); expected "
            "the node's cgroup mount",
            str(root),
        )
    cpu = v1_cpu or unified
    return Hierarchies(
        cpu=str(cpu) if cpu else None,
        cpu_file="cpuacct.usage" if v1_cpu else "cpu.stat",
        parse_cpu=int if v1_cpu else parse_cpu_stat,
        memory=str(memory) if memory else None,
    )


def _is_v2(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()
