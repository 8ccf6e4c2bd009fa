"""Published traces for the closed loop: sizes of nodes and pods, and CPU of machines.

    openb*node*.csv   nodes of the OpenB cluster: CPU in milli, memory in MiB
    openb*pod*.csv    its tasks; those without GPUs give the sizes of pods
    planetlab*.csv    CPU of virtual machines, every 5 minutes, in percent; one file per day

Files may be compressed (.gz), and their names may contain anything where the patterns have a star.
Files of days may be in subdirectories. Without a directory there is a model of all three: sizes as in
the OpenB cluster, and machines of which most do little and a few are busy all day. `system_usage` reads
a fourth list, the usage of the nodes themselves, if it is requested.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulation.closed_loop.system_usage import Shape, has_system_usage, read_system_usage
from simulation.closed_loop.trace_files import (
    Malformed,
    RowError,
    TraceError,
    find_trace,
    parse_whole_number,
    read_rows,
)
from simulation.cluster.machines import SHAPES
from simulation.cluster.pods import GIB, MIB

Sizes = npt.NDArray[np.int64]
"""Millicores and bytes; shape (how many, 2)."""

NODE_PATTERNS = ("openb*node*.csv", "openb*node*.csv.gz")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib")
POD_PATTERNS = ("openb*pod*.csv.gz", "openb*pod*.csv")
POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
CPU_PATTERN = re.compile(r"planetlab(.*)\.csv(\.gz)?")
#: Length of a step of the CPU trace, and steps in its day.
STEP_S, STEPS = 300, 288
CPU_COLUMNS = ("vm", *(f"t{5 * step}min" for step in range(STEPS)))

#: Rows of a list that are read at most; the published lists have 1,523 nodes, 8,152 pods, 1,052
#: machines.
ROWS_MAX = 100_000

#: The model: sizes of pods in cores and GiB with their shares, as CPU-only tasks of OpenB.
_POD_SIZES = ((8, 30, 0.50), (12, 50, 0.12), (32, 56, 0.38))
_MODEL_NODES, _MODEL_PODS, _MODEL_MACHINES = 1000, 1000, 1000
#: The model's machines: median and spread (of the logarithm) of their means, spread of a step.
#: Mean, spread of means and share of busy steps are those of a day of PlanetLab.
_LEVEL_MEDIAN, _LEVEL_SPREAD, _STEP_SPREAD = 6.0, 1.2, 0.5
#: The model is one list for all runs.
_MODEL_SEED = 20_110_303


@dataclass(frozen=True, slots=True)
class Traces:
    """Lists of nodes and pods, and one day of machines, that runs are drawn from."""

    day: str
    """The date in the name of the day's file, or the rest of its name."""
    nodes: Sizes
    pods: Sizes
    cpu_percent: npt.NDArray[np.float32]
    """CPU of machines; shape (machines, STEPS)."""
    files: tuple[str, ...]
    """Files of the lists; empty: the built-in model."""
    complaints: tuple[str, ...] = ()
    """Rows that could not be read."""
    system: Shape | None = None
    """Usage of the nodes themselves; none: the built-in model."""


def read_traces(directory: Path, *, system: bool = False) -> list[Traces]:
    """Read the lists of a directory; with `system` also the usage of nodes themselves, if there is a file.

    Returns the traces of each day, ordered by name. They differ only in the machines of the day.
    Raises TraceError if a list is missing, unreadable or empty.
    """
    pods, pod_file, bad_pods = _read_pods(directory)
    nodes, node_file, bad_nodes = _read_nodes(directory)
    files: tuple[str, ...] = (node_file, pod_file)
    complaints: tuple[str, ...] = (*bad_nodes.complaints, *bad_pods)
    shape: Shape | None = None
    if system and has_system_usage(directory):
        machines = read_system_usage(directory)
        files, shape = (*files, machines.file), machines.shape
        complaints = (*complaints, *machines.complaints)
    days = []
    for day, path in _find_days(directory).items():
        cpu, bad_cpu = _read_cpu(path)
        own = (*complaints, *bad_cpu.complaints)
        days.append(Traces(day, nodes, pods, cpu, (*files, path.name), own, shape))
    return days


