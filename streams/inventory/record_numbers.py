"""Numbers the records that a cluster applies, and pods in the order of their arrival."""

from collections.abc import Iterator
from contextlib import contextmanager

#: Bits for the pods of one record in `HeldPod.arrival`.
_ARRIVALS_PER_RECORD_BITS = 20


class RecordNumbers:
    def __init__(self) -> None:
        self._record_number = 0
        self._is_unnumbered = False
        self._last_arrival = 0

    @property
    def records_applied(self) -> int:
        """Number of the record that is being applied.

        A tick gets a number when the number is first used, so a tick that changes nothing gets no number.
        """
        if self._is_unnumbered:
            self.begin()
        return self._record_number

    @records_applied.setter
    def records_applied(self, number: int) -> None:
        self._record_number, self._is_unnumbered = number, False

    def begin(self) -> None:
        self.records_applied = self._record_number + 1

    @contextmanager
    def number_on_first_use(self) -> Iterator[None]:
        """Number a record on first use within this context."""
        self._is_unnumbered = True
        yield
        self._is_unnumbered = False

    def next_arrival(self) -> int:
        """Return a number greater than all earlier ones; restarts do not change it."""
        self._last_arrival = max(
            self._last_arrival + 1, self.records_applied << _ARRIVALS_PER_RECORD_BITS
        )
        return self._last_arrival
