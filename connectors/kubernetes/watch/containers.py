"""What the containers of a pod ask for, as the scheduler of Kubernetes counts it.

    as written         spec.containers, spec.initContainers: requests, limits, host ports
    while resized      of a container that is resized in place, the larger of what is asked for, given
                       and used; of an impossible resize what is given and used
    of the whole pod   spec.resources stands instead of the sum over the containers, for the resources
                       that it names; while resized as with a container

A record has containers only. So what a pod asks for as a whole is put into its first container and
taken from all others, which request 0 then: every sum comes out as Kubernetes has it.

Source: k8s.io/component-helpers/resource/helpers.go, `PodRequests`, `determineEffectiveRequests`,
`IsSupportedPodLevelResource`.
"""

from collections.abc import Iterable
from typing import Any

from connectors.kubernetes.watch.metadata import Json, given
from schemas.base.quantities import QuantityError, nanos

_WHOLE_POD = ("cpu", "memory")
_WHOLE_POD_PREFIX = "hugepages-"


def containers(spec: Json, status: Json) -> tuple[list[Json], list[Json]]:
    """Containers and init containers of a pod, as plain values of `schemas.messages.pods.Container`."""
    infeasible = _infeasible(status)
    running = _by_name(status.get("containerStatuses"))
    plain = [_container(each, running, infeasible) for each in spec.get("containers") or ()]
    first: list[Json] = []
    if found := spec.get("initContainers"):
        running = _by_name(status.get("initContainerStatuses"))
        for each in found:
            sidecar = each.get("restartPolicy") == "Always"
            one = _container(each, running if sidecar else {}, infeasible)
            first.append({**one, "restart_policy": "Always"} if sidecar else one)
    if whole := spec.get("resources"):
        in_force = whole
        if status.get("resources") is not None:
            requests, limits = _while_resized(whole, status, infeasible)
            in_force = {"requests": requests, "limits": limits}
        for name in ("requests", "limits"):
            asked = whole.get(name) or {}
            counted = in_force.get(name) or asked
            named = {key: counted.get(key, "0") for key in asked if _of_pods(key)}
            _of_whole_pod(name, named, plain, first)
    return plain, first


def _container(each: Json, running: dict[str, Json], infeasible: bool) -> Json:
    resources = each.get("resources") or {}
    requests, limits = resources.get("requests"), resources.get("limits")
    now = running.get(each["name"])
    if now is not None:
        requests, limits = _while_resized(resources, now, infeasible)
    made = given(requests=requests, limits=limits)
    if ports := each.get("ports"):
        taken = [
            given(port=port["hostPort"], protocol=port.get("protocol"), host_ip=port.get("hostIP"))
            for port in ports
            if port.get("hostPort")
        ]
        if taken:
            made["host_ports"] = taken
    return made


def _while_resized(asked: Json, now: Json, infeasible: bool) -> tuple[Any, Any]:
    """Requests and limits that count, of a container or a pod with its status."""
    counted = {} if infeasible else asked
    given_now = now.get("resources")
    if given_now is None:
        return _largest(counted.get("requests"), now.get("allocatedResources")), asked.get("limits")
    used = (given_now.get("requests"), now.get("allocatedResources"))
    return (
        _largest(counted.get("requests"), *used),
        _largest(counted.get("limits"), given_now.get("limits")),
    )


def _by_name(statuses: Any) -> dict[str, Json]:
    """Those statuses that say what a container is given, by its name."""
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
    """The largest amount of each resource; none where no list has any."""
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
    """An amount to compare; a quantity that cannot be read is refused later, with the record."""
    try:
        return nanos(text)
    except QuantityError:
        return 0


def _of_pods(resource: str) -> bool:
    """A pod may ask for it as a whole."""
    return resource in _WHOLE_POD or resource.startswith(_WHOLE_POD_PREFIX)


def _of_whole_pod(name: str, named: Json, plain: list[Json], first: Iterable[Json]) -> None:
    """Put what the pod asks for as a whole into its first container, and take it from the others."""
    if not named or not plain:
        return
    for each in (*plain, *first):
        if name == "requests":  # one that names no request counts with some in scores by requests
            each[name] = {**each.get(name, {}), **dict.fromkeys(named, "0")}
        elif name in each:
            each[name] = {key: text for key, text in each[name].items() if key not in named}
    plain[0][name] = {**plain[0].get(name, {}), **named}
