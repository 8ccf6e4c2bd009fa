"""A topic that was made again: in both stages, in a restart, and in a replay."""

from dataclasses import replace

import pytest

from streams.cluster.stage import ClusterStage
from streams.replay.recorded import NotReplayable
from streams.stage.records import InputRecord
from streams.worker.topic_identity import TopicIdentity
from tests.streams.cluster.builders import node, request, tick
from tests.streams.cluster.harness import Log
from tests.streams.journaled import Journaled

_REQUESTS = "scheduling-requests"


def _marked(record: InputRecord, topic_id: str) -> InputRecord:
    return replace(record, topic_id=topic_id)


def _two_topics() -> Journaled:
    """A worker that has read two requests of one topic, and the first of the one made after it."""
    log, again, worker = Log(), Log(), Journaled()
    worker.apply([log.message(tick()), log.message(node("a"))])
    first = [log.message(request("p")), log.message(request("q"))]
    worker.apply([_marked(first[0], "A"), first[1]])
    worker.apply([_marked(again.message(request("r")), "B")])
    return worker


def test_the_first_record_of_a_topic_that_was_made_again_is_applied_although_its_offset_was_before() -> None:  # fmt: skip
    worker = _two_topics()
    assert worker.stage.positions[_REQUESTS] == 0
    assert worker.stage.topic_ids == {_REQUESTS: "B"}
    assert set(worker.stage.clusters["test"].inventory.where) == {"p", "q", "r"}
    worker.start()
    assert worker.stage.topic_ids == {_REQUESTS: "B"}
    again = Log()
    worker.apply([again.message(request("r")), again.message(request("s"))])
    assert set(worker.stage.clusters["test"].inventory.where) == {"p", "q", "r", "s"}


def test_a_topic_of_which_the_id_becomes_known_goes_on_where_it_was() -> None:
    log, worker = Log(), Journaled()
    worker.apply([log.message(tick()), log.message(node("a")), log.message(request("p"))])
    worker.apply([_marked(log.message(request("q")), "A")])
    assert worker.stage.positions[_REQUESTS] == 1
    difference, _ = worker.replay(
        topics=[replace(record, topic_id=None) for record in worker.topics]
    )
    assert difference is None


def test_a_replay_from_a_checkpoint_behind_it_comes_to_the_same() -> None:
    worker = _two_topics()
    checkpoint = worker.checkpoint
    worker.topics = [record for record in worker.topics if record.topic != _REQUESTS]
    again = Log()
    again.message(request("r"))
    worker.apply([again.message(request("s"))])
    difference, fold = worker.replay(checkpoint=checkpoint)
    assert difference is None
    assert fold.summary.inputs == 1
    # From before it nothing is known: what was applied is gone with the topic.
    with pytest.raises(NotReplayable, match=r"(is|are) gone"):
        worker.replay()


def _identity(ids: dict[str, str]) -> TopicIdentity:
    return TopicIdentity([_REQUESTS, "clock"], ids)


def test_a_position_counts_for_the_topic_that_it_is_of() -> None:
    stage = ClusterStage(0, 1)
    log = Log()
    stage.apply([_marked(log.message(request("p")), "A"), log.message(request("q"))])
    for now, position in (("A", 1), ("B", -1), (None, 1)):
        ids = {} if now is None else {_REQUESTS: now, "journal": "J"}
        assert _identity(ids).position(stage, _REQUESTS) == position
    assert _identity({_REQUESTS: "A"}).position(stage, "clock") == -1


def test_only_the_first_record_of_an_unknown_topic_is_marked() -> None:
    stage, log = ClusterStage(0, 1), Log()
    records = [log.message(tick()), log.message(request("p")), log.message(request("q"))]
    identity = _identity({_REQUESTS: "A"})
    marked = identity.marked(stage, records)
    assert [each.topic_id for each in marked] == [None, "A", None]
    stage.apply(marked)
    assert identity.marked(stage, records) is records
