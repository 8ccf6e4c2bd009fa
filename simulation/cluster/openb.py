"""The pod list of the OpenB cluster (Alibaba cluster-trace-gpu-v2023), as pods for our nodes.

Those that want GPUs are left out and counted. A task's class of service becomes what Koordinator
knows it by: LS a prod pod of quality LS; BE a batch pod on batch resources; Guaranteed and
Burstable ordinary prod pods of that Kubernetes class. Requests and life are the trace's; what a
task really used it does not tell, so that is drawn from the seed.

The tasks came over months, with long pauses. `squeezed` brings their arrivals into the length of a
run: order and bursts stay, pauses longer than six hours are cut to that, and all distances shrink
alike.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from schemas.messages.pods import OwnerReference, Pod
from simulation.cluster.pods import (
    BATCH,
    MIB,
    PRIORITY_CLASS_LABEL,
    PROD,
    QOS_CLASS_LABEL,
    SCHEDULER,
    PodPlan,
    container_of,
    requests_of,
)
from simulation.cluster.tracefiles import (
    Malformed,
    RowError,
    TraceError,
    find_trace,
    read_rows,
    whole_number,
)

PATTERNS = ("openb*pod*.csv.gz", "openb*pod*.csv")
COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip

Quality = Literal["LS", "BE", "Burstable", "Guaranteed"]
QUALITIES: tuple[Quality, ...] = ("LS", "BE", "Burstable", "Guaranteed")

#: Most rows that are read; the published list has 8,152.
ROWS_MAX = 1_000_000
#: Longest pause between two arrivals that is kept.
PAUSE_MAX_S = 6 * 3600
#: A task that was never deleted, or lives longer, lives on to the end of every run.
LIFE_MAX_S = 30 * 86_400
#: Chosen, as shares of the request: services (False) use less of their cores than batch jobs (True)
#: do.
_CPU_USE: dict[bool, tuple[float, float]] = {False: (0.20, 0.50), True: (0.35, 0.75)}
_MEMORY_USE = (0.30, 0.55)

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")

_STREAM = 40


@dataclass(frozen=True, slots=True)
class Task:
    """One row of the list."""

    name: str
    millicores: int
    memory_mib: int
    quality: Quality
    created_s: int
    """Seconds since the start of the trace."""
    life_s: int


@dataclass(frozen=True, slots=True)
class TaskList:
    """What a file holds."""

    file: str
    tasks: tuple[Task, ...]
    """Those without GPUs, in the order of their arrival."""
    rows: int
    with_gpus: int
    """Rows left out because they want GPUs."""
    malformed: Malformed


def read_tasks(directory: Path, rows_max: int = ROWS_MAX) -> TaskList:
    """Read the pod list of a directory.

    Raises TraceError where there is none, it cannot be read, or holds no task without GPUs.
    """
    path = find_trace(directory, PATTERNS, "pods of the OpenB trace")
    malformed = Malformed(path.name)
    tasks: list[Task] = []
    rows = with_gpus = 0
    for line, fields in read_rows(path, COLUMNS, malformed):
        if rows == rows_max:
            break
        rows += 1
        row = dict(zip(COLUMNS, fields, strict=True))
        try:
            if whole_number("num_gpu", row["num_gpu"]) > 0:
                with_gpus += 1
                continue
            tasks.append(_task(row))
        except RowError as error:
            malformed.add(line, str(error))
    if not tasks:
        raise TraceError(f"{path} holds no task without GPUs in {rows} rows")
    tasks.sort(key=lambda task: (task.created_s, task.name))
    return TaskList(path.name, tuple(tasks), rows, with_gpus, malformed)


def _task(row: dict[str, str]) -> Task:
    if row["qos"] not in QUALITIES:
        raise RowError(f"qos: found {row['qos'][:40]!r}; expected {', '.join(QUALITIES)}")
    if not _NAME.fullmatch(row["name"]):
        raise RowError(f"name: found {row['name'][:40]!r}; expected the name of a pod")
    created_s = whole_number("creation_time", row["creation_time"])
    life_s = LIFE_MAX_S
    if row["deletion_time"]:
        life_s = min(whole_number("deletion_time", row["deletion_time"]) - created_s, LIFE_MAX_S)
    if life_s < 0:
        raise RowError(
            f"deletion_time: found {row['deletion_time']}; expected none before creation_time"
        )
    return Task(
        name=row["name"],
        millicores=whole_number("cpu_milli", row["cpu_milli"]),
        memory_mib=whole_number("memory_mib", row["memory_mib"]),
        quality=row["qos"],
        created_s=created_s,
        life_s=life_s,
    )


def squeezed(tasks: Sequence[Task], begin_ms: int, end_ms: int) -> list[int]:
    """When each task arrives in a run from `begin_ms` to `end_ms`, in ms since 1970."""
    created_s = np.array([task.created_s for task in tasks], dtype=np.int64)
    pauses = np.minimum(np.diff(created_s, prepend=created_s[:1]), PAUSE_MAX_S)
    places = np.cumsum(pauses)
    scale = (end_ms - begin_ms) / max(1, int(places[-1]))
    at_ms: list[int] = (begin_ms + (places * scale).astype(np.int64)).tolist()
    return at_ms


def plans_of(tasks: Sequence[Task], begin_ms: int, end_ms: int, seed: int) -> list[PodPlan]:
    """The tasks as pods that ask for a node from `begin_ms` to `end_ms`; their lives are not
    shortened."""
    random = np.random.default_rng([seed, _STREAM])
    times = squeezed(tasks, begin_ms, end_ms)
    return [_plan(task, at_ms, random) for task, at_ms in zip(tasks, times, strict=True)]


def _plan(task: Task, at_ms: int, random: np.random.Generator) -> PodPlan:
    batch = task.quality == "BE"
    memory_bytes = task.memory_mib * MIB
    requests = requests_of(task.millicores, memory_bytes, batch=batch)
    labels = {PRIORITY_CLASS_LABEL: BATCH if batch else PROD}
    # The trace names no workloads: tasks of one shape and quality count as those of one.
    owner = f"{task.quality.lower()}-{task.millicores}m-{task.memory_mib}mi"
    if task.quality in ("LS", "BE"):
        labels[QOS_CLASS_LABEL] = task.quality
    pod = Pod(
        namespace="openb",
        name=task.name,
        uid=task.name,
        scheduler=SCHEDULER,
        priority=5500 if batch else 9500,
        qos_class=task.quality if task.quality in ("Burstable", "Guaranteed") else None,
        labels=labels,
        owners=(
            OwnerReference(
                kind="Job" if batch else "ReplicaSet",
                name=owner,
                uid=f"openb-{owner}",
                controller=True,
            ),
        ),
        containers=(container_of(requests, limited=task.quality == "Guaranteed"),),
        created_at_ms=at_ms,
    )
    return PodPlan(
        pod=pod,
        at_ms=at_ms,
        life_ms=max(1, task.life_s) * 1000,
        requests=requests,
        cpu_millicores=task.millicores * float(random.uniform(*_CPU_USE[batch])),
        memory_bytes=memory_bytes * float(random.uniform(*_MEMORY_USE)),
        phase=float(random.random()),
        job=batch,
    )
