"""A record read as its consumer reads it: what a worker would refuse, beyond the schema.

A worker also refuses by what it knows (a sample older than its window, a clock that is ahead),
which cannot be seen from a record alone, and by limits of its own (amounts beyond any machine, pods
that ask for too much), which are not looked at here.
"""

from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.migrations import MigrationRequest
from schemas.messages.policies import PolicyRecord
from schemas.policy import PolicyError, read_policy
from schemas.topics.codec import decode
from streams.placement.registry import KNOWN

#: Fields of which a request of each kind needs one.
_NEEDED = {
    "migrate": ("pod",),
    "drain": ("node",),
    "undrain": ("node",),
    "pause": ("migration_id", "pod"),
    "resume": ("migration_id", "pod"),
    "abort": ("migration_id", "pod"),
}


def read_as_consumer(topic: str, value: bytes | None) -> Any | Refusal:
    """The message, or why its consumer would refuse it."""
    message = decode(topic, value)
    if isinstance(message, PolicyRecord):
        try:
            read_policy(message.document, KNOWN)
        except PolicyError as error:
            return Refusal("invalid", f"the policy would not be applied: {error}")
    elif isinstance(message, MigrationRequest):
        needed = _NEEDED[message.action]
        if all(getattr(message, name) is None for name in needed):
            return Refusal(
                "invalid",
                f"{' and '.join(needed)} missing; action {message.action!r} needs {' or '.join(needed)}",
            )
    return message
