"""Demand of a pod: requests and limits, summed as Kubernetes sums them.

    sum = max(containers + sidecars,
              max over init containers of (init container + sidecars that started before it))
          + overhead

Overhead counts for a limit only if there is a limit. Quantities are added exactly and rounded up once
(docs/reference/upstream.md A6.5). Scores by requests assume a small request for containers without a
request for cpu or memory (K3); it is kept apart from the requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.base.quantities import parse_nanos, round_amount
from schemas.messages.pods import Container, HostPort, Pod

#: Requests that scores by requests assume for containers without a request.
ASSUMED_REQUESTS: Mapping[str, str] = MappingProxyType({"cpu": "100m", "memory": "200Mi"})
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PodDemand:
    """Requests and limits of a whole pod: cpu in millicores, other resources in their base unit.

    A resource that some container names is a key, even if its amount is 0.
    """

    requests: Mapping[str, int]
    limits: Mapping[str, int]
    assumed: Mapping[str, int]
    """What scores by requests assume for containers without a request; amounts above 0 only."""
    host_ports: tuple[HostPort, ...]

    best_effort: bool
    """Whether no container has a request or limit of cpu or memory; overhead does not count."""


def compute_demand(pod: Pod) -> PodDemand:
    """Sum requests, limits and host ports of a pod.

    Raises:
        QuantityError: a quantity of the pod cannot be read.
    """
    requests = _add_up(pod, "requests")
    return PodDemand(
        requests=requests,
        limits=_add_up(pod, "limits"),
        assumed=_compute_assumed(pod, requests),
        host_ports=tuple(
            port
            for container in (*pod.containers, *_sidecars(pod))
            for port in container.host_ports
        ),
        best_effort=not any(
            parse_nanos(amounts.get(resource, "0")) > 0
            for container in (*pod.containers, *pod.init_containers)
            for amounts in (container.requests, container.limits)
            for resource in ("cpu", "memory")
        ),
    )


def _sidecars(pod: Pod) -> tuple[Container, ...]:
    return tuple(c for c in pod.init_containers if c.restart_policy == "Always")


def _compute_assumed(pod: Pod, requests: Mapping[str, int]) -> dict[str, int]:
    containers = (*pod.containers, *pod.init_containers)
    if all(container.requests.keys() >= ASSUMED_REQUESTS.keys() for container in containers):
        return {}
    with_assumed = _add_up(pod, "requests", ASSUMED_REQUESTS)
    added = {name: with_assumed.get(name, 0) - requests.get(name, 0) for name in ASSUMED_REQUESTS}
    return {name: amount for name, amount in added.items() if amount > 0}


def _add_up(pod: Pod, field: str, missing: Mapping[str, str] = _NOTHING) -> dict[str, int]:
    running: dict[str, int] = {}
    for container in pod.containers:
        _add(running, {**missing, **getattr(container, field)})
    starting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in pod.init_containers:
        amounts = {**missing, **getattr(container, field)}
        if container.restart_policy == "Always":
            _add(running, amounts)
            _add(sidecars, amounts)
            step = sidecars
        else:
            step = dict(sidecars)
            _add(step, amounts)
        for resource, amount in step.items():
            starting[resource] = max(starting.get(resource, 0), amount)
    for resource, amount in starting.items():
        running[resource] = max(running.get(resource, 0), amount)
    for resource, text in pod.overhead.items():
        if field == "requests" or running.get(resource, 0) > 0:
            running[resource] = running.get(resource, 0) + parse_nanos(text)
    return {resource: round_amount(resource, amount) for resource, amount in running.items()}


def _add(total: dict[str, int], quantities: Mapping[str, str]) -> None:
    for resource, text in quantities.items():
        total[resource] = total.get(resource, 0) + parse_nanos(text)
