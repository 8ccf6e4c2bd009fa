"""A policy record as one line and as JSON."""

from typing import TYPE_CHECKING

from connectors.policies.entries import PolicyEntry
from connectors.process import wall_clock
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from schemas.messages.policies import PolicyRecord
    from schemas.policy import KnownPlugins


def as_line(entry: PolicyEntry, state: str, known: "KnownPlugins") -> str:
    """Return time, offset, digest, mode, state and author of a record."""
    record = entry.record
    parts = [
        time_and_age(record.applied_at_ms),
        f"{entry.partition}:{entry.offset}",
        _summary(record.document, known),
        "paused" if record.paused else "running",
        state,
        to_one_line(author_text(record)),
    ]
    return "  ".join(part for part in parts if part)


def author_text(record: "PolicyRecord") -> str:
    """Return the sender of a record and the reason, if the record names them."""
    by = f"by {record.applied_by}" if record.applied_by else ""
    return ": ".join(part for part in (by, record.reason) if part)


def time_and_age(moment_ms: int) -> str:
    from connectors.units import ago_text, time_text

    ago_ms = wall_clock.now_ms() - moment_ms
    return time_text(moment_ms) + (f" ({ago_text(ago_ms)} ago)" if ago_ms >= 0 else "")


def as_json(entry: PolicyEntry, state: str, known: "KnownPlugins") -> str:
    """Return the record with its offset, and its digest or its problems."""
    import orjson

    from schemas.policy import PolicyError, read_policy

    whole = {"partition": entry.partition, "offset": entry.offset, "state": state}
    try:
        policy = read_policy(entry.record.document, known)
    except PolicyError as error:
        whole["problems"] = [str(problem) for problem in error.problems]
    else:
        whole |= {"digest": policy.digest, "mode": policy.mode}
    return orjson.dumps({**entry.record.payload(), **whole}).decode()


def _summary(document: str, known: "KnownPlugins") -> str:
    from connectors.units import count_text
    from schemas.policy import PolicyError, read_policy

    try:
        policy = read_policy(document, known)
    except PolicyError as error:
        return f"{'invalid':16}  {count_text(len(error.problems), 'error')}: not applied"
    return f"{policy.digest}  {policy.mode}"
