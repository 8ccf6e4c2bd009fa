"""The volumes of the claims that pods use: a join of pods, claims and volumes.

Claims and volumes are stored as they are reported. Conversions of pods look them up by the claims'
names. `put_claim` and `put_volume` tell whether a lookup changed, so that waiting pods are converted
again.
"""

from dataclasses import dataclass

from connectors.kubernetes.watch.metadata import Json

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
