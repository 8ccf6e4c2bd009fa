"""Published traces for the closed loop: sizes of nodes and pods, and CPU of machines.

    openb*node*.csv   nodes of the OpenB cluster: CPU in milli, memory in MiB
    openb*pod*.csv    tasks of that cluster; tasks without GPUs give the sizes of pods
    planetlab*.csv    CPU of virtual machines, every 5 minutes, in percent; one file per day

Files may be compressed (.gz). Files of days may be in subdirectories. Without a directory, a model
replaces all three lists: sizes as in the OpenB cluster, and machines that are mostly idle, a few busy all
day. On request, `system_usage` reads a fourth list, the usage of the nodes themselves.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulation.closed_loop.system_usage import Shape, has_system_usage, read_system_usage
from simulation.closed_loop.trace_files import (
    TraceError,
    find_trace,
    parse_whole_number,
    read_rows,
)
from simulation.cluster.machines import SHAPES
from simulation.cluster.pods import GIB, MIB

Sizes = npt.NDArray[np.int64]
"""Millicores and bytes; shape (count, 2)."""

NODE_PATTERNS = ("openb*node*.csv", "openb*node*.csv.gz")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib")
POD_PATTERNS = ("openb*pod*.csv.gz", "openb*pod*.csv")
POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
_Pod = tuple[int, str, int, int]
"""Time of creation, name, millicores and bytes of a pod."""
CPU_PATTERN = re.compile(r"planetlab(.*)\.csv(\.gz)?")
#: Length of a step of the CPU trace, and number of steps per day.
STEP_S, STEPS = 300, 288
CPU_COLUMNS = ("vm", *(f"t{5 * step}min" for step in range(STEPS)))

#: Model of pods: cores, GiB and share of the pods, approximating tasks of OpenB without GPUs.
_POD_SIZES = ((8, 30, 0.50), (12, 50, 0.12), (32, 56, 0.38))
_MODEL_NODES, _MODEL_PODS, _MODEL_MACHINES = 1000, 1000, 1000
#: Model of machines: median and spread of their means, and spread of steps. A spread is a standard
#: deviation of logarithms. Mean, spread of means and share of busy steps match a day of PlanetLab.
_LEVEL_MEDIAN, _LEVEL_SPREAD, _STEP_SPREAD = 6.0, 1.2, 0.5
#: All runs have the same model.
_MODEL_SEED = 20_110_303


@dataclass(frozen=True, slots=True)
class Traces:
    """Nodes, pods and one day of machines, from which scenarios are drawn."""

    day: str
    """Date in the name of the day's file, or the variable part of the name."""
    nodes: Sizes
    pods: Sizes
    cpu_percent: npt.NDArray[np.float32]
    """CPU of machines; shape (machines, STEPS)."""
    files: tuple[str, ...]
    """Files of the lists; empty: the built-in model."""
    system: Shape | None = None
    """Usage of the nodes themselves; None: the built-in model."""


def read_traces(directory: Path, *, system: bool = False) -> list[Traces]:
    """Return the traces of each day in a directory, ordered by file name.

    With `system`, also read the usage of the nodes themselves, if there is a file.

    Raises TraceError if a list is missing, unreadable or empty.
    """
    pods, pod_file = _read_pods(directory)
    nodes, node_file = _read_nodes(directory)
    files: tuple[str, ...] = (node_file, pod_file)
    shape: Shape | None = None
    if system and has_system_usage(directory):
        system_file, shape = read_system_usage(directory)
        files = (*files, system_file)
    return [
        Traces(day, nodes, pods, _read_cpu(path), (*files, path.name), shape)
        for day, path in _find_days(directory).items()
    ]


