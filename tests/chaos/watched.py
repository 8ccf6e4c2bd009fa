"""`loadstream worker` that shows from outside whether a batch is in flight.

Run as `python -m tests.chaos.watched FILE`. Every batch that goes through the journal is marked in the first
byte of a file that is mapped into memory. The byte survives a kill -9 and shows the phase of the batch
at that instant.
"""

import mmap
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path


class Phase(IntEnum):
    """The phase of a worker's batch."""

    IDLE = 0
    """No batch is applied that is not durable and published."""
    JOURNAL = 1
    """A batch is applied in memory; its journal records are not all acknowledged."""
    OUTPUTS = 2
    """A batch is in the journal; its outputs are not all acknowledged. The next one may be on its
    way to the journal."""


class Mark:
    """The byte in the file, written by a worker and read by the run that ends the worker."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(1))
        with file.open("r+b") as opened:
            self._byte = mmap.mmap(opened.fileno(), 1)

    @property
    def phase(self) -> Phase:
        return Phase(self._byte[0])

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._byte[0] = phase


def main(file: Path) -> None:
    """Run the worker with a watched journal."""
    from loadstream.__main__ import main as loadstream
    from streams import app
    from streams.stage.journal import JournalPosition
    from streams.stage.records import AppliedBatch
    from streams.worker.store.journal_first import JournalFirst

    mark = Mark(file)

    class WatchedJournal(JournalFirst):
        journaling = committing = 0

        async def append(self, batches: Sequence[AppliedBatch]) -> list[JournalPosition]:
            self.journaling += bool(batches)
            self.show()
            try:
                return await super().append(batches)
            finally:
                self.journaling -= bool(batches)
                # The batch stays in flight until its outputs are published.
                self.committing += bool(batches)
                self.show()

        async def commit(
            self, batches: Sequence[AppliedBatch], places: Sequence[JournalPosition]
        ) -> None:
            try:
                await super().commit(batches, places)
            finally:
                self.committing -= bool(batches)
                self.show()

        def show(self) -> None:
            phase = Phase.JOURNAL if self.journaling else Phase.IDLE
            mark.phase = Phase.OUTPUTS if self.committing else phase

    vars(app).update(JournalFirst=WatchedJournal)
    sys.argv = ["loadstream", "worker"]
    loadstream()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
