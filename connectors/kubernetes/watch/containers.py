"""Resources of a pod's containers, as the scheduler of Kubernetes counts them.

- Normally: requests, limits and host ports of spec.containers and spec.initContainers.
- During an in-place resize: the larger of desired, allocated and actual resources; if the resize is
  infeasible, without the desired ones.
- With resources of the whole pod (spec.resources): amounts in spec.resources replace the sums over the
  containers; during a resize as above.

Records have containers only. Therefore resources of the whole pod are put into the first container,
and the other containers request 0 of them, so that all sums are those of Kubernetes.

Source: k8s.io/component-helpers/resource/helpers.go, `PodRequests`, `determineEffectiveRequests`,
`IsSupportedPodLevelResource`.
"""

from collections.abc import Iterable
from typing import Any

from connectors.kubernetes.watch.metadata import Json, drop_empty, select
from schemas.base.quantities import QuantityError, parse_nanos

_WHOLE_POD = ("cpu", "memory")
_WHOLE_POD_PREFIX = "hugepages-"


def convert_containers(spec: Json, status: Json) -> tuple[list[Json], list[Json]]:
    """Return containers and init containers as values of `schemas.messages.pods.Container`."""
    infeasible = _is_infeasible(status)
    running = _group_by_name(status.get("containerStatuses"))
    regular = [
        _convert_container(container, running, infeasible)
        for container in spec.get("containers") or ()
    ]
    init: list[Json] = []
    if init_containers := spec.get("initContainers"):
        running = _group_by_name(status.get("initContainerStatuses"))
        for container in init_containers:
            is_sidecar = container.get("restartPolicy") == "Always"
            values = _convert_container(container, running if is_sidecar else {}, infeasible)
            init.append({**values, "restart_policy": "Always"} if is_sidecar else values)
    if whole := spec.get("resources"):
        in_force = whole
        if status.get("resources") is not None:
            requests, limits = _resolve_resize(whole, status, infeasible)
            in_force = {"requests": requests, "limits": limits}
        for name in ("requests", "limits"):
            requested = whole.get(name) or {}
            counted = in_force.get(name) or requested
            amounts = {key: counted.get(key, "0") for key in requested if _is_pod_level(key)}
            _apply_pod_resources(name, amounts, regular, init)
    return regular, init


def _convert_container(container: Json, running: dict[str, Json], infeasible: bool) -> Json:
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests"), resources.get("limits")
    status = running.get(container["name"])
    if status is not None:
        requests, limits = _resolve_resize(resources, status, infeasible)
    values = drop_empty(requests=requests, limits=limits)
    if ports := container.get("ports"):
        values |= drop_empty(
            host_ports=[
                {"port": port["hostPort"], **select(port, "protocol", "hostIP")}
                for port in ports
                if port.get("hostPort")
            ]
        )
    return values


def _resolve_resize(requested: Json, status: Json, infeasible: bool) -> tuple[Any, Any]:
    """Return the effective requests and limits of a container or pod during a resize."""
    counted = {} if infeasible else requested
    actual = status.get("resources")
    if actual is None:
        requests = _find_largest(counted.get("requests"), status.get("allocatedResources"))
        return requests, requested.get("limits")
    in_use = (actual.get("requests"), status.get("allocatedResources"))
    return (
        _find_largest(counted.get("requests"), *in_use),
        _find_largest(counted.get("limits"), actual.get("limits")),
    )


def _group_by_name(statuses: Any) -> dict[str, Json]:
    """Return the statuses with resources, by container name."""
    return {
        status["name"]: status
        for status in statuses or ()
        if status.get("resources") is not None or status.get("allocatedResources")
    }


def _is_infeasible(status: Json) -> bool:
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )


def _find_largest(*lists: Any) -> Any:
    """Return the largest amount of each resource; None if there are none."""
    first, *others = [amounts for amounts in lists if amounts] or [None]
    if all(other == first for other in others):
        return first
    largest: dict[str, str] = dict(first)
    for other in others:
        for resource, text in other.items():
            if resource not in largest or _parse_nanos(text) > _parse_nanos(largest[resource]):
                largest[resource] = text
    return largest


def _parse_nanos(text: str) -> int:
    """Return a comparable amount; an invalid quantity is refused later, with the record."""
    try:
        return parse_nanos(text)
    except QuantityError:
        return 0


def _is_pod_level(resource: str) -> bool:
    return resource in _WHOLE_POD or resource.startswith(_WHOLE_POD_PREFIX)


def _apply_pod_resources(
    name: str, amounts: Json, regular: list[Json], init: Iterable[Json]
) -> None:
    """Put resources of the whole pod into its first container, and remove them from the others."""
    if not amounts or not regular:
        return
    for container in (*regular, *init):
        if name == "requests":  # an explicit 0, because scores assume a request if there is none
            container[name] = {**container.get(name, {}), **dict.fromkeys(amounts, "0")}
        elif name in container:
            container[name] = {
                key: text for key, text in container[name].items() if key not in amounts
            }
    regular[0][name] = {**regular[0].get(name, {}), **amounts}
