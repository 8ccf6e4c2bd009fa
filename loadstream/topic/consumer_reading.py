"""Checks a record as its consumer does, beyond the schema.

A worker also refuses records because of its state (for example a sample that is older than its window),
and because of limits of amounts. This module does not check these conditions.
"""

from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.migrations import MigrationRequest
from schemas.messages.policies import PolicyRecord
from schemas.policy import PolicyError, read_policy
from schemas.topics.codec import decode
from streams.placement.registry import KNOWN

#: Fields by action; a request must have at least one of them.
_REQUIRED_FIELDS = {
    "migrate": ("pod",),
    "drain": ("node",),
    "undrain": ("node",),
    "pause": ("migration_id", "pod"),
    "resume": ("migration_id", "pod"),
    "abort": ("migration_id", "pod"),
}


def read_as_consumer(topic: str, value: bytes | None) -> Any | Refusal:
    """Return the message, or why its consumer would refuse it."""
    message = decode(topic, value)
    if isinstance(message, PolicyRecord):
        try:
            read_policy(message.document, KNOWN)
        except PolicyError as error:
            return Refusal("invalid", f"the policy would not be applied: {error}")
    elif isinstance(message, MigrationRequest):
        needed = _REQUIRED_FIELDS[message.action]
        if all(getattr(message, name) is None for name in needed):
            return Refusal(
                "invalid",
                f"{' and '.join(needed)} missing; action {message.action!r} needs {' or '.join(needed)}",
            )
    return message
