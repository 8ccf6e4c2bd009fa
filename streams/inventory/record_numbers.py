"""Numbers of the records that a cluster applies, and places of the pods that they bring."""

from collections.abc import Iterator
from contextlib import contextmanager

#: Number of bits that tell apart the places of pods of one record.
_PLACES_PER_RECORD_BITS = 20


class RecordNumbers:
    """Increasing numbers; `sequence` is part of the cluster's row, and places follow from it."""

    def __init__(self) -> None:
        self._sequence = 0
        self._due = False
        self._last_place = 0

    @property
    def sequence(self) -> int:
        """Number of the record that is being applied.

        A tick gets a number when it is first read, so a tick that changes nothing leaves no trace.
        """
        if self._due:
            self.begin()
        return self._sequence

    @sequence.setter
    def sequence(self, number: int) -> None:
        self._sequence, self._due = number, False

    def begin(self) -> None:
        self.sequence = self._sequence + 1

    @contextmanager
    def if_asked(self) -> Iterator[None]:
        """Apply a tick within this context."""
        self._due = True
        yield
        self._due = False

    def next_place(self) -> int:
        """Return a place greater than all before; it is the same after a restart."""
        self._last_place = max(self._last_place + 1, self.sequence << _PLACES_PER_RECORD_BITS)
        return self._last_place
