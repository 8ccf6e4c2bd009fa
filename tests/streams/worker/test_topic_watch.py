"""What is wrong with topics, and what it holds."""

from dataclasses import dataclass, field

import pytest

from schemas.connection import KafkaSettings
from streams.worker.notices import RESTART, Notices
from streams.worker.telemetry import Telemetry
from streams.worker.topic_facts import TopicFacts, TopicReader
from streams.worker.topic_watch import WATCHER, TopicWatch, written_by
from tests.conftest import RunningBroker

_INPUT, _OUTPUT = "clock", "placement-decisions"


@dataclass
class _Runner:
    name: str = "cluster"
    notices: Notices = field(default_factory=lambda: Notices("cluster"))


def _watch(settings: KafkaSettings, *written: str, partitions: int = 4) -> TopicWatch:
    return TopicWatch(settings, Telemetry(), kept=[_INPUT], written=written, partitions=partitions)


def _facts(topic_id: str, partitions: int = 4) -> TopicFacts:
    return TopicFacts(partitions, topic_id)


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (_facts("A"), None),
        (_facts(""), None),
        (None, "missing"),
        (_facts("B"), "made again"),
        (_facts("A", 6), "partitions"),
        # With other partitions or not, it has to be read anew.
        (_facts("B", 6), "made again"),
    ],
)
def test_each_problem_is_distinguished(now: TopicFacts | None, problem: str | None) -> None:
    watch = _watch(KafkaSettings.local("127.0.0.1:1"))
    assert watch.judge({_INPUT: _facts("A")}) == {}
    found = watch.judge({} if now is None else {_INPUT: now})
    assert found == ({} if problem is None else {_INPUT: problem})
    if problem != "made again":
        assert watch.judge({_INPUT: _facts("A")}) == {}


async def test_a_topic_that_is_not_there_holds_the_stage_until_it_is(
    embedded: RunningBroker,
) -> None:
    runner = _Runner()
    assert await _watch(embedded.settings, "no-such-topic").look(runner)
    assert runner.notices.found(WATCHER)
    assert not runner.notices.found(RESTART)
    (sentence,) = runner.notices.sentences
    assert "topic no-such-topic is missing" in sentence
    assert "loadstream topics create" in sentence
    assert await _watch(embedded.settings, _OUTPUT).look(runner)
    assert runner.notices.sentences == []


async def test_other_partitions_hold_the_stage(embedded: RunningBroker) -> None:
    runner = _Runner()
    assert await _watch(embedded.settings, partitions=3).look(runner)
    (sentence,) = runner.notices.sentences
    assert "topic clock has 4 partitions; expected 3" in sentence


async def test_a_broker_without_ids_is_said_to_be_one(
    embedded: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    found = await TopicReader(embedded.settings).read([_INPUT, "no-such-topic"])
    assert found == {_INPUT: TopicFacts(4)}
    assert "this broker has no topic ids" in caplog.text


async def test_brokers_that_do_not_answer_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.worker.topic_facts.ANSWER_S", 0.5)
    runner = _Runner()
    assert not await _watch(KafkaSettings.local("127.0.0.1:1")).look(runner)
    assert runner.notices.sentences == []


def test_a_stage_watches_what_it_writes() -> None:
    assert set(written_by("cluster")) >= {"journal", "placement-decisions", "checkpoints", "clock"}
    assert written_by("aggregate") == ["node-metrics", "dead-letters"]
