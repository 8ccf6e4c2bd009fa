"""A topic that is not what it was is noticed."""

import pytest

from schemas.connection import KafkaSettings
from streams.worker.topic_identity import TopicChanged
from streams.worker.topic_watch import TopicFacts, TopicWatch, written_by
from tests.conftest import RunningBroker

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
        (None, "topic clock was deleted. Create it with `loadstream topics create`"),
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
    assert await watch.look()
    assert watch.ids == {}
    with pytest.raises(TopicChanged, match="topic no-such-topic was deleted"):
        await TopicWatch(embedded.settings, [_INPUT, "no-such-topic"]).look()


async def test_brokers_that_do_not_answer_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.worker.topic_watch.ANSWER_S", 0.5)
    assert not await TopicWatch(KafkaSettings.local("127.0.0.1:1"), [_INPUT]).look()


def test_a_stage_watches_what_it_writes() -> None:
    assert set(written_by("cluster")) >= {"journal", "placement-decisions", "checkpoints", "clock"}
    assert written_by("aggregate") == ["node-metrics", "dead-letters"]
