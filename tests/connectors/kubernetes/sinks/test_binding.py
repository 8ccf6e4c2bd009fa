"""Results of bindings by the answer of the API server."""

import pytest

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.binding import DECISION_ANNOTATION, Binder, Nodes
from connectors.ports.sink import DONE, Attempt
from schemas.messages.pods import PodRef
from tests.connectors.kubernetes.sinks.builders import (
    BINDING,
    CREATED,
    DECISION_ID,
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
from tests.connectors.ports.sink_contract import decision

CONFLICT = failure(409, "Conflict", "Operation cannot be fulfilled on pods/binding")


@pytest.fixture
def binder(fake_server: FakeServer, client: ApiServer) -> Binder:
    fake_server.set_answers("GET", f"/api/v1/nodes/{NODE}", Answer())
    return Binder(client)


async def test_a_binding_holds_the_node_the_precondition_and_the_decision(
    fake_server: FakeServer, binder: Binder
) -> None:
    fake_server.set_answers("POST", BINDING, CREATED)
    assert await binder.bind(decision(POD, NODE)) == DONE
    (request,) = fake_server.list_requests("POST")
    assert request.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "uid": "uid-1",
            "annotations": {DECISION_ANNOTATION: DECISION_ID},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }


async def test_a_pod_is_not_bound_to_a_missing_node(
    fake_server: FakeServer, binder: Binder
) -> None:
    answer = await binder.bind(decision(POD, "node-9"))
    assert answer == Attempt("failed", "there is no node node-9")
    assert fake_server.list_requests("POST") == []


@pytest.mark.parametrize("answer", [CONFLICT, UNAVAILABLE, LOST, failure(500, "", "timeout")])
@pytest.mark.parametrize(
    ("seen", "result", "reason"),
    [
        (pod(NODE, decision=DECISION_ID), "done", ""),
        (pod(NODE, decision="another"), "failed", "is already on node node-1, bound by decision"),
        (pod(NODE), "failed", "pod web-1 is already on node node-1, bound without a decision"),
        (pod("node-2"), "failed", "pod web-1 is already on node node-2, bound without a decision"),
        (pod(terminates=True), "failed", "pod web-1 is terminating"),
        (pod(gates=("a", "b")), "failed", "has scheduling gates: a, b"),
        (pod(uid="uid-2"), "failed", "of uid uid-1 is gone; the pod of that name has uid uid-2"),
        (GONE, "failed", "pod web-1 is gone"),
    ],
)
async def test_the_result_of_an_unclear_binding_is_read_from_the_pod(
    fake_server: FakeServer, binder: Binder, answer: Answer, seen: Answer, result: str, reason: str
) -> None:
    fake_server.set_answers("POST", BINDING, answer)
    fake_server.set_answers("GET", POD_PATH, seen)
    outcome = await binder.bind(decision(POD, NODE))
    assert (outcome.result, outcome.again_in_s) == (result, None)
    assert reason in outcome.reason
    assert outcome.pod_gone == (" is gone" in reason)
    assert len(fake_server.list_requests("POST")) == 1


async def test_a_binding_with_an_unknown_result_can_be_retried(
    fake_server: FakeServer, binder: Binder
) -> None:
    fake_server.set_answers("POST", BINDING, LOST)
    fake_server.set_answers("GET", POD_PATH, LOST)
    outcome = await binder.bind(decision(POD, NODE))
    assert (outcome.result, outcome.again_in_s) == ("failed", 0.0)
    assert "whether the pod was bound is unknown" in outcome.reason


async def test_an_overloaded_server_is_retried_after_its_retry_after(
    fake_server: FakeServer, binder: Binder
) -> None:
    fake_server.set_answers("POST", BINDING, OVERLOADED)
    assert await binder.bind(decision(POD, NODE)) == Attempt(
        "failed",
        "the API server is overloaded: too many requests, please try again later",
        again_in_s=1.0,
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(404), "binding was refused (404): {}"),
        (failure(403, "Forbidden", "no rights"), "binding was refused (403): no rights"),
        (failure(422, "Invalid", "bad"), "binding was refused (422): bad"),
    ],
)
async def test_a_final_refusal_is_not_retried(
    fake_server: FakeServer, binder: Binder, answer: Answer, reason: str
) -> None:
    fake_server.set_answers("POST", BINDING, answer)
    assert await binder.bind(decision(POD, NODE)) == Attempt("failed", reason)


async def test_a_404_of_a_proxy_does_not_mean_that_the_pod_is_gone(
    fake_server: FakeServer, binder: Binder
) -> None:
    fake_server.set_answers("POST", BINDING, LOST)
    fake_server.set_answers("GET", POD_PATH, Answer(404))
    outcome = await binder.bind(decision(POD, NODE))
    assert (outcome.pod_gone, outcome.again_in_s) == (False, 0.0)


@pytest.mark.parametrize("name", ["../nodes", "web?x", "a b", "%2e%2e", ".."])
async def test_an_invalid_name_never_becomes_a_path(
    fake_server: FakeServer, client: ApiServer, name: str
) -> None:
    from connectors.kubernetes.sinks.sink import KubernetesSink

    sink = KubernetesSink(client)
    command = decision(POD, NODE)
    bad = PodRef.model_construct(namespace="shop", name=name, uid="uid-1")
    answer = await sink.bind(command.model_copy(update={"pod": bad}))
    assert answer.again_in_s is None
    assert "is not a name of a namespace or pod" in answer.reason
    assert fake_server.requests == []


PATH = "/api/v1/nodes/n"
MISSING = failure(404, "NotFound", "no")
OVERLOADED_FOR_NO_TIME = failure(429, "TooManyRequests", "too many requests")


async def test_an_existing_node_is_checked_once(fake_server: FakeServer, client: ApiServer) -> None:
    fake_server.set_answers("GET", PATH, Answer())
    nodes = Nodes(client)
    assert [await nodes.is_missing("n") for _ in range(2)] == [False, False]
    assert len(fake_server.requests) == 1


async def test_a_missing_node_is_checked_again(fake_server: FakeServer, client: ApiServer) -> None:
    fake_server.set_answers("GET", PATH, MISSING, Answer())
    nodes = Nodes(client)
    assert [await nodes.is_missing("n") for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    "answer",
    [
        OVERLOADED_FOR_NO_TIME,
        UNAVAILABLE,
        failure(500, "InternalError", "etcd"),
        Answer(404, "no backend"),  # from a proxy
    ],
)
async def test_a_node_is_checked_again_after_an_error(
    fake_server: FakeServer, client: ApiServer, answer: Answer
) -> None:
    fake_server.set_answers("GET", PATH, answer, MISSING)
    nodes = Nodes(client)
    assert [await nodes.is_missing("n") for _ in range(2)] == [False, True]


async def test_a_binder_without_the_right_to_read_nodes_checks_once(
    fake_server: FakeServer, client: ApiServer
) -> None:
    fake_server.set_answers("GET", PATH, failure(403, "Forbidden", "no rights"))
    nodes = Nodes(client)
    assert [await nodes.is_missing("n") for _ in range(2)] == [False, False]
    assert len(fake_server.requests) == 1
