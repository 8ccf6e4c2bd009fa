"""What reports which nodes, pods and workloads a cluster has, and which pods want a node.

A watch sends a full list at its start, and again whenever messages may have been lost; after it, it
sends changes:

    async for topic, message in watch.full_list(list_id): send
    async for topic, message in watch.changes(): send        # WatchBroken: another full list

What a list lacks is removed when its end is applied (`schemas.messages.lists`), so a list that cannot be
completed is broken off without its end. A pod that waits for a node under our scheduler's name is a
change, too, on topic `scheduling-requests`; a full list may repeat the requests of pods that wait.
Messages are taken one by one: where they are sent slowly, a watch reads its cluster slowly, and
keeps no more than it has room for.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import ClassVar

from schemas.base.message import Message

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
    def full_list(self, list_id: str) -> AsyncGenerator[tuple[str, Message], None]:
        """Topic and record of everything that there is, bracketed on each topic of `LISTED`.

        `list_id` is new for every list, and in every record between the brackets. Raises
        WatchBroken if the list cannot be completed.
        """

    @abstractmethod
    def changes(self) -> AsyncGenerator[tuple[str, Message], None]:
        """Topic and record of each change that was not given yet, in the order of the changes.

        A watch of a cluster that goes on by itself waits for the next change, for ever; one of a
        cluster that moves in steps ends where no more is known. Raises WatchBroken.
        """
