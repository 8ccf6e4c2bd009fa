"""The port that reports nodes, pods and workloads of a cluster, and pods that need a node.

A watch sends a full list at its start, and again whenever changes may have been lost; then it sends
changes:

    async for topic, message in watch.full_list(list_id): send
    async for topic, message in watch.changes(): send        # WatchBroken: another full list

Objects missing in a list are removed when its end is applied (`schemas.messages.lists`), so a list that
cannot be completed is abandoned without its end. A new pod with our scheduler's name is a change on
topic `scheduling-requests`; a full list may repeat the requests of waiting pods. Messages are taken one
by one: if sending is slow, the watch reads its cluster slowly and buffers a limited number.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from typing import ClassVar

from schemas.base.message import Message

#: Topics with full lists.
LISTED = ("node-state", "pod-lifecycle")


class WatchBroken(RuntimeError):
    """Changes may have been lost, so a full list must follow. The message says why."""


class StateWatch(ABC):
    """Reports the state of one cluster."""

    name: ClassVar[str]
    """Name in the registry."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster

    @abstractmethod
    def full_list(self, list_id: str) -> AsyncGenerator[tuple[str, Message], None]:
        """Yield topic and record of every object, between begin and end on each topic of `LISTED`.

        `list_id` is unique for the list, and part of every record between begin and end. Raises
        WatchBroken if the list cannot be completed.
        """

    @abstractmethod
    def changes(self) -> AsyncGenerator[tuple[str, Message], None]:
        """Yield topic and record of each new change, in order.

        A watch of a real cluster waits for the next change forever; one of a cluster that advances in
        steps ends after the last known change. Raises WatchBroken.
        """
