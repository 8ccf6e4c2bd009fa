"""A topic that is not what it was is noticed."""

import pytest
from faust.types import TP

from schemas.settings.connection import KafkaSettings
from streams.worker.store.topic_watch import (
    TopicChanged,
    TopicFacts,
    TopicWatch,
    check_ends,
    check_ids,
)
from tests.conftest import RunningBroker

PLACE = TP("node-usage", 2)
_INPUT, _OUTPUT = "clock", "placement-decisions"


def _watched() -> TopicWatch:
    watch = TopicWatch(KafkaSettings.local("127.0.0.1:1"), [_INPUT])
    watch.check({_INPUT: TopicFacts(4, "A")})
    return watch


@pytest.mark.parametrize("topic_id", ["A", ""])
def test_a_topic_that_is_as_it_was_or_of_which_no_id_is_known_is_well(topic_id: str) -> None:
    watch = _watched()
    watch.check({_INPUT: TopicFacts(4, topic_id)})
    assert watch.ids == {_INPUT: "A"}


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        (None, "topic clock was deleted. Create it with `loadstream topic create`"),
        (TopicFacts(4, "B"), "topic clock was deleted and created again"),
        (TopicFacts(6, "A"), "topic clock has 6 partitions; expected 4"),
    ],
)
def test_a_topic_that_is_another_one_stops_the_worker(
    now: TopicFacts | None, sentence: str
) -> None:
    with pytest.raises(TopicChanged, match=sentence):
        _watched().check({} if now is None else {_INPUT: now})


async def test_topics_of_a_broker_without_ids_are_looked_for_by_name(
    embedded: RunningBroker,
) -> None:
    watch = TopicWatch(embedded.settings, [_INPUT, _OUTPUT])
    assert await watch.check_once()
    assert watch.ids == {}
    with pytest.raises(TopicChanged, match="topic no-such-topic was deleted"):
        await TopicWatch(embedded.settings, [_INPUT, "no-such-topic"]).check_once()


@pytest.mark.parametrize("end", [0, None, 6])
def test_an_input_that_ends_before_says_where_and_what_to_do(end: int | None) -> None:
    with pytest.raises(
        TopicChanged, match=r"node-usage, partition 2 ends at offset .* to offset 6"
    ) as it:
        check_ends({PLACE: 6}, {PLACE: end})
    assert "loadstream partition reset 2`" in str(it.value)


def test_a_topic_with_another_id_is_named_with_all_partitions() -> None:
    with pytest.raises(TopicChanged, match=r"topic journal .*loadstream partition reset 0 1 2 3`"):
        check_ids({"clock": "A", "journal": "B"}, {"clock": "A", "journal": "C"}, 4)
