"""Bindings per second of the binder, compared with a bare client.

    placement-decisions ──▶ `loadstream kubernetes bind` ──▶ API server ──▶ command-outcomes
    bare client         ──────────────────────────────────▶ API server

Both take turns, and pods and decisions exist before each turn. The bare client only sends the same
requests with the same concurrency, so its rate is the limit of the API server on this machine. The time of
the binder is from the first sent decision to the last received outcome. There is a figure only if all
outcomes are successes and every pod is on the node of its decision.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson

from benchmarks import messages
from benchmarks.cluster_rig import FETCH_WAIT_MS, NAMESPACE, CpuMeter, run_duties, start_plane
from benchmarks.figures import CheckFailed, Figure
from benchmarks.rig import TIMEOUT_S, EncodedRecord, Receiver, Rig, start_rig, to_records
from connectors.kubernetes.api.server import IN_FLIGHT_MAX, ApiServer
from connectors.kubernetes.sinks.binding import DECISION_ANNOTATION
from connectors.process import event_loop
from connectors.process.wall_clock import now_ms
from schemas.messages.clock import ClockTick
from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import PodRef
from schemas.topics.partitions import partition_for
from simulation.control_plane.cluster import create, create_pods, make_pod
from simulation.control_plane.server import ControlPlane
from simulation.processes import LoadstreamProcess

NODES = 100
#: Bindings by each client in a round, and number of measured rounds after a round of warmup.
PODS, ROUNDS = 1_500, 4
_LIST_PAGE = 1_000


class Binding(NamedTuple):
    """Measurements of the binder or of the bare client in one round."""

    per_s: float
    cpu_s: dict[str, float]
    """CPU time of each process."""


def measure_bindings() -> Figure:
    """Return the median of the binder's bindings per second."""
    measured = run(PODS, ROUNDS)
    return Figure(measured["per_s"], "1/s", measured)


@cache
def run(pods: int, rounds: int) -> dict[str, Any]:
    """In every round, let the binder and the bare client bind `pods` pods each."""
    with (
        start_rig("kafka") as rig,
        start_plane(NODES) as plane,
        TemporaryDirectory(prefix="loadstream-") as directory,
        run_duties(rig, plane, Path(directory), ["bind"]) as processes,
    ):
        binder = processes["bind"]
        clients = [partial(_run_binder, rig, plane, binder), partial(_run_bare, rig, plane)]
        results: dict[str, list[Binding]] = defaultdict(list)
        for number in range(rounds + 1):
            for bind_all, client in zip(clients, ("binder", "bare"), strict=True):
                decisions = event_loop.run(_make_decisions(plane, f"{client}-{number}", pods))
                result = bind_all(decisions)
                event_loop.run(_check_nodes(plane, decisions))
                if number:
                    results[client].append(result)
        log = binder.output()
    if "Traceback" in log:
        raise CheckFailed(f"the binder logged an exception: {log[-2000:]}")
    return _make_detail(results, pods)


def _make_detail(results: dict[str, list[Binding]], pods: int) -> dict[str, Any]:
    per_s = {client: median(one.per_s for one in bindings) for client, bindings in results.items()}
    ratios = [
        ours.per_s / bare.per_s
        for ours, bare in zip(results["binder"], results["bare"], strict=True)
    ]
    cpu_us = {
        f"{client}_cpu_us_per_binding": {
            process: round(1e6 * mean(one.cpu_s[process] for one in bindings) / pods)
            for process in bindings[0].cpu_s
        }
        for client, bindings in results.items()
    }
    return {
        "per_s": round(per_s["binder"], 1),
        "bare_client_per_s": round(per_s["bare"], 1),
        "share_of_bare_client": round(median(ratios), 3),
        "shares": [round(ratio, 2) for ratio in ratios],
        "rounds": len(ratios),
        "bindings_per_round": pods,
        "at_once": IN_FLIGHT_MAX,
        **cpu_us,
    }


