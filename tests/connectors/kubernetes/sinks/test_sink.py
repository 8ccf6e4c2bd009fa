"""The sink on a real API server: the contract of all sinks, and the server's own answers.

Tests of the single modules have answers that a real server does not give on demand.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from connectors.kubernetes.api.server import ApiServer, Response
from connectors.kubernetes.sinks.binding import DECISION_ANNOTATION
from connectors.kubernetes.sinks.migration_jobs import COLLECTION, GROUP, MigrationJobs
from connectors.kubernetes.sinks.sink import KubernetesSink
from connectors.ports.command_rules import Command, CommandRules
from schemas.messages.commands import CommandOutcome
from schemas.messages.decisions import ReasonCount
from schemas.messages.migrations import Condition
from schemas.messages.pods import PodRef
from simulation.control_plane import cluster
from simulation.control_plane.audit import judge, read
from simulation.control_plane.server import ControlPlane
from tests.connectors.kubernetes.sinks.builders import CREATED, NODE, POD, POD_PATH, pod
from tests.connectors.kubernetes.sinks.fake_server import OVERLOADED, Answer, FakeServer
from tests.connectors.kubernetes.sinks.real import WAIT_S, Place, until
from tests.connectors.kubernetes.sinks.test_migration_job import status
from tests.connectors.ports.sink_contract import (
    CLUSTER,
    MINUTE_MS,
    NOW_MS,
    SinkContract,
    SinkWorld,
    decision,
    eviction,
)

BUDGET_NAME = "budget"
_API_GROUPS, _FLOW_CONTROL = "/apis/apps", "/apis/flowcontrol.apiserver.k8s.io/v1"
_CRD = Path(__file__).parent / "pod_migration_job.yaml"


@pytest.fixture
async def place(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Place]:
    async with control_plane.api() as server:
        yield await Place(server, namespace).prepared()


@pytest.fixture
async def sink(place: Place) -> AsyncIterator[KubernetesSink]:
    sink = KubernetesSink(place.server)
    yield sink
    await sink.close()


async def carried_out(sink: KubernetesSink, command: Command) -> CommandOutcome:
    outcome = await CommandRules(CLUSTER, sink, NOW_MS).carry_out(command)
    assert outcome is not None
    return outcome


class _World(SinkWorld):
    def __init__(self, place: Place, sink: KubernetesSink) -> None:
        self.place = place
        self.node = place.node
        self.sink = sink

    async def waiting_pod(self) -> PodRef:
        return await self.place.waiting_pod()

    async def running_pod(self, *, budgeted: bool = False) -> PodRef:
        found = await self.place.running_pod(labels={"app": "budgeted"} if budgeted else None)
        if budgeted:
            await self.place.budget(BUDGET_NAME, "budgeted")
        return found

    async def node_of(self, pod: PodRef) -> str | None:
        found = await self.place.get(pod)
        return found["spec"].get("nodeName") if found else None

    async def terminates(self, pod: PodRef) -> bool:
        found = await self.place.get(pod)
        return found is None or "deletionTimestamp" in found["metadata"]

    async def annotations(self, pod: PodRef) -> Mapping[str, str]:
        found: dict[str, Any] = await self.place.get(pod)
        return found["metadata"]["annotations"]  # type: ignore[no-any-return]


class TestKubernetesSink(SinkContract):
    @pytest.fixture
    def world(self, place: Place, sink: KubernetesSink) -> SinkWorld:
        return _World(place, sink)


# --- bindings -------------------------------------------------------------------------------------


async def test_a_bound_pod_carries_the_id_of_its_decision_and_an_event(
    place: Place, sink: KubernetesSink
) -> None:
    pod = await place.waiting_pod()
    assert (await carried_out(sink, decision(pod, place.node))).result == "done"
    found = await place.get(pod)
    assert found["metadata"]["annotations"][DECISION_ANNOTATION] == f"bind-{pod.uid}"
    text = f"Successfully assigned {place.namespace}/{pod.name} to {place.node}"

    async def told() -> bool:
        return await place.events(pod.uid) == [("Scheduled", text)]

    await until(told)


async def test_copies_of_one_decision_bind_once_and_each_says_done(
    place: Place, control_plane: ControlPlane
) -> None:
    """Two processes that both believe to be the active one, and one that starts again."""
    pod = await place.waiting_pod()
    sinks = [KubernetesSink(place.server) for _ in range(8)]
    command = decision(pod, place.node)
    outcomes = await asyncio.gather(*(carried_out(each, command) for each in sinks))
    assert {(each.result, each.reason) for each in outcomes} == {("done", "")}
    log = read(control_plane.audit_log)
    (record,) = [each for each in log.pods if each.uid == pod.uid]
    assert judge([record]) == []
    assert [each.node for each in record.bindings] == [place.node]
    for each in sinks:
        await each.close()


async def test_of_two_competing_decisions_one_binds_and_the_other_names_it(
    place: Place,
) -> None:
    pod = await place.waiting_pod()
    sinks = [KubernetesSink(place.server) for _ in range(2)]
    commands = [decision(pod, place.node, decision_id=f"decision-{n}") for n in range(2)]
    outcomes = await asyncio.gather(*map(carried_out, sinks, commands))
    done, failed = sorted(outcomes, key=lambda each: each.result)
    assert (done.result, failed.result) == ("done", "failed")
    assert failed.reason.endswith(f", bound by decision {done.command_id}")
    for each in sinks:
        await each.close()


async def test_a_throttled_binder_binds_each_pod_once(
    place: Place, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has few seats for the binder, and refuses what it has no seat for."""
    pods = [await place.waiting_pod() for _ in range(20)]
    async with control_plane.api("loadstream-bind") as server:

        async def served() -> bool:
            answers = (server.send("GET", f"{_API_GROUPS}/v1") for _ in range(32))
            return 429 not in {each.status for each in await asyncio.gather(*answers)}

        sink = KubernetesSink(server)
        refused = 0
        send = server.send

        async def count_refusals(*request: Any, **options: Any) -> Response:
            nonlocal refused
            response = await send(*request, **options)
            refused += response.status == 429
            return response

        async def throttled() -> bool:
            return refused > 0

        monkeypatch.setattr(server, "send", count_refusals)
        async with few_seats(place.server, "loadstream-bind"):
            commands = [decision(pod, place.node) for pod in pods]
            async with no_seat_left(server, f"/api/v1/namespaces/{place.namespace}/events"):
                binding = asyncio.gather(*(carried_out(sink, each) for each in commands))
                await until(throttled)
            outcomes = await binding
            await sink.close()
        await until(served)  # as other tests expect
    assert {(each.result, each.reason) for each in outcomes} == {("done", "")}
    bound = {pod.uid for pod in pods}
    records = [each for each in read(control_plane.audit_log).pods if each.uid in bound]
    assert judge(records) == []
    assert [len(each.bindings) for each in records] == [1] * len(pods)


