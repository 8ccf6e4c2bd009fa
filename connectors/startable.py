"""What is started and stopped, and may run for as long as a block does."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Startable(ABC):
    """A context manager, or `start` and `stop`."""

    @abstractmethod
    def start(self) -> Self:
        """Run from now on."""

    @abstractmethod
    def stop(self) -> None:
        """Run no more; nothing is left running."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
