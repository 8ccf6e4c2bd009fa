"""The sink on a real API server: the contract of all sinks, and real answers.

Tests of single modules cover answers that a real server does not give on demand.
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
from simulation.control_plane.audit import find_duplicates, read_audit_log
from simulation.control_plane.server import ControlPlane
from tests.connectors.kubernetes.sinks.builders import CREATED, NODE, POD, POD_PATH, pod
from tests.connectors.kubernetes.sinks.fake_server import OVERLOADED, Answer, FakeServer
from tests.connectors.kubernetes.sinks.real import WAIT_S, Environment, until
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
async def env(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Environment]:
    async with control_plane.api() as server:
        yield await Environment(server, namespace).prepared()


@pytest.fixture
async def sink(env: Environment) -> AsyncIterator[KubernetesSink]:
    sink = KubernetesSink(env.server)
    yield sink
    await sink.close()


async def carry_out(sink: KubernetesSink, command: Command) -> CommandOutcome:
    outcome = await CommandRules(CLUSTER, sink, NOW_MS).carry_out(command)
    assert outcome is not None
    return outcome


class _World(SinkWorld):
    def __init__(self, env: Environment, sink: KubernetesSink) -> None:
        self.env = env
        self.node = env.node
        self.sink = sink

    async def waiting_pod(self) -> PodRef:
        return await self.env.waiting_pod()

    async def running_pod(self, *, budgeted: bool = False) -> PodRef:
        pod = await self.env.running_pod(labels={"app": "budgeted"} if budgeted else None)
        if budgeted:
            await self.env.budget(BUDGET_NAME, "budgeted")
        return pod

    async def node_of(self, pod: PodRef) -> str | None:
        document = await self.env.get(pod)
        return document["spec"].get("nodeName") if document else None

    async def terminates(self, pod: PodRef) -> bool:
        document = await self.env.get(pod)
        return document is None or "deletionTimestamp" in document["metadata"]

    async def annotations(self, pod: PodRef) -> Mapping[str, str]:
        document: dict[str, Any] = await self.env.get(pod)
        return document["metadata"]["annotations"]  # type: ignore[no-any-return]


class TestKubernetesSink(SinkContract):
    @pytest.fixture
    def world(self, env: Environment, sink: KubernetesSink) -> SinkWorld:
        return _World(env, sink)


# --- bindings -------------------------------------------------------------------------------------


async def test_a_bound_pod_carries_the_id_of_its_decision_and_an_event(
    env: Environment, sink: KubernetesSink
) -> None:
    pod = await env.waiting_pod()
    assert (await carry_out(sink, decision(pod, env.node))).result == "done"
    document = await env.get(pod)
    assert document["metadata"]["annotations"][DECISION_ANNOTATION] == f"bind-{pod.uid}"
    text = f"Successfully assigned {env.namespace}/{pod.name} to {env.node}"

    async def has_event() -> bool:
        return await env.events(pod.uid) == [("Scheduled", text)]

    await until(has_event)


async def test_copies_of_one_decision_bind_once_and_all_are_reported_as_done(
    env: Environment, control_plane: ControlPlane
) -> None:
    """Like two processes that both believe to be active, or a process that restarts."""
    pod = await env.waiting_pod()
    sinks = [KubernetesSink(env.server) for _ in range(8)]
    command = decision(pod, env.node)
    outcomes = await asyncio.gather(*(carry_out(sink, command) for sink in sinks))
    assert {(outcome.result, outcome.reason) for outcome in outcomes} == {("done", "")}
    log = read_audit_log(control_plane.audit_log)
    (record,) = [entry for entry in log.pods if entry.uid == pod.uid]
    assert find_duplicates([record]) == []
    assert [binding.node for binding in record.bindings] == [env.node]
    for sink in sinks:
        await sink.close()


async def test_one_of_two_competing_decisions_binds_and_the_other_names_its_node(
    env: Environment,
) -> None:
    pod = await env.waiting_pod()
    sinks = [KubernetesSink(env.server) for _ in range(2)]
    commands = [decision(pod, env.node, decision_id=f"decision-{n}") for n in range(2)]
    outcomes = await asyncio.gather(*map(carry_out, sinks, commands))
    done, failed = sorted(outcomes, key=lambda outcome: outcome.result)
    assert (done.result, failed.result) == ("done", "failed")
    assert failed.reason.endswith(f", bound by decision {done.command_id}")
    for sink in sinks:
        await sink.close()


async def test_a_throttled_binder_binds_each_pod_once(
    env: Environment, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has few seats for the binder and refuses requests without a seat."""
    pods = [await env.waiting_pod() for _ in range(20)]
    async with control_plane.api("loadstream-bind") as server:

        async def is_served() -> bool:
            answers = (server.send("GET", f"{_API_GROUPS}/v1") for _ in range(32))
            return 429 not in {answer.status for answer in await asyncio.gather(*answers)}

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
        async with limit_seats(env.server, "loadstream-bind"):
            commands = [decision(pod, env.node) for pod in pods]
            async with occupy_seats(server, f"/api/v1/namespaces/{env.namespace}/events"):
                binding = asyncio.gather(*(carry_out(sink, command) for command in commands))
                await until(throttled)
            outcomes = await binding
            await sink.close()
        await until(is_served)  # restores the limits for other tests
    assert {(outcome.result, outcome.reason) for outcome in outcomes} == {("done", "")}
    bound = {pod.uid for pod in pods}
    log = read_audit_log(control_plane.audit_log)
    records = [record for record in log.pods if record.uid in bound]
    assert find_duplicates(records) == []
    assert [len(record.bindings) for record in records] == [1] * len(pods)


