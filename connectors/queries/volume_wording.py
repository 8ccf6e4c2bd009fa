"""Sentences about persistent volumes and their claims."""

from schemas.messages.volumes import PersistentVolumeClaimState, PersistentVolumeState


def volume_text(message: PersistentVolumeState) -> str:
    """Where a volume is, and which claim has it."""
    if message.removed:
        return f"volume {message.name} is gone"
    claim = (
        f" to claim {message.claim_namespace}/{message.claim_name}" if message.claim_name else ""
    )
    zones = "".join(f", {zone}" for _, zone in sorted(message.zone_labels.items()))
    listed = f" (full list {message.list_id})" if message.list_id else ""
    return f"volume {message.name} is {message.phase or 'there'}{claim}{zones}{listed}"


def claim_text(message: PersistentVolumeClaimState) -> str:
    """Which volume a claim has."""
    what = f"volume claim {message.namespace}/{message.name}"
    if message.removed:
        return f"{what} is gone"
    of_class = f" of class {message.storage_class}" if message.storage_class else ""
    volume = f" to volume {message.volume_name}" if message.volume_name else ""
    listed = f" (full list {message.list_id})" if message.list_id else ""
    return f"{what}{of_class} is {message.phase or 'there'}{volume}{listed}"
