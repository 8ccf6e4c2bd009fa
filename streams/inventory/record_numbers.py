"""Numbers of the records that a cluster applies, and places of the pods that they take in."""

from collections.abc import Iterator
from contextlib import contextmanager

#: Pods taken in by one record have places of its own, as many as these bits count.
_PLACES_PER_RECORD_BITS = 20


class RecordNumbers:
    """Counts up; `sequence` is kept in the cluster's row, and places go on from it."""

    def __init__(self) -> None:
        self._sequence = 0
        self._due = False
        self._last_place = 0

    @property
    def sequence(self) -> int:
        """Number of the record that is being applied.

        A tick has one from the moment at which something asks for it, so that one which changes
        nothing leaves no trace.
        """
        if self._due:
            self.begin()
        return self._sequence

    @sequence.setter
    def sequence(self, number: int) -> None:
        self._sequence, self._due = number, False

    def begin(self) -> None:
        """A record begins."""
        self.sequence = self._sequence + 1

    @contextmanager
    def if_asked(self) -> Iterator[None]:
        """A tick is applied within."""
        self._due = True
        yield
        self._due = False

    def next_place(self) -> int:
        """A place greater than all before; the same after a restart."""
        self._last_place = max(self._last_place + 1, self.sequence << _PLACES_PER_RECORD_BITS)
        return self._last_place