@asynccontextmanager
async def limit_seats(server: ApiServer, user: str) -> AsyncIterator[None]:
    """Limit the concurrent requests of a user to the minimum, without a queue."""
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
async def occupy_seats(server: ApiServer, path: str) -> AsyncIterator[None]:
    """Occupy all seats of the user with requests whose bodies do not end.

    Concurrent short requests might not overlap if this process is slow.
    """
    configuration = await server.access.configuration()
    url = urlsplit(str(configuration.host))
    trusted = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    token = await configuration.get_api_key_with_prefix("BearerToken")
    lines = (
        f"POST {path} HTTP/1.1", f"Host: {url.netloc}", f"Authorization: {token}",
        "Content-Type: application/json", "Content-Length: 2", "", "{",
    )  # fmt: skip
    async with AsyncExitStack() as stack:

        async def is_refused() -> bool:
            if (await server.send("GET", f"{_API_GROUPS}/v1")).status == 429:
                return True
            _, writer = await asyncio.open_connection(url.hostname, url.port, ssl=trusted)
            stack.callback(writer.close)
            writer.write("\r\n".join(lines).encode())
            await writer.drain()
            return False

        await until(is_refused)
        yield


# --- explanations ---------------------------------------------------------------------------------


async def test_a_waiting_pod_has_an_explanation_until_it_is_bound(
    env: Environment, sink: KubernetesSink
) -> None:
    pod = await env.waiting_pod()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    reasons = (ReasonCount(reason="Insufficient cpu", nodes=3),)
    waiting = decision(
        pod, env.node, outcome="waiting", nodes=3, reasons=reasons, decision_id="why-not-1"
    )
    assert await rules.carry_out(waiting) is None
    text = "0/3 nodes are available: 3 Insufficient cpu."

    async def condition() -> dict[str, Any]:
        conditions = (await env.get(pod))["status"].get("conditions") or ()
        return next((entry for entry in conditions if entry["type"] == "PodScheduled"), {})

    async def is_explained() -> bool:
        is_current = (await condition()).get("message") == text
        return is_current and await env.events(pod.uid) == [("FailedScheduling", text)]

    await until(is_explained)
    scheduled = await condition()
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert scheduled["lastTransitionTime"] == "2026-03-02T00:00:00Z"
    bound = await rules.carry_out(decision(pod, env.node))
    assert bound is not None
    assert bound.result == "done"
    assert (await condition())["status"] == "True"
    await sink.explain(waiting)
    await until(lambda: _idle(sink))
    assert (await condition())["status"] == "True", "a late explanation changes no bound pod"


async def _idle(sink: KubernetesSink) -> bool:
    backgrounds = (sink.explanations.background, sink.events.background)
    return not any(background._waiting or background._workers for background in backgrounds)


# --- evictions ------------------------------------------------------------------------------------


async def test_an_eviction_creates_events_on_the_pod_and_its_controller(
    env: Environment, sink: KubernetesSink
) -> None:
    path = f"/apis/apps/v1/namespaces/{env.namespace}/replicasets"
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "nodeName": env.node,
            "terminationGracePeriodSeconds": 0,
        },
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    response = await env.server.send("POST", path, body={"metadata": {"name": "web"}, "spec": spec})
    owner = response.json()["metadata"]["uid"]

    async def pods() -> list[PodRef]:
        listed = await env.server.get(f"/api/v1/namespaces/{env.namespace}/pods")
        return [
            PodRef(namespace=env.namespace, name=item["metadata"]["name"], uid=uid)
            for item in listed["items"]
            if item["status"]["phase"] == "Running" and (uid := item["metadata"]["uid"])
        ]

    async def runs() -> bool:
        return len(await pods()) == 1

    await until(runs)
    (pod,) = await pods()
    assert (await carry_out(sink, eviction(pod, env.node))).result == "done"
    text = f"Evicted by loadstream from node {env.node}: hot"

    async def has_events() -> bool:
        on_pod, on_owner = await env.events(pod.uid), await env.events(owner)
        return on_pod == [("Evicted", text)] and on_owner == [
            ("Evicted", f"Pod {pod.name}: {text}")
        ]

    await until(has_events)


