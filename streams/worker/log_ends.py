"""Whether input topics still hold what was applied: offsets of a topic that was made again mean
something else."""

from collections.abc import Iterable, Mapping
from typing import Any


class LogWentBack(RuntimeError):
    """An input topic ends before the place up to which it was applied."""


def went_back(
    positions: Mapping[Any, int], ends: Mapping[Any, int | None], holding: Iterable[str]
) -> dict[str, str]:
    """Inputs that end too early, each with a sentence.

    Args:
        positions: offset applied last, by topic and partition; -1: none.
        ends: offset after the last record there, asked for after the positions were; none: the
            partition is empty.
        holding: topics that say what was applied, for the advice.
    """
    found = {}
    for (topic, partition), position in positions.items():
        end = ends.get((topic, partition)) or 0
        if position >= end:
            found[f"{topic}, partition {partition}"] = (
                f"topic {topic}, partition {partition} ends at offset {end}, but was applied "
                f"up to {position}: the topic was deleted and made again, or the broker has lost "
                f"its end. New records would be taken for ones applied before. Stop all workers, "
                f"delete the topics {', '.join(holding)} and make them again with `loadstream topics create`, "
                f"which starts the tables empty."
            )
    return found


def check_ends(
    positions: Mapping[Any, int], ends: Mapping[Any, int | None], holding: Iterable[str]
) -> None:
    """Raise LogWentBack where an input ends too early; as `went_back` otherwise."""
    for sentence in went_back(positions, ends, holding).values():
        raise LogWentBack(sentence)
