"""Conditions and events that explain why a pod has no node."""

from typing import Any

import pytest

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.events import Events
from connectors.kubernetes.sinks.explanation import Explanations, format_reasons
from schemas.messages.decisions import PlacementDecision, ReasonCount
from tests.connectors.kubernetes.sinks.builders import (
    CREATED,
    EVENTS,
    GONE,
    NODE,
    POD,
    POD_PATH,
    pod,
)
from tests.connectors.kubernetes.sinks.fake_server import LOST, Answer, FakeServer, failure
from tests.connectors.kubernetes.sinks.harness import written
from tests.connectors.ports.sink_contract import decision

STATUS = f"{POD_PATH}/status"
TEXT = "0/200 nodes are available: 120 Insufficient cpu, 80 node(s) were unschedulable."


def waiting(**more: Any) -> PlacementDecision:
    values: dict[str, Any] = {
        "outcome": "waiting", "nodes": 200, "refused_by": {"Fit": 120, "Unschedulable": 80},
        "reasons": (
            ReasonCount(reason="Insufficient cpu", nodes=120),
            ReasonCount(reason="node(s) were unschedulable", nodes=80),
        ),
    }  # fmt: skip
    return decision(POD, NODE, **(values | more)).model_copy(update={"node": None})


def condition(message: str = TEXT, status: str = "False") -> dict[str, Any]:
    return {
        "type": "PodScheduled", "status": status, "reason": "Unschedulable", "message": message,
    }  # fmt: skip


@pytest.fixture
def explanations(fake_server: FakeServer, client: ApiServer) -> Explanations:
    fake_server.set_answers("POST", EVENTS, CREATED)
    return Explanations(client, Events(client))


def test_nodes_with_other_reasons_are_counted() -> None:
    text = format_reasons(
        waiting(refused_by={"Fit": 120, "Unschedulable": 80, "LoadAware": 5}, nodes=205)
    )
    assert text.endswith("80 node(s) were unschedulable, 5 node(s) for other reasons.")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"outcome": "refused", "message": "volumes are not supported"},
            "volumes are not supported",
        ),
        ({"nodes": 0, "message": "the cluster has no nodes"}, "the cluster has no nodes"),
        ({"nodes": 0}, "no nodes available to schedule pods"),
        (
            {"outcome": "expired", "message": "its time ran out"},
            "the pod was placed, but not bound in time: its time ran out",
        ),
    ],
)
def test_a_decision_without_counts_is_explained_by_its_message(
    more: dict[str, Any], text: str
) -> None:
    assert format_reasons(waiting(reasons=(), refused_by={}, **more)) == text


async def test_condition_and_event_give_the_reason(
    fake_server: FakeServer, explanations: Explanations
) -> None:
    fake_server.set_answers("GET", POD_PATH, pod())
    fake_server.set_answers("PATCH", STATUS, Answer())
    explanations.explain(waiting())
    await written(explanations.background, explanations._events.background)
    (patched,) = fake_server.list_requests("PATCH")
    assert patched.body == {
        "metadata": {"uid": "uid-1", "resourceVersion": "7"},
        "status": {
            "conditions": [{**condition(), "lastTransitionTime": "2026-03-02T00:00:00Z"}],
        },
    }
    assert patched.content_type == "application/strategic-merge-patch+json"
    (event,) = fake_server.list_requests("POST", EVENTS)
    assert (event.body["reason"], event.body["message"]) == ("FailedScheduling", TEXT)
    assert event.body["type"] == "Warning"


async def test_the_same_text_is_written_once(
    fake_server: FakeServer, explanations: Explanations
) -> None:
    fake_server.set_answers("GET", POD_PATH, pod())
    fake_server.set_answers("PATCH", STATUS, Answer())
    for _ in range(3):
        explanations.explain(waiting())
        await written(explanations.background, explanations._events.background)
    assert len(fake_server.requests) == 3, "a look, a condition, an event"


async def test_an_unchanged_condition_is_not_written_after_a_restart(
    fake_server: FakeServer, explanations: Explanations
) -> None:
    fake_server.set_answers("GET", POD_PATH, pod(conditions=[condition()]))
    explanations.explain(waiting())
    await written(explanations.background, explanations._events.background)
    assert [request.method for request in fake_server.requests] == ["GET"]


async def test_another_text_keeps_the_time_at_which_the_pod_became_unschedulable(
    fake_server: FakeServer, explanations: Explanations
) -> None:
    fake_server.set_answers("GET", POD_PATH, pod(conditions=[condition("another text")]))
    fake_server.set_answers("PATCH", STATUS, Answer())
    explanations.explain(waiting())
    await written(explanations.background, explanations._events.background)
    (patched,) = fake_server.list_requests("PATCH")
    assert patched.body["status"]["conditions"] == [condition()]


@pytest.mark.parametrize(
    "seen", [pod(NODE), pod(terminates=True), pod(uid="uid-2"), pod(gates=("g",)), GONE]
)
async def test_a_pod_without_need_for_an_explanation_is_not_changed(
    fake_server: FakeServer, explanations: Explanations, seen: Answer
) -> None:
    fake_server.set_answers("GET", POD_PATH, seen)
    explanations.explain(waiting())
    await written(explanations.background, explanations._events.background)
    assert [request.method for request in fake_server.requests] == ["GET"]


@pytest.mark.parametrize("lost", [LOST, failure(500, "", "broken")])
async def test_a_failed_explanation_is_written_with_the_next_decision(
    fake_server: FakeServer, explanations: Explanations, lost: Answer
) -> None:
    fake_server.set_answers("GET", POD_PATH, pod())
    fake_server.set_answers("PATCH", STATUS, lost, Answer())
    for _ in range(2):
        explanations.explain(waiting())
        await written(explanations.background, explanations._events.background)
    assert len(fake_server.list_requests("PATCH")) == 2
    assert explanations.background.failed == 1


async def test_a_bound_pod_gets_no_explanation(
    fake_server: FakeServer, explanations: Explanations
) -> None:
    explanations.explain(waiting())
    explanations.forget(POD)
    await written(explanations.background, explanations._events.background)
    assert fake_server.requests == []
