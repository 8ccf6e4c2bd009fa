"""What the claims that pods mount are bound to: a join of pods, claims and volumes.

Claims and volumes are put in as they are reported; a pod's record asks by the claims' names. What
has another answer than before is named by `put_...`, so that pods that wait for a node can be
looked at again.
"""

from dataclasses import dataclass

from connectors.kubernetes.watch.metadata import Json

#: What a claim that only one pod may use has among its access modes.
_ONE_POD = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True)
class Claim:
    """What pods are asked of one claim."""

    storage_class: str
    volume: str
    """The volume that it is bound to; empty: none."""
    exclusive: bool


class Claims:
    """Claims and volumes of one cluster."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], Claim] = {}
        self._everywhere: dict[str, bool] = {}
        """Whether a volume is reached from every node, by its name."""

    def clear(self) -> None:
        """Forget everything."""
        self._claims.clear()
        self._everywhere.clear()

    def put_claim(self, namespace: str, name: str, values: Json | None) -> bool:
        """A claim as plain values of its record, none: it is gone; whether anything has changed."""
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
        """The same of a volume."""
        before = self._everywhere.get(name)
        if values is None:
            self._everywhere.pop(name, None)
            return before is not None
        everywhere = "required_node_affinity" not in values and not values.get("zone_labels")
        self._everywhere[name] = everywhere
        return everywhere != before

    def storage_class(self, namespace: str, name: str) -> str:
        """The class of a claim; empty: none, or not known."""
        claim = self._claims.get((namespace, name))
        return "" if claim is None else claim.storage_class

    def requirement(self, namespace: str, name: str) -> str | None:
        """What a claim requires that is not evaluated; none: any node will do."""
        claim = self._claims.get((namespace, name))
        if claim is None or not claim.volume:
            return "unbound volume"
        everywhere = self._everywhere.get(claim.volume)
        if everywhere is None:
            return "volume of unknown place"
        if not everywhere:
            return "zonal volume"
        return "exclusive volume" if claim.exclusive else None