@asynccontextmanager
async def few_seats(server: ApiServer, user: str) -> AsyncIterator[None]:
    """As few of a user's requests as can be are served at once, and no other waits for its turn."""
    level = {"nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    objects = {
        "prioritylevelconfigurations": {
            "type": "Limited", "limited": {**level, "limitResponse": {"type": "Reject"}},
        },
        "flowschemas": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": user},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": user}}],
                    "resourceRules": [{**everything, "clusterScope": True}],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                }
            ],
        },
    }  # fmt: skip
    for kind, spec in objects.items():
        body = {"metadata": {"name": user}, "spec": spec}
        await cluster.create(server, f"{_FLOW_CONTROL}/{kind}", [body])
    try:
        yield
    finally:
        for kind in objects:
            await server.send("DELETE", f"{_FLOW_CONTROL}/{kind}/{user}")


@asynccontextmanager
async def no_seat_left(server: ApiServer, path: str) -> AsyncIterator[None]:
    """All seats of the user are taken by requests to create something, whose bodies do not end.

    Requests that are answered at once might never meet, where this process is slow.
    """
    configuration = await server.access.configuration()
    url = urlsplit(str(configuration.host))
    trusted = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    token = await configuration.get_api_key_with_prefix("BearerToken")
    lines = (
        f"POST {path} HTTP/1.1", f"Host: {url.netloc}", f"Authorization: {token}",
        "Content-Type: application/json", "Content-Length: 2", "", "{",
    )  # fmt: skip
    async with AsyncExitStack() as taken:

        async def refused() -> bool:
            if (await server.send("GET", f"{_API_GROUPS}/v1")).status == 429:
                return True
            _, writer = await asyncio.open_connection(url.hostname, url.port, ssl=trusted)
            taken.callback(writer.close)
            writer.write("\r\n".join(lines).encode())
            await writer.drain()
            return False

        await until(refused)
        yield