def _run_binder(
    rig: Rig,
    plane: ControlPlane,
    binder: LoadstreamProcess,
    decisions: Sequence[PlacementDecision],
) -> Binding:
    """Send the decisions to the binder, and receive the outcomes."""
    records = to_records("placement-decisions", decisions)
    partition = partition_for(messages.CLUSTER.encode(), rig.settings.partitions)
    rig.sender.send(_make_tick(partition))
    pids = {"bind": binder.pid, "kafka": rig.broker_pid, **_list_servers(plane)}
    outcomes: dict[str, str] = {}
    last_s = 0.0
    with Receiver(rig.settings, ["command-outcomes"], fetch_wait_ms=FETCH_WAIT_MS) as receiver:
        meter, began = CpuMeter(pids), time.monotonic()
        rig.sender.send(records)
        while len(outcomes) < len(records):
            for arrival in receiver.receive(0.2):
                outcome = orjson.loads(arrival.value)
                if outcome["command_id"] in outcomes:
                    raise CheckFailed(f"{outcome['command_id']} has two outcomes")
                outcomes[outcome["command_id"]] = outcome["result"]
                last_s = arrival.at_s
            if time.monotonic() > began + TIMEOUT_S:
                counts = f"received {len(outcomes)} of {len(records)} outcomes"
                raise CheckFailed(f"{counts}; {binder.output()[-500:]}")
            binder.check()
        cpu_s = meter.read()
    if any(result != "done" for result in outcomes.values()):
        raise CheckFailed(f"outcomes are {set(outcomes.values())}")
    return Binding(len(records) / (last_s - began), cpu_s)


def _run_bare(rig: Rig, plane: ControlPlane, decisions: Sequence[PlacementDecision]) -> Binding:
    """Send the binder's requests from this process."""
    meter = CpuMeter({"kafka": rig.broker_pid, **_list_servers(plane)})
    took_s = event_loop.run(_send(plane, decisions))
    return Binding(len(decisions) / took_s, meter.read())


async def _send(plane: ControlPlane, decisions: Sequence[PlacementDecision]) -> float:
    async with plane.api("loadstream-bind") as server:
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for decision in decisions:
                path = f"/api/v1/namespaces/{NAMESPACE}/pods/{decision.pod.name}/binding"
                tasks.create_task(create(server, path, [_make_body(decision)]))
        return time.monotonic() - began


def _make_body(decision: PlacementDecision) -> dict[str, Any]:
    annotations = {DECISION_ANNOTATION: decision.decision_id}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": decision.pod.name,
            "namespace": NAMESPACE,
            "uid": decision.pod.uid,
            "annotations": annotations,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
    }


async def _make_decisions(plane: ControlPlane, name: str, count: int) -> list[PlacementDecision]:
    """Create pods, and return a decision for each pod."""
    async with plane.api() as server:
        pods = await create_pods(server, NAMESPACE, (make_pod(f"{name}-{n}") for n in range(count)))
    return [_make_decision(item["metadata"], number) for number, item in enumerate(pods)]


def _make_decision(metadata: dict[str, Any], number: int) -> PlacementDecision:
    return PlacementDecision.model_validate(
        {
            "cluster": messages.CLUSTER,
            "decision_id": f"decision-of-{metadata['name']}",
            "pod": PodRef(namespace=NAMESPACE, name=metadata["name"], uid=metadata["uid"]),
            "outcome": "placed",
            "node": messages.node_name(number % NODES),
            "decided_at_ms": now_ms(),
            "nodes": NODES,
            "winner": _make_score(number % NODES),
            "runners_up": tuple(_make_score((number + n) % NODES) for n in (1, 2)),
            "as_of": {"partition": 0, "offsets": {"clock": number}, "policy_digest": "default"},
        }
    )


def _make_score(node: int) -> dict[str, Any]:
    term = {"plugin": "LoadAwareScheduling", "score": 70, "weight": 1}
    return {"node": messages.node_name(node), "total": 70, "terms": (term,)}


async def _check_nodes(plane: ControlPlane, decisions: Sequence[PlacementDecision]) -> None:
    """Raise CheckFailed unless every pod has the node and the id of its decision."""
    expected = {d.pod.uid: (d.node, d.decision_id) for d in decisions}
    async with plane.api() as server:
        actual = await _read_nodes(server)
    wrong = [uid for uid, where in expected.items() if actual.get(uid) != where]
    if wrong:
        raise CheckFailed(f"{len(wrong)} of {len(expected)} pods are not on their decision's node")


async def _read_nodes(server: ApiServer) -> dict[str, tuple[str | None, str | None]]:
    return {
        item["metadata"]["uid"]: (
            item["spec"].get("nodeName"),
            (item["metadata"].get("annotations") or {}).get(DECISION_ANNOTATION),
        )
        async for page in server.pages(f"/api/v1/namespaces/{NAMESPACE}/pods", _LIST_PAGE)
        for item in page["items"]
    }


def _make_tick(partition: int) -> list[EncodedRecord]:
    return to_records("clock", [ClockTick(partition=partition, now_ms=now_ms())])


def _list_servers(plane: ControlPlane) -> dict[str, int | None]:
    return {"api_server": plane.api_server.pid, "etcd": plane.etcd.pid}


BENCHMARKS = {"bindings_per_s": measure_bindings}
"""All figures of this module, by name."""
