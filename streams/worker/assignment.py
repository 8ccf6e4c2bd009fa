"""The inputs of one stage that Faust has assigned to this worker, and where they go on."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from connectors.kafka.reconnect import answered
from streams.worker.topic_identity import check_ends

#: Offset applied last of a topic and partition; -1: none.
Position = Callable[[str, int], int]


class Assignment:
    """Asks Faust's assignor and consumer; keeps nothing."""

    def __init__(self, app: Any, topics: Collection[str], name: str) -> None:
        self._app = app
        self._topics = topics
        self._name = name

    def partitions(self, assigned: Iterable[Any]) -> set[int]:
        """Partitions of the inputs among what is assigned."""
        return {tp.partition for tp in assigned if tp.topic in self._topics}

    def owned(self) -> set[int]:
        """Partitions that this worker owns now."""
        return self.partitions(self._app.assignor.assigned_actives())

    async def seek(self, position: Position, lasts: Callable[[], bool]) -> None:
        """Let Faust's consumer go on from what was applied.

        Faust seeks to committed offsets after this, and to nothing where there are none: what it
        had fetched and thrown away on the rebalance would then never come again. A commit that is
        behind repeats records, one that is ahead leaves a gap, and both are seen when records come
        in. Ends early where the assignment no longer `lasts`: the next one comes here again.
        """
        for tp in self._inputs():
            if not lasts():
                return
            await self._app.consumer.seek(tp, position(tp.topic, tp.partition) + 1)

    async def check(self, position: Position) -> None:
        """Every input must still hold what was applied, or offsets mean something else now.

        Raises:
            TopicChanged: one does not.
        """
        places = {tp: position(tp.topic, tp.partition) for tp in self._inputs()}
        ask = partial(self._app.consumer.highwaters, *places)
        ends = await answered(ask, f"{self._name}: the ends of its inputs") if places else {}
        check_ends(places, ends)

    def _inputs(self) -> list[Any]:
        return [tp for tp in self._app.assignor.assigned_actives() if tp.topic in self._topics]
