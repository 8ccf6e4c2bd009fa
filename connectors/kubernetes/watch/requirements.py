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

Claims and volumes are stored as they are reported. `put_claim` and `put_volume` tell whether a lookup
changed, so that waiting pods are converted again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.watch.metadata import Json

#: Types of inline volumes in one zone.
_ZONAL = ("awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "vsphereVolume")
#: Types of inline volumes that only one node can mount for writing.
_EXCLUSIVE = ("iscsi", "rbd")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: Access mode of a claim that only one pod may use.
_ONE_POD = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True)
class Claim:
    """Properties of a claim that pods depend on."""

    storage_class: str
    volume: str
    """Name of the bound volume; empty: none."""
    exclusive: bool


class Claims:
    """Claims and volumes of one cluster."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], Claim] = {}
        self._everywhere: dict[str, bool] = {}
        """Whether a volume is reachable from every node, by name."""

    def clear(self) -> None:
        self._claims.clear()
        self._everywhere.clear()

    def put_claim(self, namespace: str, name: str, values: Json | None) -> bool:
        """Store a claim (None: deleted); tell whether it changed."""
        key, before = (namespace, name), self._claims.get((namespace, name))
        if values is None:
            self._claims.pop(key, None)
            return before is not None
        bound = values.get("volume_name", "") if values.get("phase") == "Bound" else ""
        exclusive = _ONE_POD in values.get("access_modes", ())
        claim = Claim(values.get("storage_class", ""), bound, exclusive)
        self._claims[key] = claim
        return claim != before

    def put_volume(self, name: str, values: Json | None) -> bool:
        """Store a volume (None: deleted); tell whether it changed."""
        before = self._everywhere.get(name)
        if values is None:
            self._everywhere.pop(name, None)
            return before is not None
        everywhere = "required_node_affinity" not in values and not values.get("zone_labels")
        self._everywhere[name] = everywhere
        return everywhere != before

    def storage_class(self, namespace: str, name: str) -> str:
        """Return the storage class of a claim; empty: none, or unknown."""
        claim = self._claims.get((namespace, name))
        return "" if claim is None else claim.storage_class

    def requirement(self, namespace: str, name: str) -> str | None:
        """Return what a claim requires that loadstream does not support; None: any node is
        suitable."""
        claim = self._claims.get((namespace, name))
        if claim is None or not claim.volume:
            return "unbound volume"
        everywhere = self._everywhere.get(claim.volume)
        if everywhere is None:
            return "volume of unknown place"
        if not everywhere:
            return "zonal volume"
        return "exclusive volume" if claim.exclusive else None


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
    by_claim = [claims.requirement(namespace, name) for name in mounted]
    inside = [name for name in map(_check_inline_volume, volumes) if name]
    return [*names, *sorted({name for name in (*by_claim, *inside) if name})]


def _check_inline_volume(volume: dict[str, Any]) -> str | None:
    if any(kind in volume for kind in _ZONAL):
        return "zonal volume"
    return "exclusive volume" if any(kind in volume for kind in _EXCLUSIVE) else None
