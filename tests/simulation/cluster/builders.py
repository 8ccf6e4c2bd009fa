"""Pods, readings and machines of a simulated cluster."""

from typing import Any

import numpy as np

from schemas.messages.pods import Pod, PodRef
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan, container_of, requests_of
from simulation.cluster.readings import Readings
from tests.connectors.ports.sink_contract import NOW_MS

GIB = 1 << 30
MINUTE_MS = 60_000


def pod(name: str, cores: int = 4, **more: Any) -> PodPlan:
    """A pod that lives for an hour and uses half of its request."""
    batch = more.pop("batch", False)
    requests = requests_of(cores * 1000, 4 * GIB, batch=batch)
    plan: dict[str, Any] = {
        "pod": Pod(
            namespace="ns", name=name, uid=name, containers=(container_of(requests, limited=False),)
        ),
        "at_ms": NOW_MS,
        "life_ms": 3_600_000,
        "requests": requests,
        "cpu_millicores": cores * 500.0,
        "memory_bytes": 2.0 * GIB,
        "phase": 0.0,
        "job": False,
    }
    return PodPlan(**{**plan, **more})


def reference(plan: PodPlan) -> PodRef:
    """Which pod it is."""
    return PodRef(namespace=plan.pod.namespace, name=plan.pod.name, uid=plan.pod.uid)


def machines(count: int, millicores: int = 16_000, memory: int = 64 * GIB) -> list[Machine]:
    """Machines n1, n2, ... of one size."""
    return [Machine(f"n{number + 1}", millicores, memory) for number in range(count)]


def readings(minutes: int, *millicores: int) -> Readings:
    """Every minute a reading of each machine, which uses as much cpu and 1 GiB all the time."""
    at_ms = np.repeat(NOW_MS + np.arange(minutes, dtype=np.int64) * MINUTE_MS, len(millicores))
    machine = np.tile(np.arange(len(millicores), dtype=np.int64), minutes)
    cpu = np.tile(np.array(millicores, dtype=np.int64), minutes)
    return Readings(at_ms, machine, cpu, np.full(len(at_ms), GIB, dtype=np.int64))
