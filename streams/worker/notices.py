"""What is wrong with a stage's surroundings now: logged once, and reported by health as long as it
lasts.

Even if a worker is alive and does all that it can, a clock or its group may hinder it.
Each watcher reports all that it finds at each look; the log says what has begun and what is over.
"""

import logging
from collections.abc import Mapping

logger = logging.getLogger(__name__)


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

    @property
    def sentences(self) -> list[str]:
        """All that is wrong, by watcher and subject."""
        return [
            f"{self._name}: {found[subject]}"
            for _, found in sorted(self._found.items())
            for subject in sorted(found)
        ]
