"""The record that leads to a decision, and the ids that follow from it.

Ids are derived from the input that caused the decision, so a replay gives the same ones.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from schemas.messages.pods import Pod, PodRef


@dataclass(frozen=True, slots=True)
class Cause:
    """The input record that is being applied, and the state that it meets."""

    cluster: str
    topic: str
    partition: int
    offset: int
    now_ms: int
    as_of: dict[str, Any]
    """Fields of `AsOf`."""

    def decision_id(self, uid: str) -> str:
        """Id of the decision that this input causes for a pod."""
        text = f"{self.cluster}\0{self.topic}\0{self.partition}\0{self.offset}\0{uid}"
        return blake2b(text.encode(), digest_size=12).hexdigest()


def as_of(
    partition: int, offsets: dict[str, int], policy_digest: str = "default"
) -> dict[str, Any]:
    """Fields of `AsOf`."""
    return {"partition": partition, "offsets": offsets, "policy_digest": policy_digest}


def reference(pod: Pod) -> PodRef:
    """Which pod it is about."""
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def reference_fields(pod: Pod | PodRef) -> dict[str, str]:
    """Fields of the `PodRef` of a pod."""
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
