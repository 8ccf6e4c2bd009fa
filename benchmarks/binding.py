"""How many pods a second are bound, by the whole binder and by a bare client in turns with it.

    placement-decisions ──▶ `loadstream kubernetes bind` ──▶ API server ──▶ command-outcomes
    bare client         ──────────────────────────────────▶ API server

Pods and decisions are made beforehand. The bare client sends the same requests, as many at once as
the binder may, and does nothing else; what it reaches is what this API server gives on these cores.
Of the binder the clock runs from the first decision sent to the last outcome received. Every
outcome must be a success, and every pod must be on its node by its decision; else there is no
figure.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson

from benchmarks import messages
from benchmarks.cluster_rig import FETCH_WAIT_MS, NAMESPACE, control_plane, cpu_s, duties, each_of
from benchmarks.figures import Figure, Unproven
from benchmarks.rig import PATIENCE_S, Encoded, Receiver, Rig, encoded, rig
from connectors.kubernetes.api.server import IN_FLIGHT_MAX, ApiServer
from connectors.kubernetes.sinks.binding import DECISION_ANNOTATION
from connectors.process import event_loop
from schemas.messages.clock import ClockTick
from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import PodRef
from schemas.topics.partitions import partition_for
from simulation.control_plane.cluster import create_pods, pod
from simulation.control_plane.server import ControlPlane
from simulation.processes import Loadstream

NODES = 100
#: Bindings of each side in a round, and rounds that count. The one before them warms up.
PODS, ROUNDS = 1_500, 4
_LIST_PAGE = 1_000


class Binding(NamedTuple):
    """What one side did in a round."""

    per_s: float
    cpu_s: dict[str, float]
    """CPU time of each process."""


def bindings(name: str) -> Figure:
    """Bindings a second of the binder: the median of the rounds."""
    measured = run(PODS, ROUNDS)
    return Figure(name, measured["per_s"], "1/s", measured)


@cache
def run(pods: int, rounds: int) -> dict[str, Any]:
    """Rounds in turns; `pods` of each side in each of them."""
    with (
        rig("kafka") as place,
        control_plane(NODES) as plane,
        TemporaryDirectory(prefix="loadstream-") as directory,
        duties(place, plane, Path(directory), ["bind"]) as processes,
    ):
        whole = [partial(_by_binder, place, plane, processes["bind"]), partial(_bare, place, plane)]
        results: dict[str, list[Binding]] = defaultdict(list)
        for number in range(rounds + 1):
            for work, side in zip(whole, ("binder", "bare"), strict=True):
                decisions = event_loop.run(_decisions(plane, f"{side}-{number}", pods))
                done = work(decisions)
                event_loop.run(_check(plane, decisions))
                if number:
                    results[side].append(done)
        log = processes["bind"].output()
    if "Traceback" in log:
        raise Unproven(f"the binder said: {log[-2000:]}")
    return _detail(results, pods)


def _detail(results: dict[str, list[Binding]], pods: int) -> dict[str, Any]:
    per_s = {side: median(each.per_s for each in done) for side, done in results.items()}
    ratios = [
        ours.per_s / bare.per_s
        for ours, bare in zip(results["binder"], results["bare"], strict=True)
    ]
    cpu_us = {
        f"{side}_cpu_us_per_binding": {
            process: round(1e6 * sum(each.cpu_s[process] for each in done) / pods / len(done))
            for process in done[0].cpu_s
        }
        for side, done in results.items()
    }
    return {
        "per_s": round(per_s["binder"], 1),
        "bare_client_per_s": round(per_s["bare"], 1),
        "share_of_bare_client": round(median(ratios), 3),
        "shares": [round(each, 2) for each in ratios],
        "rounds": len(ratios),
        "bindings_per_round": pods,
        "at_once": IN_FLIGHT_MAX,
        **cpu_us,
    }


def _by_binder(
    place: Rig, plane: ControlPlane, binder: Loadstream, decisions: Sequence[PlacementDecision]
) -> Binding:
    """Decisions in, outcomes out."""
    records = encoded("placement-decisions", decisions)
    partition = partition_for(messages.CLUSTER.encode(), place.settings.partitions)
    place.sender.send(_tick(partition))
    pids = {"bind": binder.pid, "kafka": place.broker_pid, **_servers(plane)}
    outcomes: dict[str, str] = {}
    last_s = 0.0
    with Receiver(place.settings, ["command-outcomes"], fetch_wait_ms=FETCH_WAIT_MS) as receiver:
        before, bench_s, began = cpu_s(pids), time.process_time(), time.monotonic()
        place.sender.send(records)
        while len(outcomes) < len(records):
            for arrival in receiver.arrivals(0.2):
                found = orjson.loads(arrival.value)
                if found["command_id"] in outcomes:
                    raise Unproven(f"{found['command_id']} has two outcomes")
                outcomes[found["command_id"]] = found["result"]
                last_s = arrival.at_s
            if time.monotonic() > began + PATIENCE_S:
                raise Unproven(f"{len(outcomes)} of {len(records)} came; {binder.output()[-500:]}")
            binder.check()
        after, bench_s = cpu_s(pids), time.process_time() - bench_s
    if any(result != "done" for result in outcomes.values()):
        raise Unproven(f"outcomes are {set(outcomes.values())}")
    took = {name: after[name] - before[name] for name in pids}
    return Binding(len(records) / (last_s - began), {**took, "bench": bench_s})


def _bare(place: Rig, plane: ControlPlane, decisions: Sequence[PlacementDecision]) -> Binding:
    """The same requests, sent by this process."""
    pids = {"kafka": place.broker_pid, **_servers(plane)}
    before, bench_s = cpu_s(pids), time.process_time()
    took_s = event_loop.run(_send(plane, decisions))
    after, bench_s = cpu_s(pids), time.process_time() - bench_s
    took = {name: after[name] - before[name] for name in pids}
    return Binding(len(decisions) / took_s, {**took, "bench": bench_s})


async def _send(plane: ControlPlane, decisions: Sequence[PlacementDecision]) -> float:
    async with plane.api("loadstream-bind") as server:

        async def bind(decision: PlacementDecision) -> None:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{decision.pod.name}/binding"
            answer = await server.send("POST", path, body=_body(decision))
            if not answer.ok:
                raise answer.error()

        began = time.monotonic()
        await each_of(decisions, IN_FLIGHT_MAX, bind)
        return time.monotonic() - began


def _body(decision: PlacementDecision) -> dict[str, Any]:
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


async def _decisions(plane: ControlPlane, name: str, count: int) -> list[PlacementDecision]:
    """Pods of that name, and a decision for each."""
    async with plane.api() as server:
        made = await create_pods(server, NAMESPACE, (pod(f"{name}-{n}") for n in range(count)))
    return [_decision(each["metadata"], number) for number, each in enumerate(made)]


def _decision(metadata: dict[str, Any], number: int) -> PlacementDecision:
    return PlacementDecision.model_validate(
        {
            "cluster": messages.CLUSTER,
            "decision_id": f"decision-of-{metadata['name']}",
            "pod": PodRef(namespace=NAMESPACE, name=metadata["name"], uid=metadata["uid"]),
            "outcome": "placed",
            "node": messages.node_name(number % NODES),
            "decided_at_ms": messages.now_ms(),
            "nodes": NODES,
            "winner": _score(number % NODES),
            "runners_up": tuple(_score((number + n) % NODES) for n in (1, 2)),
            "as_of": {"partition": 0, "offsets": {"clock": number}, "policy_digest": "default"},
        }
    )


def _score(node: int) -> dict[str, Any]:
    term = {"plugin": "LoadAwareScheduling", "score": 70, "weight": 1}
    return {"node": messages.node_name(node), "total": 70, "terms": (term,)}


async def _check(plane: ControlPlane, decisions: Sequence[PlacementDecision]) -> None:
    """Every pod is on the node of its decision, by that decision."""
    wanted = {each.pod.uid: (each.node, each.decision_id) for each in decisions}
    async with plane.api() as server:
        found = await _found(server)
    wrong = [uid for uid, where in wanted.items() if found.get(uid) != where]
    if wrong:
        raise Unproven(f"{len(wrong)} of {len(wanted)} pods are not where they were decided to be")


async def _found(server: ApiServer) -> dict[str, tuple[str | None, str | None]]:
    return {
        each["metadata"]["uid"]: (
            each["spec"].get("nodeName"),
            (each["metadata"].get("annotations") or {}).get(DECISION_ANNOTATION),
        )
        async for page in server.pages(f"/api/v1/namespaces/{NAMESPACE}/pods", _LIST_PAGE)
        for each in page["items"]
    }


def _tick(partition: int) -> list[Encoded]:
    return encoded("clock", [ClockTick(partition=partition, now_ms=messages.now_ms())])


def _servers(plane: ControlPlane) -> dict[str, int | None]:
    return {"api_server": plane.api_server.pid, "etcd": plane.etcd.pid}


BENCHMARKS = {"bindings_per_s": partial(bindings, "bindings_per_s")}
"""All figures of this module, by name."""
