"""Resources of a pod's containers, as the scheduler of Kubernetes counts them.

- Normally: requests, limits and host ports of spec.containers and spec.initContainers.
- During an in-place resize: the larger of desired, allocated and actual resources; if the resize is
  infeasible, without the desired ones.
- With resources of the whole pod (spec.resources): these replace the sum over the containers for the
  resources that they name; during a resize as above.

Records have containers only. Therefore resources of the whole pod are put into the first container,
and the other containers request 0 of them, so that all sums are those of Kubernetes.

Source: k8s.io/component-helpers/resource/helpers.go, `PodRequests`, `determineEffectiveRequests`,
`IsSupportedPodLevelResource`.
"""

from collections.abc import Iterable
from typing import Any

from connectors.kubernetes.watch.metadata import Json, drop_empty
from schemas.base.quantities import QuantityError, parse_nanos

_WHOLE_POD = ("cpu", "memory")
_WHOLE_POD_PREFIX = "hugepages-"


def convert_containers(spec: Json, status: Json) -> tuple[list[Json], list[Json]]:
    """Return containers and init containers as values of `schemas.messages.pods.Container`."""
    infeasible = _infeasible(status)
    running = _by_name(status.get("containerStatuses"))
    plain = [_container(each, running, infeasible) for each in spec.get("containers") or ()]
    first: list[Json] = []
    if found := spec.get("initContainers"):
        running = _by_name(status.get("initContainerStatuses"))
        for container in found:
            is_sidecar = container.get("restartPolicy") == "Always"
            values = _container(container, running if is_sidecar else {}, infeasible)
            first.append({**values, "restart_policy": "Always"} if is_sidecar else values)
    if whole := spec.get("resources"):
        in_force = whole
        if status.get("resources") is not None:
            requests, limits = _resolve_resize(whole, status, infeasible)
            in_force = {"requests": requests, "limits": limits}
        for name in ("requests", "limits"):
            requested = whole.get(name) or {}
            counted = in_force.get(name) or requested
            amounts = {key: counted.get(key, "0") for key in requested if _is_pod_level(key)}
            _apply_pod_resources(name, amounts, plain, first)
    return plain, first


def _container(each: Json, running: dict[str, Json], infeasible: bool) -> Json:
    resources = each.get("resources") or {}
    requests, limits = resources.get("requests"), resources.get("limits")
    now = running.get(each["name"])
    if now is not None:
        requests, limits = _resolve_resize(resources, now, infeasible)
    made = drop_empty(requests=requests, limits=limits)
    if ports := each.get("ports"):
        taken = [
            drop_empty(
                port=port["hostPort"], protocol=port.get("protocol"), host_ip=port.get("hostIP")
            )
            for port in ports
            if port.get("hostPort")
        ]
        if taken:
            made["host_ports"] = taken
    return made


def _resolve_resize(requested: Json, now: Json, infeasible: bool) -> tuple[Any, Any]:
    """Return the effective requests and limits of a container or pod during a resize."""
    counted = {} if infeasible else requested
    given_now = now.get("resources")
    if given_now is None:
        return _largest(counted.get("requests"), now.get("allocatedResources")), requested.get(
            "limits"
        )
    used = (given_now.get("requests"), now.get("allocatedResources"))
    return (
        _largest(counted.get("requests"), *used),
        _largest(counted.get("limits"), given_now.get("limits")),
    )


def _by_name(statuses: Any) -> dict[str, Json]:
    """Return the statuses with resources, by container name."""
    return {
        each["name"]: each
        for each in statuses or ()
        if each.get("resources") is not None or each.get("allocatedResources")
    }


def _infeasible(status: Json) -> bool:
    return any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in status.get("conditions") or ()
    )


def _largest(*lists: Any) -> Any:
    """Return the largest amount of each resource; None if there are none."""
    there = [each for each in lists if each]
    if not there:
        return None
    first, *others = there
    if all(each == first for each in others):
        return first
    largest: dict[str, str] = dict(first)
    for each in others:
        for resource, text in each.items():
            if resource not in largest or _nanos(text) > _nanos(largest[resource]):
                largest[resource] = text
    return largest


def _nanos(text: str) -> int:
    """Return a comparable amount; an invalid quantity is refused later, with the record."""
    try:
        return parse_nanos(text)
    except QuantityError:
        return 0


def _is_pod_level(resource: str) -> bool:
    return resource in _WHOLE_POD or resource.startswith(_WHOLE_POD_PREFIX)


def _apply_pod_resources(
    name: str, amounts: Json, plain: list[Json], first: Iterable[Json]
) -> None:
    """Put resources of the whole pod into its first container, and remove them from the others."""
    if not amounts or not plain:
        return
    for each in (*plain, *first):
        if name == "requests":  # an explicit 0, because scores assume a request if there is none
            each[name] = {**each.get(name, {}), **dict.fromkeys(amounts, "0")}
        elif name in each:
            each[name] = {key: text for key, text in each[name].items() if key not in amounts}
    plain[0][name] = {**plain[0].get(name, {}), **amounts}
