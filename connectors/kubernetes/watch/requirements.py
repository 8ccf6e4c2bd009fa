"""Requirements of a pod that loadstream does not support, among them those of its volumes.

A pod with such a requirement is refused with its name. Preferences are not requirements.

    required pod affinity, required pod anti-affinity
    topology spread      a constraint with DoNotSchedule
    resource claims      devices of dynamic resource allocation
    pod group            gang scheduling
    unbound volume       a claim that does not exist, or has no volume yet
    zonal volume         a volume that is not reachable from every node
    volume of unknown place   a claim whose volume is unknown, for example without permission to read volumes
    exclusive volume     a volume for one pod or node only, such as ReadWriteOncePod
"""

from collections.abc import Sequence
from typing import Any

from connectors.kubernetes.watch.metadata import Json
from connectors.kubernetes.watch.volumes import Claims

#: Types of inline volumes in one zone.
_ZONAL = ("awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "vsphereVolume")
#: Types of inline volumes that only one node can mount for writing.
_EXCLUSIVE = ("iscsi", "rbd")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def find_unsupported(
    spec: Json, namespace: str, mounted: Sequence[str], claims: Claims
) -> list[str]:
    """Return the names of unsupported requirements, each once; `mounted` are names of claims."""
    names: list[str] = []
    if affinity := spec.get("affinity"):
        if (affinity.get("podAffinity") or {}).get(_REQUIRED):
            names.append("required pod affinity")
        if (affinity.get("podAntiAffinity") or {}).get(_REQUIRED):
            names.append("required pod anti-affinity")
    if any(
        constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        for constraint in spec.get("topologySpreadConstraints") or ()
    ):
        names.append("topology spread")
    if spec.get("resourceClaims"):
        names.append("resource claims")
    if spec.get("workloadRef") or spec.get("schedulingGroup"):
        names.append("pod group")
    volumes = spec.get("volumes") or ()
    by_claim = [claims.find_requirement(namespace, name) for name in mounted]
    inside = [name for name in map(_check_inline_volume, volumes) if name]
    return [*names, *sorted({name for name in (*by_claim, *inside) if name})]


def _check_inline_volume(volume: dict[str, Any]) -> str | None:
    if any(kind in volume for kind in _ZONAL):
        return "zonal volume"
    return "exclusive volume" if any(kind in volume for kind in _EXCLUSIVE) else None
