"""What is wrong with a stage's surroundings now: logged once, and reported by health as long as it
lasts.

Even if a worker is alive and does all that it can, a topic or a clock may make its decisions wrong.
Each watcher reports all that it finds at each look; the log says what has begun and what is over.
"""

import logging
from collections.abc import Mapping

logger = logging.getLogger(__name__)

#: Watcher whose findings only another start of the worker mends.
RESTART = "restart"


class Notices:
    """What watchers have found."""

    def __init__(self, name: str) -> None:
        """`name` is that of the stage."""
        self._name = name
        self._found: dict[str, dict[str, str]] = {}

    def report(self, watcher: str, found: Mapping[str, str]) -> None:
        """All that a watcher finds wrong now: sentences by their subject."""
        before = self._found.get(watcher, {})
        for subject, sentence in found.items():
            if subject not in before:
                logger.error("%s: %s", self._name, sentence)
        for subject in before:
            if subject not in found:
                logger.warning("%s: %s: all is well again", self._name, subject)
        self._found[watcher] = dict(found)

    def found(self, *watchers: str) -> bool:
        """Whether one of these finds something wrong now."""
        return any(self._found.get(watcher) for watcher in watchers)

    @property
    def sentences(self) -> list[str]:
        """All that is wrong, by watcher and subject, but for what needs another start."""
        return [
            sentence
            for watcher in sorted(self._found)
            if watcher != RESTART
            for sentence in self._of(watcher)
        ]

    @property
    def deadly(self) -> list[str]:
        """What only another start of the worker mends."""
        return self._of(RESTART)

    def _of(self, watcher: str) -> list[str]:
        found = self._found.get(watcher, {})
        return [f"{self._name}: {found[subject]}" for subject in sorted(found)]
