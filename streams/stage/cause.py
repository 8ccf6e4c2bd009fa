"""The record that causes a decision, and ids derived from it, so that a replay gives the same ids."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """The input record that is being applied, with log time and state."""

    cluster: str
    topic: str
    partition: int
    offset: int
    now_ms: int
    as_of: dict[str, Any]
    """Fields of `AsOf`."""

    def build_decision_id(self, uid: str) -> str:
        """Return the id of the decision that this record causes for a pod."""
        text = f"{self.cluster}\0{self.topic}\0{self.partition}\0{self.offset}\0{uid}"
        return blake2b(text.encode(), digest_size=12).hexdigest()


def build_as_of(
    partition: int, offsets: dict[str, int], policy_digest: str = "default"
) -> dict[str, Any]:
    """Return the fields of an `AsOf`."""
    return {"partition": partition, "offsets": offsets, "policy_digest": policy_digest}
