"""Nodes, pods and requests of cluster c, as tests with a broker send them."""

from typing import Any

from schemas.messages.nodes import NodeState
from schemas.messages.pods import Container, Pod
from schemas.messages.requests import SchedulingRequest

#: A time of which nothing is special.
NOW_MS = 1_790_000_000_000


def nodes(cpu: int = 16, count: int = 4, pods: int = 110) -> list[NodeState]:
    """Nodes n0, n1, ... with 4 GiB a core."""
    allocatable = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": str(pods)}
    return [
        NodeState(cluster="c", node=f"n{number}", event="added", allocatable=allocatable)
        for number in range(count)
    ]


def pod(number: int, *, cpu: str = "500m", memory: str = "1Gi", **fields: Any) -> Pod:
    """Pod p<number>, whose uid is u<number>."""
    container = Container(requests={"cpu": cpu, "memory": memory})
    return Pod(
        **{
            "namespace": "default",
            "name": f"p{number}",
            "uid": f"u{number}",
            "containers": (container,),
            **fields,
        }
    )


def request(
    number: int, *, at_ms: int = NOW_MS, cluster: str = "c", **of: Any
) -> SchedulingRequest:
    """Such a pod asks for a node."""
    return SchedulingRequest(cluster=cluster, requested_at_ms=at_ms, pod=pod(number, **of))
