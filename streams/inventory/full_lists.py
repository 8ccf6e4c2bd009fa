"""Full lists of nodes and pods: objects that a complete list does not contain are gone."""

from collections.abc import Iterator, Mapping

from schemas.messages.lists import ListBegin, ListEnd
from streams.inventory.node import Node


class FullLists:
    """Lists that have begun or ended, by topic: `node-state` or `pod-lifecycle`."""

    def __init__(self) -> None:
        self.begun: dict[str, tuple[str, int]] = {}
        """Lists that have begun: id, and number of the record that began the list."""
        self.ending: dict[str, tuple[str, int]] = {}
        """Lists that have ended, until all objects that they lack are removed; values as in `begun`."""

    def begin(self, topic: str, begin: ListBegin, sequence: int) -> None:
        """Begin a list with record `sequence`, in place of an unfinished list."""
        self.begun[topic] = (begin.list_id, sequence)
        # The new list decides about objects that the earlier list lacked.
        self.ending.pop(topic, None)

    def resolve_id(self, topic: str, list_id: str | None) -> str | None:
        """Return the id of the list to which a record belongs; None if there is none.

        While the objects that an ended list lacks are removed, a record without a list belongs to the ended
        list, so that its object is not removed.
        """
        if list_id is None and topic in self.ending:
            return self.ending[topic][0]
        return list_id

    def get_begun_id(self, topic: str) -> str | None:
        """Return the id of the list that has begun; objects that appear before its end belong to it."""
        begun = self.begun.get(topic)
        return None if begun is None else begun[0]

    def end(self, topic: str, end: ListEnd) -> tuple[str, int] | None:
        """End a list; return its entry in `begun`, or None if another list has begun."""
        begun = self.begun.get(topic)
        if begun is None or begun[0] != end.list_id:
            return None
        self.ending[topic] = begun
        return self.begun.pop(topic)


def find_unlisted_nodes(nodes: Mapping[str, Node], list_id: str) -> Iterator[Node]:
    """Yield nodes with a state that a list lacks, in the order of names."""
    for name in sorted(nodes):
        if nodes[name].state is not None and nodes[name].list_id != list_id:
            yield nodes[name]


def find_unlisted_pods(nodes: Mapping[str, Node], list_id: str, begin: int) -> Iterator[str]:
    """Yield uids of pods that a list lacks and that were held before record `begin`, in stable order."""
    for name in sorted(nodes):
        for uid, held in nodes[name].held.items():
            if held.is_placeholder:
                continue
            if held.list_id != list_id and held.sequence < begin:
                yield uid
