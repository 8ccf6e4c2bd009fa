"""Full lists of nodes and pods: objects that are missing in a complete list are gone."""

from collections.abc import Iterator, Mapping

from schemas.messages.lists import ListBegin, ListEnd
from streams.inventory.node import Node


class FullLists:
    """The current list of each topic: `node-state` or `pod-lifecycle`."""

    def __init__(self) -> None:
        self.begun: dict[str, tuple[str, int]] = {}
        """Unfinished lists by topic: id, and number of the record that began the list."""
        self.ending: dict[str, tuple[str, int]] = {}
        """Ended lists, until all missing objects are removed; values as in `begun`."""

    def begin(self, topic: str, begin: ListBegin, sequence: int) -> None:
        """Begin a list with record `sequence`; replaces an unfinished list."""
        self.begun[topic] = (begin.list_id, sequence)
        # Objects that were missing in the earlier list are removed only if the new list lacks them too.
        self.ending.pop(topic, None)

    def resolve_id(self, topic: str, list_id: str | None) -> str | None:
        """Return the id of the list to which a record belongs; None if there is none.

        While the missing objects of an ended list are removed, a record without a list belongs to the ended
        list, so that its object is not removed.
        """
        if list_id is None and topic in self.ending:
            return self.ending[topic][0]
        return list_id

    def get_begun_id(self, topic: str) -> str | None:
        """Return the id of the unfinished list; objects that appear before its end belong to it."""
        begun = self.begun.get(topic)
        return None if begun is None else begun[0]

    def end(self, topic: str, end: ListEnd) -> tuple[str, int] | None:
        """End a list; return its entry of `begun`, or None if another list has begun."""
        begun = self.begun.get(topic)
        if begun is None or begun[0] != end.list_id:
            return None
        self.ending[topic] = begun
        return self.begun.pop(topic)


def find_unlisted_pods(
    nodes: Mapping[str, Node], list_id: str, begin_sequence: int
) -> Iterator[str]:
    """Yield uids of pods that were held before the list began and are missing in it, in stable order."""
    for name in sorted(nodes):
        for uid, held in nodes[name].held.items():
            is_older = held.sequence < begin_sequence and not held.is_placeholder
            if is_older and held.list_id != list_id:
                yield uid
