"""Results of evictions by the answer of the API server."""

from typing import Any

import pytest

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.eviction import IN_PROGRESS_ANNOTATION, Evictor
from connectors.ports.sink import DONE, Attempt
from tests.connectors.kubernetes.sinks.builders import (
    CREATED,
    EVICTION,
    GONE,
    NODE,
    POD,
    POD_PATH,
    pod,
)
from tests.connectors.kubernetes.sinks.fake_server import (
    LOST,
    OVERLOADED,
    UNAVAILABLE,
    Answer,
    FakeServer,
    failure,
)
from tests.connectors.ports.sink_contract import NOW_MS, eviction

BUDGET = failure(
    429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.",
    "The disruption budget web needs 3 healthy pods and has 3 currently",
)  # fmt: skip
FRESH_BUDGET = failure(
    429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.",
    "The disruption budget web is still being processed by the server.", retry_after=10,
)  # fmt: skip
KUBEVIRT = failure(
    429, "", 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the '
    'request: Eviction triggered evacuation of VMI "shop/vm"',
)  # fmt: skip
TWO_BUDGETS = failure(
    500, "InternalError", "This pod has more than one PodDisruptionBudget, which the eviction "
    "subresource does not support.",
)  # fmt: skip
RUNNING = pod(NODE, phase="Running")


@pytest.fixture
def evictor(client: ApiServer) -> Evictor:
    return Evictor(client)


async def _answer(evictor: Evictor, **more: Any) -> Attempt:
    answer, _ = await evictor.evict(eviction(POD, NODE, **more))
    return answer


async def test_an_eviction_has_the_uid_as_precondition_and_its_grace_period(
    fake_server: FakeServer, evictor: Evictor
) -> None:
    fake_server.set_answers("GET", POD_PATH, RUNNING)
    fake_server.set_answers("POST", EVICTION, CREATED)
    assert await _answer(evictor, grace_period_s=5) == DONE
    (request,) = fake_server.list_requests("POST")
    assert request.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "deleteOptions": {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "uid-1"},
            "gracePeriodSeconds": 5,
        },
    }


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (GONE, "pod web-1 is gone"),
        (pod(NODE, uid="uid-2"), "pod web-1 of uid uid-1 is gone; the pod of that name has uid"),
        (pod("node-2"), "pod web-1 is on node node-2"),
        (pod(), "pod web-1 is on no node"),
        (pod(NODE, terminates=True), "pod web-1 is already terminating"),
        (pod(NODE, phase="Succeeded"), "pod web-1 has already finished"),
    ],
)
async def test_a_pod_that_must_stay_is_not_evicted_and_uses_no_budget(
    fake_server: FakeServer, evictor: Evictor, seen: Answer, reason: str
) -> None:
    fake_server.set_answers("GET", POD_PATH, seen)
    answer = await _answer(evictor)
    assert (answer.result, answer.again_in_s) == ("refused", None)
    assert reason in answer.reason
    assert [request.method for request in fake_server.requests] == ["GET"]


@pytest.mark.parametrize(("budget", "retry_after_s"), [(BUDGET, 0.0), (FRESH_BUDGET, 10.0)])
async def test_a_refusal_by_a_budget_is_retried_unless_the_migration_retries(
    fake_server: FakeServer, evictor: Evictor, budget: Answer, retry_after_s: float
) -> None:
    fake_server.set_answers("GET", POD_PATH, RUNNING)
    fake_server.set_answers("POST", EVICTION, budget)
    answer = await _answer(evictor)
    assert (answer.result, answer.again_in_s) == ("refused", retry_after_s)
    assert "Cannot evict pod" in answer.reason
    assert "The disruption budget web" in answer.reason, "the cause is named"
    at_once = await _answer(evictor, retry_until_ms=NOW_MS + 60_000)
    assert (at_once.result, at_once.again_in_s) == ("refused", None)


@pytest.mark.parametrize(
    ("refusal", "result", "reason", "again_in_s"),
    [
        (TWO_BUDGETS, "refused", "more than one PodDisruptionBudget", None),
        (KUBEVIRT, "done", "the eviction of pod web-1 continues in the background", None),
        (OVERLOADED, "failed", "the API server is overloaded", 1.0),
        (GONE, "refused", "pod web-1 is gone", None),
        (failure(409, "Conflict", "UID in precondition"), "refused", "UID in precondition", 0.0),
        (failure(403, "Forbidden", "no"), "failed", "eviction was refused (403): no", None),
    ],
)
async def test_each_refusal_is_reported_with_its_reason(
    fake_server: FakeServer,
    evictor: Evictor,
    refusal: Answer,
    result: str,
    reason: str,
    again_in_s: float | None,
) -> None:
    fake_server.set_answers("GET", POD_PATH, RUNNING)
    fake_server.set_answers("POST", EVICTION, refusal)
    answer = await _answer(evictor)
    assert (answer.result, answer.again_in_s) == (result, again_in_s)
    assert reason in answer.reason


async def test_an_eviction_running_in_the_background_is_not_repeated(
    fake_server: FakeServer, evictor: Evictor
) -> None:
    going = pod(NODE, phase="Running", annotations={IN_PROGRESS_ANNOTATION: "kubevirt"})
    fake_server.set_answers("GET", POD_PATH, going)
    answer = await _answer(evictor)
    assert answer == Attempt("done", "the eviction of pod web-1 continues in the background")
    assert fake_server.list_requests("POST") == []


@pytest.mark.parametrize("lost", [LOST, UNAVAILABLE])
@pytest.mark.parametrize(
    ("after", "result", "again_in_s"),
    [
        (pod(NODE, terminates=True), "done", None),
        (GONE, "done", None),
        (pod("node-2", uid="uid-2"), "done", None),
        (RUNNING, "failed", 0.0),
        (LOST, "failed", 0.0),
    ],
)
async def test_the_result_of_a_lost_answer_is_read_from_the_pod(
    fake_server: FakeServer,
    evictor: Evictor,
    lost: Answer,
    after: Answer,
    result: str,
    again_in_s: float | None,
) -> None:
    fake_server.set_answers("GET", POD_PATH, RUNNING, after)
    fake_server.set_answers("POST", EVICTION, lost)
    answer = await _answer(evictor)
    assert (answer.result, answer.again_in_s) == (result, again_in_s)
    assert len(fake_server.list_requests("POST")) == 1


async def test_a_deletion_has_the_uid_as_precondition(
    fake_server: FakeServer, evictor: Evictor
) -> None:
    fake_server.set_answers("GET", POD_PATH, RUNNING)
    fake_server.set_answers("DELETE", POD_PATH, Answer())
    assert await _answer(evictor, policy="Delete") == DONE
    (request,) = fake_server.list_requests("DELETE")
    assert request.body["preconditions"] == {"uid": "uid-1"}


async def test_a_soft_eviction_has_the_uid_as_precondition(
    fake_server: FakeServer, evictor: Evictor
) -> None:
    fake_server.set_answers("GET", POD_PATH, RUNNING)
    fake_server.set_answers(
        "PATCH", POD_PATH, failure(409, "Conflict", "the object has been modified")
    )
    answer = await _answer(evictor, policy="SoftEviction")
    (request,) = fake_server.list_requests("PATCH")
    assert request.body["metadata"] == {"uid": "uid-1", "annotations": {}}
    assert (answer.result, answer.again_in_s) == ("refused", 0.0), "the next look says it"
