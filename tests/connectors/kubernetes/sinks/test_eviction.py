"""Each answer to an eviction, and what is reported for it."""

from typing import Any

import pytest

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.eviction import IN_PROGRESS_ANNOTATION, Evictor
from connectors.kubernetes.sinks.throttle import Throttle
from connectors.ports.sink import DONE, Attempt
from schemas.messages.evictions import DeleteOptions
from tests.connectors.kubernetes.sinks.builders import (
    CREATED,
    EVICTION,
    GONE,
    NODE,
    POD,
    POD_PATH,
    pod,
)
from tests.connectors.kubernetes.sinks.played import (
    LOST,
    OVERLOADED,
    UNAVAILABLE,
    Played,
    Said,
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
    return Evictor(Throttle(client))


async def _answer(evictor: Evictor, **more: Any) -> Attempt:
    answer, _ = await evictor.evict(eviction(POD, NODE, **more))
    return answer


async def test_an_eviction_has_the_uid_as_precondition_and_every_option(
    played: Played, evictor: Evictor
) -> None:
    played.says("GET", POD_PATH, RUNNING)
    played.says("POST", EVICTION, CREATED)
    options = DeleteOptions(
        propagation_policy="Foreground", resource_version="7", ignore_store_read_error=False
    )
    assert await _answer(evictor, grace_period_s=5, delete_options=options) == DONE
    (asked,) = played.of("POST")
    assert asked.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "deleteOptions": {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "uid-1", "resourceVersion": "7"},
            "gracePeriodSeconds": 5,
            "propagationPolicy": "Foreground",
            "ignoreStoreReadErrorWithClusterBreakingPotential": False,
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
async def test_what_the_look_forbids_costs_no_budget(
    played: Played, evictor: Evictor, seen: Said, reason: str
) -> None:
    played.says("GET", POD_PATH, seen)
    answer = await _answer(evictor)
    assert (answer.result, answer.again_in_s) == ("refused", None)
    assert reason in answer.reason
    assert [each.method for each in played.asked] == ["GET"]


@pytest.mark.parametrize(("budget", "retry_after_s"), [(BUDGET, 0.0), (FRESH_BUDGET, 10.0)])
async def test_a_budget_that_refuses_is_asked_again_unless_the_migration_does_so(
    played: Played, evictor: Evictor, budget: Said, retry_after_s: float
) -> None:
    played.says("GET", POD_PATH, RUNNING)
    played.says("POST", EVICTION, budget)
    answer = await _answer(evictor)
    assert (answer.result, answer.again_in_s) == ("refused", retry_after_s)
    assert "Cannot evict pod" in answer.reason
    assert "The disruption budget web" in answer.reason, "the cause is named"
    at_once = await _answer(evictor, retry_until_ms=NOW_MS + 60_000)
    assert (at_once.result, at_once.again_in_s) == ("refused", None)


@pytest.mark.parametrize(
    ("said", "result", "reason", "again_in_s"),
    [
        (TWO_BUDGETS, "refused", "more than one PodDisruptionBudget", None),
        (KUBEVIRT, "done", "the eviction of pod web-1 continues in the background", None),
        (OVERLOADED, "failed", "the API server is overloaded", 1.0),
        (GONE, "refused", "pod web-1 is gone", None),
        (failure(409, "Conflict", "UID in precondition"), "refused", "UID in precondition", 0.0),
        (failure(403, "Forbidden", "no"), "failed", "eviction was refused (403): no", None),
    ],
)
async def test_each_refusal_is_reported_in_words(
    played: Played,
    evictor: Evictor,
    said: Said,
    result: str,
    reason: str,
    again_in_s: float | None,
) -> None:
    played.says("GET", POD_PATH, RUNNING)
    played.says("POST", EVICTION, said)
    answer = await _answer(evictor)
    assert (answer.result, answer.again_in_s) == (result, again_in_s)
    assert reason in answer.reason


async def test_an_eviction_that_goes_on_in_the_background_is_not_asked_for_again(
    played: Played, evictor: Evictor
) -> None:
    going = pod(NODE, phase="Running", annotations={IN_PROGRESS_ANNOTATION: "kubevirt"})
    played.says("GET", POD_PATH, going)
    answer = await _answer(evictor)
    assert answer == Attempt("done", "the eviction of pod web-1 continues in the background")
    assert played.of("POST") == []


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
async def test_what_a_lost_answer_was_is_read_from_the_pod(
    played: Played,
    evictor: Evictor,
    lost: Said,
    after: Said,
    result: str,
    again_in_s: float | None,
) -> None:
    played.says("GET", POD_PATH, RUNNING, after)
    played.says("POST", EVICTION, lost)
    answer = await _answer(evictor)
    assert (answer.result, answer.again_in_s) == (result, again_in_s)
    assert len(played.of("POST")) == 1


async def test_a_lost_dry_run_is_never_taken_for_an_eviction(
    played: Played, evictor: Evictor
) -> None:
    played.says("GET", POD_PATH, RUNNING, GONE)
    played.says("POST", EVICTION, LOST)
    answer = await _answer(evictor, delete_options=DeleteOptions(server_dry_run=True))
    assert answer.result == "failed"


async def test_a_dry_run_of_what_goes_on_in_the_background_is_none_of_an_eviction(
    played: Played, evictor: Evictor
) -> None:
    options = DeleteOptions(server_dry_run=True)
    played.says("GET", POD_PATH, RUNNING)
    played.says("POST", EVICTION, KUBEVIRT)
    assert (await _answer(evictor, delete_options=options)).result == "dry"
    going = pod(NODE, phase="Running", annotations={IN_PROGRESS_ANNOTATION: "kubevirt"})
    played.says("GET", POD_PATH, going)
    assert (await _answer(evictor, delete_options=options)).result == "dry"


async def test_a_dry_run_of_the_server_asks_for_one(played: Played, evictor: Evictor) -> None:
    played.says("GET", POD_PATH, RUNNING)
    for method, path in (("POST", EVICTION), ("DELETE", POD_PATH), ("PATCH", POD_PATH)):
        played.says(method, path, CREATED)
    options = DeleteOptions(server_dry_run=True)
    for policy in ("Eviction", "Delete", "SoftEviction"):
        answer = await _answer(evictor, delete_options=options, policy=policy)
        assert answer.result == "dry"
    (evicted,), (deleted,), (patched,) = (played.of(each) for each in ("POST", "DELETE", "PATCH"))
    assert evicted.body["deleteOptions"]["dryRun"] == ["All"]
    assert deleted.body["dryRun"] == ["All"]
    assert patched.query == {"dryRun": "All"}


async def test_a_deletion_has_the_uid_as_precondition(played: Played, evictor: Evictor) -> None:
    played.says("GET", POD_PATH, RUNNING)
    played.says("DELETE", POD_PATH, Said())
    assert await _answer(evictor, policy="Delete") == DONE
    (asked,) = played.of("DELETE")
    assert asked.body["preconditions"] == {"uid": "uid-1"}


async def test_a_soft_eviction_has_the_resource_version_as_precondition(
    played: Played, evictor: Evictor
) -> None:
    played.says("GET", POD_PATH, RUNNING)
    played.says("PATCH", POD_PATH, failure(409, "Conflict", "the object has been modified"))
    options = DeleteOptions(resource_version="7")
    answer = await _answer(evictor, policy="SoftEviction", delete_options=options)
    (asked,) = played.of("PATCH")
    assert asked.body["metadata"] == {"uid": "uid-1", "resourceVersion": "7", "annotations": {}}
    assert (answer.result, answer.again_in_s) == ("refused", 0.0), "the next look says it"
