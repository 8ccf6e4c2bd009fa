"""`loadstream worker` that shows from outside whether a batch is in flight.

Run as `python -m tests.chaos.watched FILE`: the worker as it is, but every batch that goes through the
journal is marked in the first byte of a file that is mapped into memory. The byte stays as it was at the
instant of a kill -9, so what a kill met is read and not guessed.
"""

import mmap
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path


class Phase(IntEnum):
    """Where a worker's batch is."""

    IDLE = 0
    """No batch is applied that is not durable and published."""
    JOURNAL = 1
    """A batch is applied in memory; its journal records are not all acknowledged."""
    OUTPUTS = 2
    """The batch is in the journal; its outputs are not all acknowledged."""


class Mark:
    """The byte in the file; written by a worker, read by the run that ends it."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(1))
        with file.open("r+b") as opened:
            self._byte = mmap.mmap(opened.fileno(), 1)

    @property
    def phase(self) -> Phase:
        """Where the batch is."""
        return Phase(self._byte[0])

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._byte[0] = phase


def main(file: Path) -> None:
    """Run the worker with its journal watched."""
    from connectors.cli import main as loadstream
    from streams.agents import cluster
    from streams.stage.records import OutputRecord
    from streams.worker.durability import Applied
    from streams.worker.fence import FencedPublisher
    from streams.worker.journal_first import JournalFirst

    mark = Mark(file)

    class WatchedJournal(JournalFirst):
        async def commit(self, batches: Sequence[Applied]) -> None:
            mark.phase = Phase.JOURNAL if batches else Phase.IDLE
            try:
                await super().commit(batches)
            finally:
                mark.phase = Phase.IDLE

    class WatchedPublisher(FencedPublisher):
        async def publish(self, records: Iterable[OutputRecord]) -> list[int]:
            if mark.phase is Phase.JOURNAL:
                mark.phase = Phase.OUTPUTS
            return await super().publish(records)

    vars(cluster).update(JournalFirst=WatchedJournal, FencedPublisher=WatchedPublisher)
    sys.argv = ["loadstream", "worker"]
    loadstream()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