# --- explanations ---------------------------------------------------------------------------------


async def test_a_waiting_pod_has_an_explanation_until_it_is_bound(
    place: Place, sink: KubernetesSink
) -> None:
    pod = await place.waiting_pod()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    reasons = (ReasonCount(reason="Insufficient cpu", nodes=3),)
    waiting = decision(
        pod, place.node, outcome="waiting", nodes=3, reasons=reasons, decision_id="why-not-1"
    )
    assert await rules.carry_out(waiting) is None
    text = "0/3 nodes are available: 3 Insufficient cpu."

    async def condition() -> dict[str, Any]:
        conditions = (await place.get(pod))["status"].get("conditions") or ()
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    async def told() -> bool:
        said = (await condition()).get("message") == text
        return said and await place.events(pod.uid) == [("FailedScheduling", text)]

    await until(told)
    found = await condition()
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert found["lastTransitionTime"] == "2026-03-02T00:00:00Z"
    bound = await rules.carry_out(decision(pod, place.node))
    assert bound is not None
    assert bound.result == "done"
    assert (await condition())["status"] == "True"
    await sink.explain(waiting)
    await until(lambda: _idle(sink))
    assert (await condition())["status"] == "True", "a late explanation changes no bound pod"


async def _idle(sink: KubernetesSink) -> bool:
    backgrounds = (sink.explanations.background, sink.events.background)
    return not any(each._waiting or each._workers for each in backgrounds)


# --- evictions ------------------------------------------------------------------------------------


async def test_an_eviction_creates_events_on_the_pod_and_its_controller(
    place: Place, sink: KubernetesSink
) -> None:
    path = f"/apis/apps/v1/namespaces/{place.namespace}/replicasets"
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "nodeName": place.node,
            "terminationGracePeriodSeconds": 0,
        },
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    response = await place.server.send(
        "POST", path, body={"metadata": {"name": "web"}, "spec": spec}
    )
    owner = response.json()["metadata"]["uid"]

    async def pods() -> list[PodRef]:
        listed = await place.server.get(f"/api/v1/namespaces/{place.namespace}/pods")
        return [
            PodRef(namespace=place.namespace, name=each["metadata"]["name"], uid=uid)
            for each in listed["items"]
            if each["status"]["phase"] == "Running" and (uid := each["metadata"]["uid"])
        ]

    async def runs() -> bool:
        return len(await pods()) == 1

    await until(runs)
    (pod,) = await pods()
    assert (await carried_out(sink, eviction(pod, place.node))).result == "done"
    text = f"Evicted by loadstream from node {place.node}: hot"

    async def told() -> bool:
        on_pod, on_owner = await place.events(pod.uid), await place.events(owner)
        return on_pod == [("Evicted", text)] and on_owner == [
            ("Evicted", f"Pod {pod.name}: {text}")
        ]

    await until(told)


async def test_a_refusal_by_a_budget_creates_an_event_with_its_reason(
    place: Place, sink: KubernetesSink
) -> None:
    pod = await place.running_pod(labels={"app": "budgeted"})
    await place.budget(BUDGET_NAME, "budgeted")
    command = eviction(pod, place.node, retry_until_ms=NOW_MS + MINUTE_MS)
    outcome = await carried_out(sink, command)
    assert outcome.result == "refused"
    assert outcome.reason == (
        "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget "
        f"{BUDGET_NAME} needs 1 healthy pods and has 1 currently"
    )

    async def told() -> bool:
        events = await place.events(pod.uid)
        return [reason for reason, _ in events] == ["EvictionRefused"]

    await until(told)


async def test_a_restarted_process_does_not_repeat_evictions(
    place: Place, control_plane: ControlPlane
) -> None:
    pod = await place.running_pod()
    outcomes = []
    for _ in range(3):
        sink = KubernetesSink(place.server)
        outcomes.append(await carried_out(sink, eviction(pod, place.node)))
        await sink.close()
    assert [each.result for each in outcomes] == ["done", "refused", "refused"]
    (record,) = [each for each in read(control_plane.audit_log).pods if each.uid == pod.uid]
    assert len(record.evictions) == 1


