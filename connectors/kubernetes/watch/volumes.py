"""Volumes and claims of a cluster, on which records of pods depend. They are not reported themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.watch.metadata import Json, get_metadata
from connectors.kubernetes.watch.reporter import Reported, Reporter

VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims"

#: Labels with the location of a volume; the last two are the old names.
_ZONE_LABELS = frozenset(
    {
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
#: Access mode of a claim that only one pod may use.
_ONE_POD = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True)
class Claim:
    """Properties of a claim that pods depend on."""

    storage_class: str
    volume: str
    """Name of the bound volume; empty: none."""
    exclusive: bool


def read_claim(claim: Json) -> Claim:
    spec = claim.get("spec") or {}
    is_bound = (claim.get("status") or {}).get("phase") == "Bound"
    return Claim(
        storage_class=spec.get("storageClassName") or "",
        volume=(spec.get("volumeName") or "") if is_bound else "",
        exclusive=_ONE_POD in (spec.get("accessModes") or ()),
    )


def is_reachable_everywhere(volume: Json) -> bool:
    """Tell whether every node can mount a volume."""
    affinity = (volume.get("spec") or {}).get("nodeAffinity") or {}
    labels = get_metadata(volume).get("labels") or {}
    return affinity.get("required") is None and _ZONE_LABELS.isdisjoint(labels)


class _SilentReporter(Reporter):
    """Keeps one value per object of a collection, and reports nothing."""

    def __init__(self, read: Callable[[Json], Any]) -> None:
        super().__init__()
        self._read = read
        self.have_changed = False
        """Whether a value has changed since this was last set to False."""

    def key(self, obj: Json) -> str:
        metadata = obj["metadata"]
        return make_key(metadata.get("namespace", ""), metadata["name"])

    def report_object(self, key: str, obj: Json, list_id: str | None) -> Reported:
        value = self._read(obj)
        self.have_changed |= self.reported.get(key) != value
        self.reported[key] = value
        yield from ()

    def report_removal(self, key: str, list_id: str | None, obj: Json | None = None) -> Reported:
        del self.reported[key]
        self.have_changed = True
        yield from ()


def make_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


class Claims:
    """Claims and volumes of one cluster."""

    def __init__(self) -> None:
        self.claims = _SilentReporter(read_claim)
        self.volumes = _SilentReporter(is_reachable_everywhere)

    def clear(self) -> None:
        self.claims.clear()
        self.volumes.clear()

    def take_changed(self) -> bool:
        """Tell whether anything has changed since the last call."""
        changed = self.claims.have_changed or self.volumes.have_changed
        self.claims.have_changed = self.volumes.have_changed = False
        return changed

    def find_storage_class(self, namespace: str, name: str) -> str:
        """Return the storage class of a claim; empty: none, or unknown."""
        claim: Claim | None = self.claims.reported.get(make_key(namespace, name))
        return "" if claim is None else claim.storage_class

    def find_requirement(self, namespace: str, name: str) -> str | None:
        """Return the unsupported requirement of a claim; None: any node is suitable."""
        claim: Claim | None = self.claims.reported.get(make_key(namespace, name))
        if claim is None or not claim.volume:
            return "unbound volume"
        everywhere = self.volumes.reported.get(make_key("", claim.volume))
        if everywhere is None:
            return "volume of unknown place"
        if not everywhere:
            return "zonal volume"
        return "exclusive volume" if claim.exclusive else None