async def test_a_refusal_by_a_budget_creates_an_event_with_its_reason(
    env: Environment, sink: KubernetesSink
) -> None:
    pod = await env.running_pod(labels={"app": "budgeted"})
    await env.budget(BUDGET_NAME, "budgeted")
    command = eviction(pod, env.node, retry_until_ms=NOW_MS + MINUTE_MS)
    outcome = await carry_out(sink, command)
    assert outcome.result == "refused"
    assert outcome.reason == (
        "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget "
        f"{BUDGET_NAME} needs 1 healthy pods and has 1 currently"
    )

    async def has_event() -> bool:
        events = await env.events(pod.uid)
        return [reason for reason, _ in events] == ["EvictionRefused"]

    await until(has_event)


async def test_a_restarted_process_does_not_repeat_evictions(
    env: Environment, control_plane: ControlPlane
) -> None:
    pod = await env.running_pod()
    outcomes = []
    for _ in range(3):
        sink = KubernetesSink(env.server)
        outcomes.append(await carry_out(sink, eviction(pod, env.node)))
        await sink.close()
    assert [outcome.result for outcome in outcomes] == ["done", "refused", "refused"]
    pods = read_audit_log(control_plane.audit_log).pods
    (record,) = [entry for entry in pods if entry.uid == pod.uid]
    assert len(record.evictions) == 1


# --- rights ---------------------------------------------------------------------------------------


async def test_the_rights_of_each_duty_suffice_for_its_sink(
    env: Environment, control_plane: ControlPlane
) -> None:
    waiting, unplaced = [await env.waiting_pod() for _ in range(2)]
    running = [await env.running_pod() for _ in range(3)]
    reasons = (ReasonCount(reason="Insufficient cpu", nodes=1),)
    for attempt in range(2):  # the second one increments the count of the event
        async with control_plane.api("loadstream-bind") as server:
            sink = KubernetesSink(server)
            assert (await carry_out(sink, decision(waiting, env.node))).result == "done"
            more = {"outcome": "waiting", "nodes": attempt + 1, "reasons": reasons}
            await sink.explain(decision(unplaced, env.node, **more))
            await until(lambda sink=sink: _idle(sink))  # type: ignore[misc]
            assert sink.explanations.background.failed == sink.events.background.failed == 0
            assert sink.events.background.written == 2
    async with control_plane.api("loadstream-evict") as server:
        sink = KubernetesSink(server)
        for pod, policy in zip(running, ("SoftEviction", "Eviction", "Delete"), strict=True):
            command = eviction(pod, env.node, policy=policy, annotations={"a/b": "c"})
            assert (await carry_out(sink, command)).result == "done"
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
    assert (await carry_out(sink, decision(POD, NODE))).result == "done"
    assert len(fake_server.list_requests("POST", f"{POD_PATH}/binding")) == 3
    await sink.close()


# --- PodMigrationJobs -----------------------------------------------------------------------------


async def test_a_job_created_with_kubectl_is_requested_and_gets_a_status(env: Environment) -> None:
    pod = await env.running_pod()
    crd = yaml.safe_load(_CRD.read_text(encoding="utf-8"))
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await cluster.create(env.server, definitions, [crd])
    jobs = MigrationJobs(env.server, CLUSTER)

    async def is_served() -> bool:
        """Whether the collection and its group are served."""
        group = await env.server.send("GET", GROUP)
        return b"podmigrationjobs" in group.body and (await env.server.send("GET", COLLECTION)).ok

    await until(is_served)
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "move"},
        "spec": {"podRef": {"namespace": pod.namespace, "name": pod.name}, "ttl": "5m0s"},
    }
    (created,) = await cluster.create(env.server, COLLECTION, [body])
    async with aclosing(jobs.requests()) as requests:
        request = await asyncio.wait_for(anext(requests), WAIT_S)
        assert (request.action, request.pod, request.ttl_ms) == ("migrate", pod, 300_000)
        assert request.request_id == f"pmj-{created['metadata']['uid']}"
        done = Condition(type="Eviction", status=True, changed_at_ms=NOW_MS)
        assert await jobs.report(status(pod=pod, conditions=(done,)))
        job = await env.server.get(f"{COLLECTION}/move")
        assert job["spec"]["podRef"]["uid"] == pod.uid
        assert (job["status"]["phase"], job["status"]["status"]) == ("Running", "Eviction")
        await env.server.send("DELETE", f"{COLLECTION}/move")
        aborted = await asyncio.wait_for(anext(requests), WAIT_S)
        assert (aborted.action, aborted.pod) == ("abort", pod)
    await env.server.send("DELETE", f"{definitions}/{crd['metadata']['name']}")
