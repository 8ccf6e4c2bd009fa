"""Pressure stall information: the share of time in which tasks waited for a resource.

A file in `/proc/pressure` has a line `some` (at least one task waited) and a line `full` (all runnable
tasks waited), each with the share of the last 10, 60 and 300 seconds in percent, and the total in
microseconds (the kernel's Documentation/accounting/psi.rst). For the CPU of a whole machine `full` is
undefined and left out; the kernel writes zeros. Without these files, or with `psi=0`, no pressure is
reported.
"""

import re

from connectors.agent.files import Files
from schemas.messages.usage import Pressure, ResourcePressure, Stalled

_LINE = re.compile(
    r"^(some|full) avg10=(\d+)\.(\d\d) avg60=(\d+)\.(\d\d) avg300=(\d+)\.(\d\d) total=(\d+)$",
    re.MULTILINE,
)


def parse_pressure(text: str) -> ResourcePressure:
    """Parse one file; raises ValueError if it has no line `some`."""
    stalls = {
        kind: Stalled(
            avg10_bp=min(10_000, int(a10 + b10)),
            avg60_bp=min(10_000, int(a60 + b60)),
            avg300_bp=min(10_000, int(a300 + b300)),
            total_us=int(total),
        )
        for kind, a10, b10, a60, b60, a300, b300, total in _LINE.findall(text)
    }
    if "some" not in stalls:
        raise ValueError(f"found {text[:60]!r}; expected a line that begins with some avg10=")
    return ResourcePressure(some=stalls["some"], full=stalls.get("full"))


def read_node_pressure(files: Files, proc: str) -> Pressure | None:
    """Return the pressure of the whole machine; None if the kernel does not support it."""
    cpu, memory, io = (
        files.read("pressure", f"{proc}/pressure/{name}", parse_pressure)
        for name in ("cpu", "memory", "io")
    )
    if cpu is None and memory is None and io is None:
        return None
    if cpu is not None:
        cpu = ResourcePressure(some=cpu.some)
    return Pressure(cpu=cpu, memory=memory, io=io)
