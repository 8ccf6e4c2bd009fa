"""Events on the API server."""

import pytest

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks import events as module
from connectors.kubernetes.sinks.events import Events, refer_to_pod
from connectors.process import wall_clock
from schemas.messages.pods import PodRef
from tests.connectors.kubernetes.sinks.builders import CREATED, EVENTS
from tests.connectors.kubernetes.sinks.fake_server import Answer, FakeServer, failure
from tests.connectors.kubernetes.sinks.harness import written

ABOUT = refer_to_pod(PodRef(namespace="shop", name="web-1", uid="uid-1"))
EXISTS = failure(409, "AlreadyExists", "it exists")


@pytest.fixture
def events(client: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Events:
    monkeypatch.setattr(wall_clock, "now_ms", lambda: 1_772_409_600_000)
    return Events(client)


async def test_an_event_is_created_at_its_first_occurrence(
    fake_server: FakeServer, events: Events
) -> None:
    fake_server.set_answers("POST", EVENTS, CREATED)
    events.record(ABOUT, "Evicted", "it was hot", type="Warning")
    await written(events.background)
    (request,) = fake_server.requests
    name = request.body["metadata"].pop("name")
    assert name.startswith("web-1.")
    assert request.body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-1",
            "uid": "uid-1",
        },
        "type": "Warning",
        "reason": "Evicted",
        "message": "it was hot",
        "source": {"component": "loadstream"},
        "reportingComponent": "loadstream",
        "count": 1,
        "firstTimestamp": "2026-03-02T00:00:00Z",
        "lastTimestamp": "2026-03-02T00:00:00Z",
    }


async def test_a_repeated_reason_increments_the_count(
    fake_server: FakeServer, events: Events
) -> None:
    fake_server.set_answers("POST", EVENTS, CREATED)
    events.record(ABOUT, "Evicted", "first")
    await written(events.background)
    name = fake_server.requests[0].body["metadata"]["name"]
    fake_server.set_answers("PATCH", f"{EVENTS}/{name}", Answer())
    for message in ("second", "third"):
        events.record(ABOUT, "Evicted", message)
    await written(events.background)
    assert len(fake_server.list_requests("POST")) == 1
    (patched,) = fake_server.list_requests("PATCH")
    assert (patched.body["count"], patched.body["message"]) == (3, "third")


async def test_counts_of_events_continue_after_a_restart(
    fake_server: FakeServer, events: Events
) -> None:
    name = module._name(ABOUT, "Evicted")
    fake_server.set_answers("POST", EVENTS, EXISTS)
    fake_server.set_answers("GET", f"{EVENTS}/{name}", Answer(200, {"count": 7}))
    fake_server.set_answers("PATCH", f"{EVENTS}/{name}", Answer())
    for _ in range(2):
        events.record(ABOUT, "Evicted", "again")
        await written(events.background)
    assert [request.body["count"] for request in fake_server.list_requests("PATCH")] == [8, 9]
    assert len(fake_server.list_requests("GET")) == 1


async def test_an_event_that_has_expired_is_created_again(
    fake_server: FakeServer, events: Events
) -> None:
    fake_server.set_answers("POST", EVENTS, CREATED)
    for _ in range(2):
        events.record(ABOUT, "Evicted", "again")
        await written(events.background)
    assert [request.body["count"] for request in fake_server.list_requests("POST")] == [1, 1]


async def test_events_beyond_the_limit_are_dropped_and_minor_ones_earlier(
    fake_server: FakeServer, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MINOR_MAX", 2)
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    fake_server.set_answers("POST", EVENTS, CREATED)
    for number in range(4):
        events.record(ABOUT | {"uid": f"minor-{number}"}, "Scheduled", "text", minor=True)
    for number in range(4):
        events.record(ABOUT | {"uid": f"other-{number}"}, "Evicted", "text")
    await written(events.background)
    uids = [request.body["involvedObject"]["uid"] for request in fake_server.list_requests("POST")]
    assert sorted(uids) == ["minor-0", "minor-1", "other-0"]
    assert events.background.dropped == 5


async def test_a_refused_event_is_only_counted(fake_server: FakeServer, events: Events) -> None:
    fake_server.set_answers(
        "POST", EVENTS, failure(403, "Forbidden", "the namespace terminates"), CREATED
    )
    for _ in range(2):
        events.record(ABOUT, "Evicted", "text")
        await written(events.background)
    assert (events.background.failed, events.background.written) == (1, 1)
