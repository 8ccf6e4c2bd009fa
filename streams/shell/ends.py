"""Whether input topics still hold what was applied: offsets of a topic that was made again mean something else."""

from collections.abc import Iterable, Mapping
from typing import Any


class LogWentBack(RuntimeError):
    """An input topic ends before the place up to which it was applied."""


def check_ends(
    positions: Mapping[Any, int], ends: Mapping[Any, int | None], holding: Iterable[str]
) -> None:
    """Raise LogWentBack where an input ends too early.

    Args:
        positions: offset applied last, by topic and partition; -1: none.
        ends: offset after the last record there; none: the partition is empty.
        holding: topics that say what was applied, for the advice.
    """
    for tp, position in positions.items():
        end = ends.get(tp) or 0
        if position >= end:
            raise LogWentBack(
                f"topic {tp.topic}, partition {tp.partition} ends at offset {end}, but was applied "
                f"up to {position}: the topic was deleted and made again, or the broker has lost "
                f"its end. New records would be taken for ones applied before. Stop all workers and "
                f"delete the topics {', '.join(holding)}, which starts the tables empty."
            )
