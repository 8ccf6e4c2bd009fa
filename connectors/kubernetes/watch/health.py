"""How the watch of each collection is doing, as plain values that metrics are made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CollectionHealth:
    """One collection."""

    path: str
    """Path of the collection at the API server, as `/api/v1/pods`."""
    objects: int
    """Objects that are reported now."""
    lists: int
    """Lists that were completed."""
    failing_s: float | None
    """For how many seconds no request has succeeded; none: the last one has."""
    why: str
    """The sentence of the last failure; empty if the last request has succeeded."""
    event_age_s: float | None
    """Seconds since the last object came; none: none has."""
    left_out: int
    """Objects that no record can carry."""
    reasons: dict[str, str]
    """Why, of the first of them, by key."""
