"""Events on the API server."""

from dataclasses import replace

import pytest

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks import events as module
from connectors.kubernetes.sinks.events import Events, Regarding
from connectors.kubernetes.sinks.throttle import Throttle
from connectors.process import wall_clock
from tests.connectors.kubernetes.sinks.builders import CREATED, EVENTS
from tests.connectors.kubernetes.sinks.harness import written
from tests.connectors.kubernetes.sinks.played import Played, Said, failure

ABOUT = Regarding("v1", "Pod", "shop", "web-1", "uid-1")
EXISTS = failure(409, "AlreadyExists", "it exists")


@pytest.fixture
def events(client: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Events:
    monkeypatch.setattr(wall_clock, "now_ms", lambda: 1_772_409_600_000)
    return Events(Throttle(client))


async def test_the_first_time_an_event_is_created(played: Played, events: Events) -> None:
    played.says("POST", EVENTS, CREATED)
    events.record(ABOUT, "Evicted", "it was hot", type="Warning")
    await written(events.background)
    (asked,) = played.asked
    name = asked.body["metadata"].pop("name")
    assert name.startswith("web-1.")
    assert asked.body == {
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


async def test_the_same_reason_on_the_same_object_counts_up(played: Played, events: Events) -> None:
    played.says("POST", EVENTS, CREATED)
    events.record(ABOUT, "Evicted", "first")
    await written(events.background)
    name = played.asked[0].body["metadata"]["name"]
    played.says("PATCH", f"{EVENTS}/{name}", Said())
    for message in ("second", "third"):
        events.record(ABOUT, "Evicted", message)
    await written(events.background)
    assert len(played.of("POST")) == 1
    (patched,) = played.of("PATCH")
    assert (patched.body["count"], patched.body["message"]) == (3, "third")


async def test_counts_of_events_continue_after_a_restart(played: Played, events: Events) -> None:
    name = module._name(ABOUT, "Evicted")
    played.says("POST", EVENTS, EXISTS)
    played.says("GET", f"{EVENTS}/{name}", Said(200, {"count": 7}))
    played.says("PATCH", f"{EVENTS}/{name}", Said())
    for _ in range(2):
        events.record(ABOUT, "Evicted", "again")
        await written(events.background)
    assert [each.body["count"] for each in played.of("PATCH")] == [8, 9]
    assert len(played.of("GET")) == 1


async def test_an_event_that_kubernetes_has_forgotten_is_created_anew(
    played: Played, events: Events
) -> None:
    played.says("POST", EVENTS, CREATED)
    for _ in range(2):
        events.record(ABOUT, "Evicted", "again")
        await written(events.background)
    assert [each.body["count"] for each in played.of("POST")] == [1, 1]


async def test_beyond_the_limit_events_are_dropped_and_minor_ones_earlier(
    played: Played, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MINOR_MAX", 2)
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    played.says("POST", EVENTS, CREATED)
    for number in range(4):
        events.record(replace(ABOUT, uid=f"minor-{number}"), "Scheduled", "text", minor=True)
    for number in range(4):
        events.record(replace(ABOUT, uid=f"other-{number}"), "Evicted", "text")
    await written(events.background)
    uids = [each.body["involvedObject"]["uid"] for each in played.of("POST")]
    assert sorted(uids) == ["minor-0", "minor-1", "other-0"]
    assert events.background.dropped == 5


async def test_an_event_that_is_refused_is_counted_and_nothing_else(
    played: Played, events: Events
) -> None:
    played.says("POST", EVENTS, failure(403, "Forbidden", "the namespace terminates"), CREATED)
    for _ in range(2):
        events.record(ABOUT, "Evicted", "text")
        await written(events.background)
    assert (events.background.failed, events.background.written) == (1, 1)
