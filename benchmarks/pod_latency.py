"""How long a pod waits for its node when pods are created at an even pace.

    created ──▶ API server ──▶ watch ──▶ scheduling-requests ──▶ worker
    bound   ◀── API server ◀── bind  ◀── placement-decisions ◀───┘

Measured from sending the request that creates the pod to the event by which a watch of the bench's
own shows it bound: three processes and two trips through the broker. A request that is sent late
counts from when it was due. `detail` says how far the pod had come when its request and its
decision were on their topics, and what CPU each process took. No kubelet reports anything here:
see `cluster_rig`.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import numpy as np
import orjson

from benchmarks import messages
from benchmarks.cluster_rig import FETCH_WAIT_MS, NAMESPACE, control_plane, cpu_s, duties
from benchmarks.figures import Figure, Unproven
from benchmarks.rig import PATIENCE_S, Receiver, encoded, rig
from connectors.kubernetes.api.list_watch import Changed, ListWatch
from connectors.kubernetes.api.server import ApiServer
from connectors.process import event_loop
from simulation.control_plane.cluster import create_pods, pod
from simulation.control_plane.server import ControlPlane

NODES = 1_000
PER_S = 100
_SECONDS = 30
#: Pods of the first seconds are not counted: connections and rankings are made then.
_WARMUP_S = 10
_WARMUP_PODS = 20
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_STEPS = ("scheduling-requests", "placement-decisions")

#: When something was seen of a pod, by its name; the monotonic clock, in seconds.
Times = dict[str, float]


def latency(name: str, percentile: int) -> Figure:
    """One percentile of the time from creation to binding; all percentiles are of one run."""
    measured = run(NODES, PER_S, _SECONDS)
    return Figure(name, measured[f"p{percentile}_ms"], "ms", measured)


@cache
def run(nodes: int, per_s: int, seconds: int) -> dict[str, Any]:
    """Create pods for so long, and wait until all are bound."""
    with (
        rig("kafka") as place,
        control_plane(nodes) as plane,
        TemporaryDirectory(prefix="loadstream-") as directory,
        place.worker("cluster") as worker,
        duties(place, plane, Path(directory), ["watch", "bind"]) as processes,
    ):
        place.sender.send(encoded("node-metrics", messages.node_metrics(nodes)))
        pids = {
            "watch": processes["watch"].pid,
            "worker": worker.pid,
            "bind": processes["bind"].pid,
            "kafka": place.broker_pid,
            "api_server": plane.api_server.pid,
            "etcd": plane.etcd.pid,
        }
        steps: dict[str, Times] = {topic: {} for topic in _STEPS}
        with (
            Receiver(place.settings, _STEPS, fetch_wait_ms=FETCH_WAIT_MS) as receiver,
            _Reading(receiver, steps),
        ):
            due, bound, shares = event_loop.run(_paced(plane, per_s, seconds, partial(cpu_s, pids)))
            _until_read(due, steps)
        for each in processes.values():
            each.check()
    warm = {f"paced-{n}" for n in range(per_s * _WARMUP_S)} if seconds > _WARMUP_S else set()
    return {
        "pods_per_s": per_s,
        "seconds": seconds,
        "nodes": nodes,
        **_percentiles(due, bound, warm, (50, 90, 99, 100)),
        **{
            f"{topic.replace('-', '_')}_p{p}_ms": value
            for topic in _STEPS
            for p, value in zip((50, 99), _waited(due, steps[topic], warm, (50, 99)), strict=True)
        },
        "cpu_cores": shares,
    }


def _percentiles(
    due: Times, seen: Times, warm: set[str], which: tuple[int, ...]
) -> dict[str, float]:
    values = _waited(due, seen, warm, which)
    return {f"p{p}_ms": value for p, value in zip(which, values, strict=True)}


def _waited(due: Times, seen: Times, warm: set[str], which: tuple[int, ...]) -> list[float]:
    waited = [1_000 * (seen[name] - at_s) for name, at_s in due.items() if name not in warm]
    return [round(float(value), 2) for value in np.percentile(waited, which)]


class _Reading(Thread):
    """Notes when records about pods come, beside the loop."""

    def __init__(self, receiver: Receiver, steps: Mapping[str, Times]) -> None:
        super().__init__(daemon=True)
        self._receiver = receiver
        self._steps = steps
        self._ended = Event()

    def run(self) -> None:
        """Until it is left."""
        while not self._ended.is_set():
            for each in self._receiver.arrivals(0.1):
                name = orjson.loads(each.value)["pod"]["name"]
                self._steps[each.topic].setdefault(name, each.at_s)

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def _until_read(due: Times, steps: Mapping[str, Times]) -> None:
    """A pod may be seen bound before the records about it are read here."""
    deadline_s = time.monotonic() + PATIENCE_S
    while missing := [topic for topic in steps if any(name not in steps[topic] for name in due)]:
        if time.monotonic() > deadline_s:
            raise Unproven(f"of {', '.join(missing)} not all records came")
        time.sleep(0.05)


async def _paced(
    plane: ControlPlane, per_s: int, seconds: int, used: Callable[[], dict[str, float]]
) -> tuple[Times, Times, dict[str, float]]:
    """When each pod was due, when it was seen bound, and the cores that each process took."""
    due: Times = {}
    bound: Times = {}
    async with plane.api() as server:
        watching = asyncio.create_task(_watch(server, bound))
        try:
            await create_pods(server, NAMESPACE, (pod(f"warm-{n}") for n in range(_WARMUP_PODS)))
            await _until_bound(_WARMUP_PODS, bound, watching)
            bound.clear()
            before, bench_s, began_s = used(), time.process_time(), time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                for number in range(per_s * seconds):
                    name, at_s = f"paced-{number}", began_s + number / per_s
                    await asyncio.sleep(max(0.0, at_s - time.monotonic()))
                    due[name] = at_s
                    tasks.create_task(_create(server, name))
            await _until_bound(len(due), bound, watching)
            took_s = time.monotonic() - began_s
            after, bench_s = used(), time.process_time() - bench_s
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
    shares = {name: round((after[name] - before[name]) / took_s, 3) for name in before}
    return due, bound, {**shares, "bench": round(bench_s / took_s, 3)}


async def _create(server: ApiServer, name: str) -> None:
    answer = await server.send("POST", _PODS, body=pod(name))
    if not answer.ok:
        raise answer.error()


async def _watch(server: ApiServer, bound: Times) -> None:
    """Note when each pod is seen with a node for the first time."""
    async with aclosing(ListWatch(server, _PODS).events()) as events:
        async for event in events:
            if isinstance(event, Changed) and event.object["spec"].get("nodeName"):
                bound.setdefault(event.object["metadata"]["name"], time.monotonic())


async def _until_bound(count: int, bound: Times, watching: asyncio.Task[None]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while len(bound) < count:
        if watching.done():
            await watching
            raise Unproven("the watch has ended")
        if time.monotonic() > deadline_s:
            raise Unproven(f"{len(bound)} of {count} pods were bound in time")
        await asyncio.sleep(0.05)


BENCHMARKS = {
    f"pod_bound_latency_p{percentile}_ms": partial(
        latency, f"pod_bound_latency_p{percentile}_ms", percentile
    )
    for percentile in (50, 99)
}
"""All figures of this module, by name."""
