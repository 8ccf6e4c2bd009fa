"""Where cgroups are mounted, and which files say what a cgroup used.

    v2        all at the root, which has a file `cgroup.controllers`
    v1        a folder a controller: cpuacct (or cpu,cpuacct) and memory
    hybrid    v1 with a v2 tree in `unified`; a controller is in one of the two

The root is a setting, so that a pod can look at the node's mount.
"""

from collections.abc import Callable
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path

from connectors.agent.cpu import parse_cpu_stat, parse_cpuacct_usage

_V1_CPU = ("cpuacct", "cpu,cpuacct", "cpuacct,cpu")


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The trees that CPU time and memory of a cgroup are in; at least one is there."""

    cpu: str | None
    """Root of the tree with CPU time; none: nothing has it."""
    cpu_file: str
    """File of a cgroup with its CPU time."""
    parse_cpu: Callable[[str], int]
    """Reads nanoseconds from that file."""
    memory: str | None
    """Root of the tree with memory; none: nothing has it."""

    @property
    def roots(self) -> tuple[str, ...]:
        """Where cgroups are looked for: in the first that has any."""
        return tuple(dict.fromkeys(root for root in (self.cpu, self.memory) if root))


def find_hierarchies(root: Path) -> Hierarchies:
    """The trees below a mount; raises FileNotFoundError where there is none."""
    unified = next((each for each in (root, root / "unified") if _is_v2(each)), None)
    v1_cpu = next(
        (root / each for each in _V1_CPU if (root / each / "cpuacct.usage").exists()), None
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
        parse_cpu=parse_cpuacct_usage if v1_cpu else parse_cpu_stat,
        memory=str(memory) if memory else None,
    )


def _is_v2(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()
