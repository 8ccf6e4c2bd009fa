"""Pods and machines of a simulated cluster."""

from typing import Any

from schemas.messages.pods import Pod, PodRef
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan, make_container
from tests.connectors.ports.sink_contract import NOW_MS

GIB = 1 << 30


def pod(name: str, cores: int = 4, **more: Any) -> PodPlan:
    """Return a pod that lives for an hour."""
    requests = {"cpu": cores * 1000, "memory": 4 * GIB}
    plan: dict[str, Any] = {
        "pod": Pod(namespace="ns", name=name, uid=name, containers=(make_container(requests),)),
        "at_ms": NOW_MS,
        "life_ms": 3_600_000,
        "requests": requests,
    }
    return PodPlan(**{**plan, **more})


def reference(plan: PodPlan) -> PodRef:
    return PodRef(namespace=plan.pod.namespace, name=plan.pod.name, uid=plan.pod.uid)


def machines(count: int, millicores: int = 16_000, memory: int = 64 * GIB) -> list[Machine]:
    return [Machine(f"n{number + 1}", millicores, memory) for number in range(count)]
