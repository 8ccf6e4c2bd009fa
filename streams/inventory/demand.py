"""What a pod asks of a node: requests and limits summed as Kubernetes sums them.

For each resource the sum is the larger of (containers + sidecars) and the largest init container in
order (its own figure + the sidecars started before it), plus the pod's overhead; overhead counts
for a limit only where there is a limit. Quantities are added exactly and rounded up once
(docs/upstream.md A6.5).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.pods import Container, HostPort, Pod
from schemas.quantities import amount_of, nanos


@dataclass(frozen=True)
class PodDemand:
    """Requests and limits of a whole pod: cpu in millicores, other resources in their base unit.

    A resource is a key as soon as some container names it, even with 0.
    """

    requests: Mapping[str, int]
    limits: Mapping[str, int]
    host_ports: tuple[HostPort, ...]

    best_effort: bool
    """No container asks for or is limited in cpu or memory; overhead does not matter."""


def pod_demand(pod: Pod) -> PodDemand:
    """Sum requests, limits and host ports of a pod.

    Raises:
        QuantityError: a quantity of the pod cannot be read.
    """
    return PodDemand(
        requests=_total(pod, "requests"),
        limits=_total(pod, "limits"),
        host_ports=tuple(
            port
            for container in (*pod.containers, *_sidecars(pod))
            for port in container.host_ports
        ),
        best_effort=not any(
            nanos(amounts.get(resource, "0")) > 0
            for container in (*pod.containers, *pod.init_containers)
            for amounts in (container.requests, container.limits)
            for resource in ("cpu", "memory")
        ),
    )


def _sidecars(pod: Pod) -> tuple[Container, ...]:
    return tuple(c for c in pod.init_containers if c.restart_policy == "Always")


def _total(pod: Pod, field: str) -> dict[str, int]:
    running: dict[str, int] = {}
    for container in pod.containers:
        _add(running, getattr(container, field))
    starting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in pod.init_containers:
        own = getattr(container, field)
        if container.restart_policy == "Always":
            _add(running, own)
            _add(sidecars, own)
            step = sidecars
        else:
            step = dict(sidecars)
            _add(step, own)
        for resource, amount in step.items():
            starting[resource] = max(starting.get(resource, 0), amount)
    for resource, amount in starting.items():
        running[resource] = max(running.get(resource, 0), amount)
    for resource, text in pod.overhead.items():
        if field == "requests" or running.get(resource, 0) > 0:
            running[resource] = running.get(resource, 0) + nanos(text)
    return {resource: amount_of(resource, amount) for resource, amount in running.items()}


def _add(total: dict[str, int], quantities: Mapping[str, str]) -> None:
    for resource, text in quantities.items():
        total[resource] = total.get(resource, 0) + nanos(text)
