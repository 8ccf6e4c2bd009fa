"""Time from the creation of a pod to its binding, at a constant rate of pods.

    created ──▶ API server ──▶ watch ──▶ scheduling-requests ──▶ worker
    bound   ◀── API server ◀── bind  ◀── placement-decisions ◀───┘

The time is from the create request to the event that shows the bound pod, in a watch of the benchmark. It
includes three processes and two trips through the broker. If the benchmark sends a request late, the time
starts when the request was due. `detail` also has the times until request and decision were in their
topics, and the CPU of each process. No kubelet runs: see `cluster_rig`.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import numpy as np
import orjson

from benchmarks import messages
from benchmarks.cluster_rig import FETCH_WAIT_MS, NAMESPACE, CpuMeter, run_duties, start_plane
from benchmarks.figures import CheckFailed, Figure
from benchmarks.rig import TIMEOUT_S, Receiver, start_rig, to_records
from connectors.kubernetes.api.list_watch import Changed, ListWatch
from connectors.kubernetes.api.server import ApiServer
from connectors.process import event_loop
from simulation.control_plane.cluster import create_pods, make_pod
from simulation.control_plane.server import ControlPlane

NODES = 1_000
PER_S = 100
_SECONDS = 30
#: Pods of the first seconds are not counted, because connections and rankings are new.
_WARMUP_S = 10
_WARMUP_PODS = 20
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_STEPS = ("scheduling-requests", "placement-decisions")

#: Times of events in seconds of the monotonic clock, by name of the pod.
Times = dict[str, float]


def measure_latency(percentile: int) -> Figure:
    """Return a percentile of the time from creation to binding. All percentiles share one run."""
    measured = run(NODES, PER_S, _SECONDS)
    return Figure(measured[f"p{percentile}_ms"], "ms", measured)


@cache
def run(nodes: int, per_s: int, seconds: int) -> dict[str, Any]:
    """Create pods for `seconds`, and wait until all are bound."""
    with (
        start_rig("kafka") as rig,
        start_plane(nodes) as plane,
        TemporaryDirectory(prefix="loadstream-") as directory,
        rig.run_worker("cluster") as worker,
        run_duties(rig, plane, Path(directory), ["watch", "bind"]) as processes,
    ):
        rig.sender.send(to_records("node-metrics", messages.make_node_metrics(nodes)))
        pids = {
            "watch": processes["watch"].pid,
            "worker": worker.pid,
            "bind": processes["bind"].pid,
            "kafka": rig.broker_pid,
            "api_server": plane.api_server.pid,
            "etcd": plane.etcd.pid,
        }
        steps: dict[str, Times] = {topic: {} for topic in _STEPS}
        with (
            Receiver(rig.settings, _STEPS, fetch_wait_ms=FETCH_WAIT_MS) as receiver,
            _ArrivalReader(receiver, steps),
        ):
            due, bound, shares = event_loop.run(_create_all(plane, per_s, seconds, pids))
            _wait_until_read(due, steps)
        for process in processes.values():
            process.check()
    warmup_pods = {f"paced-{n}" for n in range(per_s * _WARMUP_S)} if seconds > _WARMUP_S else set()
    return {
        "pods_per_s": per_s,
        "seconds": seconds,
        "nodes": nodes,
        **_compute_percentiles(due, bound, warmup_pods, (50, 90, 99, 100)),
        **{
            f"{topic.replace('-', '_')}_{name}": value
            for topic in _STEPS
            for name, value in _compute_percentiles(
                due, steps[topic], warmup_pods, (50, 99)
            ).items()
        },
        "cpu_cores": shares,
    }


def _compute_percentiles(
    due: Times, times: Times, warmup_pods: set[str], percentiles: tuple[int, ...]
) -> dict[str, float]:
    waited = [1_000 * (times[name] - at_s) for name, at_s in due.items() if name not in warmup_pods]
    values = np.percentile(waited, percentiles).tolist()
    return {f"p{p}_ms": round(value, 2) for p, value in zip(percentiles, values, strict=True)}


class _ArrivalReader(Thread):
    """A thread that records the arrival times of records about pods."""

    def __init__(self, receiver: Receiver, steps: Mapping[str, Times]) -> None:
        super().__init__(daemon=True)
        self._receiver = receiver
        self._steps = steps
        self._stopped = Event()

    def run(self) -> None:
        """Read until the end of the context."""
        while not self._stopped.is_set():
            for arrival in self._receiver.receive(0.1):
                name = orjson.loads(arrival.value)["pod"]["name"]
                self._steps[arrival.topic].setdefault(name, arrival.at_s)

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()


def _wait_until_read(due: Times, steps: Mapping[str, Times]) -> None:
    """Wait for the records of all pods: the watch may show a bound pod earlier than the records."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while missing := [topic for topic in steps if any(name not in steps[topic] for name in due)]:
        if time.monotonic() > deadline_s:
            raise CheckFailed(f"records are missing in {', '.join(missing)}")
        time.sleep(0.05)


async def _create_all(
    plane: ControlPlane, per_s: int, seconds: int, pids: Mapping[str, int | None]
) -> tuple[Times, Times, dict[str, float]]:
    """Create the pods; return due times, binding times, and cores of each process."""
    due: Times = {}
    bound: Times = {}
    async with plane.api() as server:
        watching = asyncio.create_task(_watch(server, bound))
        try:
            await create_pods(
                server, NAMESPACE, (make_pod(f"warm-{n}") for n in range(_WARMUP_PODS))
            )
            await _wait_until_bound(_WARMUP_PODS, bound, watching)
            bound.clear()
            meter, began_s = CpuMeter(pids), time.monotonic()
            async with asyncio.TaskGroup() as tasks:
                for number in range(per_s * seconds):
                    name, at_s = f"paced-{number}", began_s + number / per_s
                    await asyncio.sleep(max(0.0, at_s - time.monotonic()))
                    due[name] = at_s
                    tasks.create_task(create_pods(server, NAMESPACE, [make_pod(name)]))
            await _wait_until_bound(len(due), bound, watching)
            took_s = time.monotonic() - began_s
            cpu_s = meter.read()
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
    return due, bound, {name: round(used_s / took_s, 3) for name, used_s in cpu_s.items()}


async def _watch(server: ApiServer, bound: Times) -> None:
    """Record when each pod first has a node."""
    async with aclosing(ListWatch(server, _PODS).events()) as events:
        async for event in events:
            if isinstance(event, Changed) and event.object["spec"].get("nodeName"):
                bound.setdefault(event.object["metadata"]["name"], time.monotonic())


async def _wait_until_bound(count: int, bound: Times, watching: asyncio.Task[None]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(bound) < count:
        if watching.done():
            await watching
            raise CheckFailed("the watch has ended")
        if time.monotonic() > deadline_s:
            raise CheckFailed(f"only {len(bound)} of {count} pods were bound in {TIMEOUT_S} s")
        await asyncio.sleep(0.05)


BENCHMARKS = {
    f"pod_bound_latency_p{percentile}_ms": partial(measure_latency, percentile)
    for percentile in (50, 99)
}
"""All figures of this module, by name."""