def _find_days(directory: Path) -> dict[str, Path]:
    """Return files of PlanetLab machines by day, including those in subdirectories."""
    days: dict[str, Path] = {}
    paths = [*directory.glob("planetlab*"), *directory.glob("*/planetlab*")]
    for path in sorted(paths, key=lambda path: path.name):
        match = CPU_PATTERN.fullmatch(path.name)
        if match is None or not path.is_file():
            continue
        date = re.search(r"\d{8}", path.name)
        day = date[0] if date else match[1].strip("-_.") or "day"
        if day in days:
            raise TraceError(
                f"{directory} contains {days[day]} and {path}, both of day {day}; expected one file per day"
            )
        days[day] = path
    if not days:
        raise TraceError(
            f"{directory} contains no CPU of PlanetLab machines: expected files named like planetlab*.csv"
        )
    return days


def _read_pods(directory: Path) -> tuple[Sizes, str]:
    """Return sizes of the pods that request CPU and no GPU, in the order of their creation."""
    path = find_trace(directory, POD_PATTERNS, "pods of the OpenB trace")
    pods = sorted(filter(None, read_rows(path, POD_COLUMNS, _parse_pod)))
    if not pods:
        raise TraceError(f"{path} contains no pod without GPUs that requests CPU")
    return np.array([pod[2:] for pod in pods]), path.name


def _parse_pod(fields: list[str]) -> _Pod | None:
    row = dict(zip(POD_COLUMNS, fields, strict=True))
    gpus, cpu, memory, created_s = (
        parse_whole_number(column, row[column])
        for column in ("num_gpu", "cpu_milli", "memory_mib", "creation_time")
    )
    # Usage is a multiple of requests, so a pod without requests would use nothing.
    return None if gpus or not cpu else (created_s, row["name"], cpu, memory * MIB)


def _read_nodes(directory: Path) -> tuple[Sizes, str]:
    path = find_trace(directory, NODE_PATTERNS, "nodes of the OpenB trace")
    sizes = list(read_rows(path, NODE_COLUMNS, _parse_node))
    if not sizes:
        raise TraceError(f"{path} contains no node")
    return np.array(sizes), path.name


def _parse_node(fields: list[str]) -> tuple[int, int]:
    cpu, memory = map(parse_whole_number, NODE_COLUMNS[1:], fields[1:])
    if not cpu or not memory:
        raise ValueError(f"found a node of {cpu} millicores and {memory} MiB; expected more than 0")
    return cpu, memory * MIB


def _read_cpu(path: Path) -> npt.NDArray[np.float32]:
    machines = list(read_rows(path, CPU_COLUMNS, _parse_machine))
    if not machines or not np.any(machines):
        raise TraceError(f"{path} contains no machine with usage above 0")
    return np.array(machines, dtype=np.float32)


def _parse_machine(fields: list[str]) -> list[int]:
    percents = [*map(parse_whole_number, CPU_COLUMNS[1:], fields[1:])]
    if max(percents) > 100:
        raise ValueError(f"found {max(percents)}; expected 0 to 100 percent")
    return percents


def model_traces() -> Traces:
    random = np.random.default_rng(_MODEL_SEED)
    nodes = _draw(random, SHAPES, _MODEL_NODES)
    pods = _draw(random, _POD_SIZES, _MODEL_PODS)
    level = _LEVEL_MEDIAN * np.exp(_LEVEL_SPREAD * random.standard_normal((_MODEL_MACHINES, 1)))
    steps = np.exp(_STEP_SPREAD * random.standard_normal((_MODEL_MACHINES, STEPS)))
    cpu = np.clip(np.rint(level * steps), 0, 100).astype(np.float32)
    return Traces("model", nodes, pods, cpu, ())


def _draw(
    random: np.random.Generator, shapes: tuple[tuple[int, int, float], ...], count: int
) -> Sizes:
    shares = np.array([share for _, _, share in shapes])
    indexes = random.choice(len(shapes), count, p=shares / shares.sum())
    sizes = np.array([(cores * 1000, gib * GIB) for cores, gib, _ in shapes])
    drawn: Sizes = sizes[indexes]
    return drawn
