"""What estimates ask of those who know what pods of a cluster and of its owners use."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from streams.inventory.fleet_usage import Fleet


class Profiles(Protocol):
    """What pods of a cluster and of its owners use of what they need."""

    @property
    def version(self) -> object:
        """As long as it stays, so does what the others answer."""

    def profile(self, owner: str | None) -> Mapping[str, Fleet]:
        """Figures by resource: the owner's as far as it is known, else the cluster's."""

    def tells(self, owner: str | None) -> bool:
        """The owner's say more than the cluster's."""


class NoProfiles:
    """Nothing is known."""

    version: object = 0

    def profile(self, owner: str | None) -> Mapping[str, Fleet]:
        """Figures of no resource."""
        return {}

    def tells(self, owner: str | None) -> bool:
        """Of no owner."""
        return False


class FromProfile(NamedTuple):
    """What of an estimate comes from what other pods use."""

    owner: str | None
    """By whose pods; none: by all of the cluster."""
    usage: dict[str, int]
    """Expected use by resource."""
