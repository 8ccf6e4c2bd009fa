"""States of clusters that were let go of, until Python looks for them.

A state has cycles, so that its memory is free only once Python has looked through all that is old,
which it hardly ever does in a worker (`streams.worker.garbage_collection`), and through what was
put together at a takeover never. A cluster that fails twice in ten minutes is put together as
often: each time all that it had been would stay. So it is counted what was let go of, and looked
for once it is much.
"""

import gc

from streams.cluster.state import ClusterState

#: Nodes, pods and requests that were let go of before they are looked for: as many take about 30 MiB.
ENOUGH = 10_000
#: What a state without any takes, in pods.
_BARE = 20


class LetGo:
    """Counts the states of a partition's clusters that were let go of."""

    def __init__(self) -> None:
        self._size = 0

    def add(self, state: ClusterState) -> None:
        """A state is needed no more."""
        inventory = state.inventory
        self._size += (
            _BARE + len(inventory.nodes) + len(inventory.where) + len(state.placement.pending)
        )

    def look(self) -> None:
        """Free what was let go of if it is much; it takes a second where clusters are large."""
        if self._size < ENOUGH:
            return
        self._size = 0
        lasting = gc.get_freeze_count() > 0
        gc.unfreeze()
        gc.collect()
        if lasting:
            gc.freeze()