# --- rights ---------------------------------------------------------------------------------------


async def test_the_rights_of_each_duty_suffice_for_its_sink(
    place: Place, control_plane: ControlPlane
) -> None:
    waiting, unplaced = [await place.waiting_pod() for _ in range(2)]
    running = [await place.running_pod() for _ in range(3)]
    reasons = (ReasonCount(reason="Insufficient cpu", nodes=1),)
    for attempt in range(2):  # the second one counts up the Events of the first
        async with control_plane.api("loadstream-bind") as server:
            sink = KubernetesSink(server)
            assert (await carried_out(sink, decision(waiting, place.node))).result == "done"
            more = {"outcome": "waiting", "nodes": attempt + 1, "reasons": reasons}
            await sink.explain(decision(unplaced, place.node, **more))
            await until(lambda sink=sink: _idle(sink))  # type: ignore[misc]
            assert sink.explanations.background.failed == sink.events.background.failed == 0
            assert sink.events.background.written == 2
    async with control_plane.api("loadstream-evict") as server:
        sink = KubernetesSink(server)
        for each, policy in zip(running, ("SoftEviction", "Eviction", "Delete"), strict=True):
            command = eviction(each, place.node, policy=policy, annotations={"a/b": "c"})
            assert (await carried_out(sink, command)).result == "done"
        await until(lambda: _idle(sink))
        assert (sink.events.background.failed, sink.events.background.written) == (0, 3)


# --- an overloaded server, fake_server -----------------------------------------------------------------


async def test_a_throttled_binding_is_retried_until_it_succeeds(
    fake_server: FakeServer, client: ApiServer
) -> None:
    fake_server.set_answers("GET", f"/api/v1/nodes/{NODE}", Answer())
    fake_server.set_answers("GET", POD_PATH, pod())
    fake_server.set_answers("POST", f"{POD_PATH}/binding", OVERLOADED, OVERLOADED, CREATED)
    sink = KubernetesSink(client)
    assert (await carried_out(sink, decision(POD, NODE))).result == "done"
    assert len(fake_server.list_requests("POST", f"{POD_PATH}/binding")) == 3
    await sink.close()


# --- PodMigrationJobs -----------------------------------------------------------------------------


async def test_a_job_created_with_kubectl_is_requested_and_gets_a_status(place: Place) -> None:
    pod = await place.running_pod()
    crd = yaml.safe_load(_CRD.read_text(encoding="utf-8"))
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await cluster.create(place.server, definitions, [crd])
    jobs = MigrationJobs(place.server, CLUSTER)

    async def served() -> bool:
        """The collection, and soon after it the list of all that its group has."""
        group = await place.server.send("GET", GROUP)
        return b"podmigrationjobs" in group.body and (await place.server.send("GET", COLLECTION)).ok

    await until(served)
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "move"},
        "spec": {"podRef": {"namespace": pod.namespace, "name": pod.name}, "ttl": "5m0s"},
    }
    (made,) = await cluster.create(place.server, COLLECTION, [body])
    async with aclosing(jobs.requests()) as requests:
        request = await asyncio.wait_for(anext(requests), WAIT_S)
        assert (request.action, request.pod, request.ttl_ms) == ("migrate", pod, 300_000)
        assert request.request_id == f"pmj-{made['metadata']['uid']}"
        done = Condition(type="Eviction", status=True, changed_at_ms=NOW_MS)
        assert await jobs.report(status(pod=pod, conditions=(done,)))
        found = await place.server.get(f"{COLLECTION}/move")
        assert found["spec"]["podRef"]["uid"] == pod.uid
        assert (found["status"]["phase"], found["status"]["status"]) == ("Running", "Eviction")
        await place.server.send("DELETE", f"{COLLECTION}/move")
        aborted = await asyncio.wait_for(anext(requests), WAIT_S)
        assert (aborted.action, aborted.pod) == ("abort", pod)
    await place.server.send("DELETE", f"{definitions}/{crd['metadata']['name']}")
