"""PersistentVolumes and their claims to the plain values of `schemas.messages.volumes`."""

from connectors.kubernetes.watch.affinity import node_selector_terms
from connectors.kubernetes.watch.metadata import Json, given, metadata

#: Labels that say where a volume is; the last two are those of old volumes.
ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def volume(found: Json) -> Json:
    """A persistent volume."""
    spec, labels = found.get("spec") or {}, metadata(found).get("labels") or {}
    claim = spec.get("claimRef") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    values = given(
        phase=(found.get("status") or {}).get("phase"),
        storage_class=spec.get("storageClassName"),
        access_modes=spec.get("accessModes"),
        capacity=spec.get("capacity"),
        claim_namespace=claim.get("namespace"),
        claim_name=claim.get("name"),
        zone_labels={key: labels[key] for key in ZONE_LABELS if key in labels},
    )
    if required is not None:
        values["required_node_affinity"] = node_selector_terms(required)
    return values


def volume_claim(found: Json) -> Json:
    """A claim for a persistent volume."""
    spec = found.get("spec") or {}
    return given(
        phase=(found.get("status") or {}).get("phase"),
        storage_class=spec.get("storageClassName"),
        access_modes=spec.get("accessModes"),
        requests=(spec.get("resources") or {}).get("requests"),
        volume_name=spec.get("volumeName"),
    )
