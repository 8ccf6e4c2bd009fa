"""Full lists of nodes and pods: what a list that has ended lacks is not there any more."""

from collections.abc import Iterator, Mapping

from schemas.messages.lists import ListBegin, ListEnd
from streams.inventory.node import Node


class FullLists:
    """Lists under way, by kind: `node-state` or `pod-lifecycle`."""

    def __init__(self) -> None:
        self.begun: dict[str, tuple[str, int]] = {}
        """Lists that have begun: their id, and the number of the record at their begin."""
        self.ending: dict[str, tuple[str, int]] = {}
        """Lists that have ended while not all that they lack is removed yet: as `begun`."""

    def begin(self, what: str, begin: ListBegin, sequence: int) -> None:
        """A list begins with record `sequence`; one that has not ended is abandoned."""
        self.begun[what] = (begin.list_id, sequence)
        # What the list before lacks and this one has is there; what both lack goes with this one.
        self.ending.pop(what, None)

    def named(self, what: str, list_id: str | None) -> str | None:
        """The list that a record names; what is reported after a list's end is there."""
        if list_id is None and what in self.ending:
            return self.ending[what][0]
        return list_id

    def under_way(self, what: str) -> str | None:
        """The list that has begun; what is reported for the first time before its end is there."""
        begun = self.begun.get(what)
        return None if begun is None else begun[0]

    def end(self, what: str, end: ListEnd) -> tuple[str, int] | None:
        """Id and begin of the list that has ended; None: it is not the one that began."""
        begun = self.begun.get(what)
        if begun is None or begun[0] != end.list_id:
            return None
        self.ending[what] = begun
        return self.begun.pop(what)


def unlisted_nodes(nodes: Mapping[str, Node], list_id: str) -> Iterator[Node]:
    """Nodes that Kubernetes has named and a list lacks, in the order of their names."""
    for name in sorted(nodes):
        if nodes[name].state is not None and nodes[name].list_id != list_id:
            yield nodes[name]


def unlisted_pods(nodes: Mapping[str, Node], list_id: str, begin: int) -> Iterator[str]:
    """uids of pods held since before record `begin` that a list lacks, in a stable order."""
    for name in sorted(nodes):
        for uid, held in nodes[name].held.items():
            if held.for_replacement:
                continue
            if held.list_id != list_id and held.sequence < begin:
                yield uid
