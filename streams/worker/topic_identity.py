"""Whether topics are those that a partition's state was built from.

A topic that was deleted and created again has the same name and another id, and its offsets mean
other records. Where a broker has no ids, a partition that ends before what was applied shows it.
"""

from collections.abc import Mapping
from typing import Any

from streams.stage.records import reset_advice


class TopicChanged(RuntimeError):
    """A topic is not what it was: the worker must not go on."""


def check_ids(before: Mapping[str, str], now: Mapping[str, str], partitions: int) -> None:
    """Compare the ids that a partition's rows name with those of the topics now.

    Args:
        before: ids by topic, as far as they were known.
        now: likewise.
        partitions: the number of partitions, all of which have lost the topic.

    Raises:
        TopicChanged: a topic has another id.
    """
    for name, was in sorted(before.items()):
        if now.get(name, was) != was:
            every = " ".join(map(str, range(partitions)))
            raise TopicChanged(
                f"topic {name} was deleted and created again, so its offsets mean other records than "
                f"those that were applied. {reset_advice(every)}"
            )


def check_ends(positions: Mapping[Any, int], ends: Mapping[Any, int | None]) -> None:
    """Compare what was applied with where the inputs end.

    Args:
        positions: offset applied last, by topic and partition; -1: none.
        ends: offset after the last record there, asked for after the positions were; none: the
            partition is empty.

    Raises:
        TopicChanged: an input ends before what was applied of it.
    """
    for (topic, partition), position in positions.items():
        end = ends.get((topic, partition)) or 0
        if position >= end:
            raise TopicChanged(
                f"topic {topic}, partition {partition} ends at offset {end}, but was applied up to "
                f"{position}: it was deleted and created again, or brokers have lost its end. "
                f"{reset_advice(partition)}"
            )
