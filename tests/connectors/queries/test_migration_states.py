"""The newest states of migrations and drains, and the answers to requests."""

from typing import Any

import pytest

from connectors.kafka.cluster_records import SearchProgress
from connectors.queries import migration_states
from connectors.queries.migration_answers import find_answer
from connectors.queries.migration_states import MigrationStates, collect_states
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import build_dead_letter
from schemas.messages.migrations import MigrationRequest
from schemas.messages.pods import PodRef
from schemas.topics.codec import encode
from tests.connectors.queries.statuses import NOW_MS, drained, status

DAY_MS = 86_400_000


def states(*messages: Any, back_ms: int = DAY_MS) -> MigrationStates:
    return collect_states(reversed(messages), SearchProgress(len(messages)), back_ms)


def test_the_newest_state_of_running_migrations_is_shown() -> None:
    messages = [
        status(1, "Pending"), status(2, "Pending", 1), drained("Draining", 2),
        status(1, "Running", 3, paused=True), status(2, "Succeeded", 4),
    ]  # fmt: skip
    seen = states(*messages)
    assert seen.list_statuses(everything=False) == messages[2:4]
    assert seen.list_statuses(everything=True) == messages[2:]
    for part in ("1 under way (1 paused)", "within 1d: 1 Succeeded", "1 node takes no new pods"):
        assert part in seen.summarize()
    ended = states(*messages, drained("Undrained", 5), status(1, "Aborted", 6))
    assert ended.list_statuses(everything=False) == []
    assert ended.summarize() == "0 under way; ended within 1d: 1 Aborted, 1 Succeeded"


def test_ended_migrations_are_shown_back_to_the_requested_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = status(1, "Failed"), status(2, "Failed", 3000), status(3, seconds=3601)
    seen = states(*messages, back_ms=3_600_000)
    assert list(seen.migrations) == ["migration-3", "migration-2"]
    monkeypatch.setattr(migration_states, "RECORDS_MAX", 3)
    assert not states(*messages).is_complete
    assert "only the newest 3 records" in states(*messages).summarize()


def test_old_unfinished_migrations_are_shown() -> None:
    old = status(1, "Pending"), drained("Drained", 1)
    seen = states(*old, status(2, "Failed", 2), status(3, seconds=3 * 86_400))
    assert seen.list_statuses(everything=False)[:2] == list(old)
    assert list(seen.migrations) == ["migration-3", "migration-1"]


def test_an_action_without_effect_is_refused() -> None:
    seen = states(status(1, paused=True), status(2), status(3, "Failed"), drained("Undrained"))
    paused, running, failed = (seen.migrations[f"migration-{number}"] for number in (1, 2, 3))
    assert seen.find_obstacle(paused, "pause") == "it is already paused"
    assert seen.find_obstacle(running, "resume") == "it is not paused"
    assert seen.find_obstacle(failed, "abort") == "it has ended, Failed"
    assert seen.find_obstacle(None, "abort") == "none is in progress"
    assert not any((seen.find_obstacle(paused, "resume"), seen.find_obstacle(running, "pause")))
    assert seen.find_live("shop", "web-2") == running
    assert seen.find_live("shop", "web-3") is None
    assert seen.is_undrained("worker-9")


REQUESTED = "request-2"
POD = PodRef(namespace="shop", name="web-1", uid="uid-1")
START = {"action": "migrate", "pod": POD}
DRAIN = {"action": "drain", "node": "worker-9"}


def build_request(**fields: Any) -> MigrationRequest:
    if "pod" not in fields and "node" not in fields:
        fields["migration_id"] = "migration-2"
    return MigrationRequest(request_id=REQUESTED, cluster="blue", requested_at_ms=NOW_MS, **fields)


def requested_status(phase: Any) -> Any:
    return status(1, phase, trigger="request")


@pytest.mark.parametrize(
    ("fields", "answers", "failed", "last"),
    [
        (START, [requested_status("Pending"), status(8, "Failed"), requested_status("Succeeded")], False, "Succeeded"),
        (START, [status(1, "Failed"), requested_status("Failed")], True, "Failed"),
        (DRAIN, [drained("Drained"), drained("Drained", 0, REQUESTED)], False, "drained"),
        (DRAIN, [drained("Undrained"), drained("Draining", 0, REQUESTED), drained("Undrained", 0, REQUESTED)], True, "undrained"),
        (DRAIN, [drained("Draining", 0, REQUESTED), drained("Drained")], False, "drained"),
        ({"action": "abort"}, [status(3, "Aborted"), status(2, "Aborted")], False, "Aborted"),
        ({"action": "abort"}, [status(2, "Succeeded")], True, "Succeeded"),
        ({"action": "abort"}, [status(2, "Failed")], False, "Failed"),
        ({"action": "pause"}, [status(2), status(2, paused=True)], False, "paused"),
        ({"action": "pause"}, [status(2, "Succeeded")], True, "Succeeded"),
        ({"action": "resume"}, [status(2, paused=True), status(2)], False, "Running"),
    ],
)  # fmt: skip
def test_a_request_is_followed_to_its_last_answer(
    fields: dict[str, Any], answers: list[Any], failed: bool, last: str
) -> None:
    request, begun = build_request(**fields), False
    for message in answers[:-1]:
        answer = find_answer(request, message, begun=begun)
        assert answer is None or not answer.done
        begun = begun or answer is not None
    answer = find_answer(request, answers[-1], begun=begun)
    assert answer is not None
    assert (answer.done, answer.failed) == (True, failed)
    assert last in answer.text


def test_a_refused_request_has_failed() -> None:
    request = build_request(action="pause")
    why = Refusal("invalid", "no migration of web-1 is under way")
    letters = [
        build_dead_letter("migration-requests", 0, 0, NOW_MS, b"blue", encode(refused), why)
        for refused in (request, request.model_copy(update={"request_id": "request-3"}))
    ]
    answer = find_answer(request, letters[0])
    assert answer is not None
    assert (answer.done, answer.failed) == (True, True)
    assert why.reason in answer.text
    assert find_answer(request, letters[1]) is None
