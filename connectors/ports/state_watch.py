"""What reports which nodes, pods and workloads a cluster has, and which pods want a node.

A watch sends a full list at its start, and again whenever it may have missed something; in between
it sends changes. What a list lacks is removed when its end is applied (`schemas.lists`), so a
list that cannot be completed is broken off without its end. A pod that waits for a node under our
scheduler's name is a change, too, on topic `scheduling-requests`.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import ClassVar

from schemas.base import Message
from schemas.lists import ListBegin, ListEnd

#: Topics on which a full list stands.
LISTED = ("node-state", "pod-lifecycle")


class WatchBroken(RuntimeError):
    """Changes may have been missed: a full list must follow. The message says why."""


class StateWatch(ABC):
    """Reports the state of one cluster."""

    name: ClassVar[str]
    """What the registry knows it by."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster

    @abstractmethod
    def listed(self, topic: str, list_id: str) -> AsyncIterator[Message]:
        """Every object that there is, as records of a topic of `LISTED` with this list id.

        Raises WatchBroken if the list cannot be completed.
        """

    @abstractmethod
    def changes(self) -> AsyncIterator[tuple[str, Message]]:
        """Topic and record of each change since the last call, in the order of the changes.

        It ends when no more is known. Raises WatchBroken.
        """

    async def full_list(self, list_id: str) -> AsyncIterator[tuple[str, Message]]:
        """Topic and record of a full list, bracketed; `list_id` is new for every list."""
        for topic in LISTED:
            yield topic, ListBegin(cluster=self.cluster, list_id=list_id)
            async for message in self.listed(topic, list_id):
                yield topic, message
            yield topic, ListEnd(cluster=self.cluster, list_id=list_id)
