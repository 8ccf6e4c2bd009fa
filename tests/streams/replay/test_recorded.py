"""The recorded batches of a history: any use of it is a loop over them."""

from collections import Counter

import orjson
import pytest

from schemas.policy import effective_yaml, read_policy
from streams.placement.registry import KNOWN
from streams.replay.recorded import NotAppliedOnce, Recording
from tests.streams.builders import metric, node, pod, policy_record, request, tick
from tests.streams.journaled import Journaled, Topics
from tests.streams.world import Log


def _history() -> Journaled:
    """Three pods are placed under the default policy, then two under another one."""
    history, log = Journaled(), Log()
    other = read_policy("reservationSeconds: 120", KNOWN)
    messages = [tick(), node("a"), metric("a"), *(request(pod(f"p{n}")) for n in range(3))]
    messages += [policy_record(effective_yaml(other)), *(request(pod(f"q{n}")) for n in range(2))]
    for message in messages:
        log.record(message)
    for first in range(0, len(log.records), 2):
        history.apply(log.records[first : first + 2])
    return history


def _recording(history: Journaled) -> Recording:
    return Recording(0, enumerate(history.journal), Topics(history.topics))


def test_each_batch_comes_with_the_records_that_it_applied() -> None:
    history = _history()
    recorded = list(_recording(history))
    assert [entry.batch.sequence for entry in recorded] == list(range(len(recorded)))
    assert [record for entry in recorded for record in entry.inputs] == history.topics
    assert all(1 <= len(entry.inputs) <= 2 for entry in recorded)


def test_decisions_of_each_policy_are_counted_by_a_loop_over_the_recording() -> None:
    decisions: Counter[str] = Counter()
    for recorded in _recording(_history()):
        for output in recorded.batch.outputs:
            if output.topic == "placement-decisions":
                decisions[orjson.loads(output.value)["as_of"]["policy_digest"]] += 1
    assert sorted(decisions.values()) == [2, 3]


def test_a_skipped_record_is_named_with_its_batch() -> None:
    log, history = Log(), Journaled()
    first, passed_over, third = [log.record(request(pod(f"p{number}"))) for number in range(3)]
    history.apply([first])
    history.apply([third])
    topics = Topics([first, passed_over, third])
    with pytest.raises(
        NotAppliedOnce, match="scheduling-requests offset 1 was never applied"
    ) as caught:
        list(Recording(0, enumerate(history.journal), topics))
    assert (caught.value.sequence, caught.value.culprit) == (1, passed_over)


def test_foreign_records_are_counted_also_after_the_last_batch() -> None:
    history = _history()
    values = [history.journal[0], b"stray", *history.journal[1:], b"another", b"more"]
    recording = Recording(0, enumerate(values), Topics(history.topics))
    assert len(list(recording)) == len(list(_recording(history)))
    assert recording.foreign == 3