def _find_days(directory: Path) -> dict[str, Path]:
    """Return files of PlanetLab machines by day, including those in subdirectories."""
    days: dict[str, Path] = {}
    paths = [*directory.glob("planetlab*"), *directory.glob("*/planetlab*")]
    for path in sorted(paths, key=lambda path: path.name):
        named = CPU_PATTERN.fullmatch(path.name)
        if named is None or not path.is_file():
            continue
        dated = re.search(r"\d{8}", path.name)
        day = dated[0] if dated else named[1].strip("-_.") or "day"
        if day in days:
            raise TraceError(
                f"{directory} holds {days[day]} and {path}, both of day {day}; expected one file a day"
            )
        days[day] = path
    if not days:
        raise TraceError(
            f"{directory} holds no CPU of PlanetLab machines: expected files named like planetlab*.csv"
        )
    return days


def _read_pods(directory: Path) -> tuple[Sizes, str, tuple[str, ...]]:
    """Return sizes of the pods without GPUs, in the order of their creation."""
    path = find_trace(directory, POD_PATTERNS, "pods of the OpenB trace")
    malformed = Malformed(path.name)
    pods: list[tuple[int, str, int, int]] = []
    without = 0
    for line, fields in read_rows(path, POD_COLUMNS, malformed):
        if len(pods) == ROWS_MAX:
            break
        row = dict(zip(POD_COLUMNS, fields, strict=True))
        try:
            if parse_whole_number("num_gpu", row["num_gpu"]):
                continue
            created_s, cpu, memory = (
                parse_whole_number(column, row[column])
                for column in ("creation_time", "cpu_milli", "memory_mib")
            )
        except RowError as error:
            malformed.add(line, str(error))
            continue
        if cpu:
            pods.append((created_s, row["name"], cpu, memory * MIB))
        else:  # what pods use is a multiple of what they request
            without += 1
    if not pods:
        raise TraceError(f"{path} holds no pod without GPUs that requests CPU")
    complaints = malformed.complaints
    if without:
        complaints = (*complaints, f"{path.name}: {without} pods that request no CPU")
    return np.array([each[2:] for each in sorted(pods)]), path.name, complaints


def _read_nodes(directory: Path) -> tuple[Sizes, str, Malformed]:
    path = find_trace(directory, NODE_PATTERNS, "nodes of the OpenB trace")
    malformed = Malformed(path.name)
    sizes: list[tuple[int, int]] = []
    for line, (_, cpu, memory) in read_rows(path, NODE_COLUMNS, malformed):
        if len(sizes) == ROWS_MAX:
            break
        try:
            sizes.append((_above_0("cpu_milli", cpu), _above_0("memory_mib", memory) * MIB))
        except RowError as error:
            malformed.add(line, str(error))
    if not sizes:
        raise TraceError(f"{path} holds no node")
    return np.array(sizes), path.name, malformed


def _read_cpu(path: Path) -> tuple[npt.NDArray[np.float32], Malformed]:
    malformed = Malformed(path.name)
    machines: list[list[int]] = []
    for line, (_, *steps) in read_rows(path, CPU_COLUMNS, malformed):
        if len(machines) == ROWS_MAX:
            break
        try:
            machines.append([_percent(column, text) for column, text in enumerate(steps, 1)])
        except RowError as error:
            malformed.add(line, str(error))
    if not machines or not np.any(machines):
        raise TraceError(f"{path} holds no machine that used anything")
    return np.array(machines, dtype=np.float32), malformed


def _above_0(column: str, text: str) -> int:
    amount = parse_whole_number(column, text)
    if amount == 0:
        raise RowError(f"{column}: found 0; expected a node of some size")
    return amount


def _percent(column: int, text: str) -> int:
    percent = parse_whole_number(CPU_COLUMNS[column], text)
    if percent > 100:
        raise RowError(f"{CPU_COLUMNS[column]}: found {text}; expected 0 to 100 percent")
    return percent


def model_traces() -> Traces:
    random = np.random.default_rng(_MODEL_SEED)
    nodes = _drawn(random, SHAPES, _MODEL_NODES)
    pods = _drawn(random, _POD_SIZES, _MODEL_PODS)
    level = _LEVEL_MEDIAN * np.exp(_LEVEL_SPREAD * random.standard_normal((_MODEL_MACHINES, 1)))
    steps = np.exp(_STEP_SPREAD * random.standard_normal((_MODEL_MACHINES, STEPS)))
    cpu = np.clip(np.rint(level * steps), 0, 100).astype(np.float32)
    return Traces("model", nodes, pods, cpu, ())


def _drawn(
    random: np.random.Generator, shapes: tuple[tuple[int, int, float], ...], count: int
) -> Sizes:
    shares = np.array([share for _, _, share in shapes])
    which = random.choice(len(shapes), count, p=shares / shares.sum())
    sizes = np.array([(cores * 1000, gib * GIB) for cores, gib, _ in shapes])
    drawn: Sizes = sizes[which]
    return drawn
