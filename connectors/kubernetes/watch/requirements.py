"""What a pod requires of its node that loadstream does not evaluate, by name.

A pod with one of these is refused by that name, never misplaced. What a pod only prefers is none of
them.

    required pod affinity, required pod anti-affinity
    topology spread      a constraint with DoNotSchedule
    resource claims      devices of dynamic resource allocation
    pod group            gang scheduling
    unbound volume       a claim that is not there, or has no volume yet
    zonal volume         a volume that not every node reaches
    volume of unknown place   a claim's volume that is not known: persistent volumes may not be read
    exclusive volume     one that only one pod or node may have, as ReadWriteOncePod
"""

from collections.abc import Sequence
from typing import Any

from connectors.kubernetes.watch.claims import Claims
from connectors.kubernetes.watch.metadata import Json

#: Volumes in the pod itself that are in one zone.
_ZONAL = ("awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "vsphereVolume")
#: Volumes in the pod itself that only one node may mount for writing.
_EXCLUSIVE = ("iscsi", "rbd")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def unsupported(spec: Json, namespace: str, mounted: Sequence[str], claims: Claims) -> list[str]:
    """Names of the requirements, each once, in a fixed order; `mounted` are names of claims."""
    names: list[str] = []
    if affinity := spec.get("affinity"):
        if (affinity.get("podAffinity") or {}).get(_REQUIRED):
            names.append("required pod affinity")
        if (affinity.get("podAntiAffinity") or {}).get(_REQUIRED):
            names.append("required pod anti-affinity")
    if any(
        each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        for each in spec.get("topologySpreadConstraints") or ()
    ):
        names.append("topology spread")
    if spec.get("resourceClaims"):
        names.append("resource claims")
    if spec.get("workloadRef") or spec.get("schedulingGroup"):
        names.append("pod group")
    volumes = spec.get("volumes") or ()
    by_claim = [claims.requirement(namespace, name) for name in mounted]
    inside = [name for name in map(_inside, volumes) if name]
    return [*names, *sorted({name for name in (*by_claim, *inside) if name})]


def _inside(volume: dict[str, Any]) -> str | None:
    if any(kind in volume for kind in _ZONAL):
        return "zonal volume"
    return "exclusive volume" if any(kind in volume for kind in _EXCLUSIVE) else None
