"""The whole path on a real control plane and a real Kafka, with every fault once.

200 nodes are scraped, 1,000 pods are placed and bound, and ten hot nodes are relieved. Meanwhile every process
is killed, the API server is down for 20 s and loses its versions, and the broker restarts. The test checks
the audit log of the API server.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.produce import produce_messages
from connectors.kafka.topics import expected_topics
from connectors.kubernetes.api.server import ApiServer
from simulation.control_plane.audit import find_duplicates, read_audit_log
from simulation.control_plane.server import ControlPlane
from simulation.kubernetes_demo import cluster
from simulation.kubernetes_demo.runner import make_policy_record, make_processes
from simulation.kubernetes_demo.steps import (
    READ_TOPICS,
    DemoRun,
    Observations,
    Size,
    Snapshot,
    TopicClient,
)
from simulation.kubernetes_demo.summary import summarize
from simulation.processes import LoadstreamProcess, run_processes
from tests import conftest

AWAY_S = 20.0
#: Longest wait until all pods have a node after the last fault.
SETTLED_S = 180.0
#: The faults of the run.
Act = Callable[[], Coroutine[Any, Any, None]]
SIZE = Size(nodes=200, pods=1_000, step_s=300.0)


@dataclass
class Fault:
    """A fault that happens once, as soon as the snapshot meets its condition."""

    name: str
    due: Callable[[Snapshot, Observations], bool]
    do: Act
    done: bool = False


def kill(process: LoadstreamProcess, active: str = "this process is active") -> Act:
    """Kill the process with SIGKILL, restart it, and wait until it works again.

    A process that starts without a broker exits, and Kubernetes would restart it; this test has no
    supervisor.
    """

    async def fault() -> None:
        process.kill()
        await asyncio.sleep(1)
        process.start()
        async with asyncio.timeout(SIZE.step_s):
            while active not in process.output():
                process.check()
                await asyncio.sleep(0.5)

    return fault


def api_server_away(plane: ControlPlane) -> Act:
    """Stop the API server for 20 s; watches then continue from unknown versions."""

    async def fault() -> None:
        await asyncio.to_thread(plane.compact)
        await asyncio.to_thread(plane.api_server.stop)
        await asyncio.sleep(AWAY_S)
        await asyncio.to_thread(plane.api_server.start)

    return fault


def broker_again(kafka: KafkaServer) -> Act:
    """Kill and restart the broker."""

    async def fault() -> None:
        await asyncio.to_thread(kafka.members[0].kill)
        await asyncio.to_thread(kafka.start_broker)

    return fault


def bound(count: int) -> Callable[[Snapshot, Observations], bool]:
    return lambda snapshot, observed: snapshot.bound_pods >= count


def evicted(count: int) -> Callable[[Snapshot, Observations], bool]:
    return lambda snapshot, observed: observed.outcomes["evict", "done"] >= count


class Faults:
    """Causes one fault after the other during the run."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        self._under_way: asyncio.Task[None] | None = None

    def snapshot(self, snapshot: Snapshot, observed: Observations) -> None:
        """Cause the next fault that is due, when the previous fault is over."""
        print(
            f"{snapshot.at_s:5.0f} s {snapshot.step}: {len(observed.cpu)} measured, {snapshot.bound_pods} of "
            f"{len(snapshot.pods)} bound, {len(snapshot.hot_nodes)} hot, {dict(observed.outcomes)}"
        )
        if self._under_way is not None:
            if not self._under_way.done():
                return
            self._under_way.result()
            self._under_way = None
        pending = [fault for fault in self.faults if not fault.done]
        if pending and pending[0].due(snapshot, observed):
            pending[0].done = True
            print(f"{time.strftime('%X')} fault: {pending[0].name}")
            self._under_way = asyncio.create_task(pending[0].do())

    async def over(self) -> None:
        """Wait for the last fault, then cause the remaining ones."""
        if self._under_way is not None:
            await self._under_way
        for fault in self.faults:
            if not fault.done:
                fault.done = True
                print(f"{time.strftime('%X')} fault, after the demo: {fault.name}")
                await fault.do()


async def _wait_for_pods(server: ApiServer) -> list[cluster.DemoPod]:
    """Wait until all pods have a node; return the pods, also after a timeout, since the rounds continue
    and may just have evicted a pod.
    """
    deadline_s = time.monotonic() + SETTLED_S
    while True:
        pods = await cluster.list_pods(server)
        whole = len(pods) == SIZE.pods and all(pod.node for pod in pods)
        if whole or time.monotonic() > deadline_s:
            return pods
        await asyncio.sleep(1)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.control_plane
@pytest.mark.timeout(1_200)
async def test_nothing_is_lost_bound_or_evicted_twice_under_faults(
    control_plane_binary: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        plane = ControlPlane(control_plane_binary, tmp_path / "plane")
        await asyncio.to_thread(plane.start)
        stack.callback(plane.stop)
        kafka = stack.enter_context(conftest.running(KafkaServer(tmp_path / "kafka")))
        connection = connect(kafka.settings)
        create_topics(connection, expected_topics(kafka.settings))
        processes = stack.enter_context(
            run_processes(make_processes(tmp_path, plane, kafka.settings))
        )
        worker, watch, collect, bind, evict = processes
        client = stack.enter_context(TopicClient(connection, READ_TOPICS))
        produce_messages(connection, "policies", [make_policy_record()])
        faults = Faults(
            [
                Fault("binder killed", bound(100), kill(bind)),
                Fault("watch killed", bound(250), kill(watch)),
                Fault("worker killed", bound(400), kill(worker, "stage cluster owns")),
                Fault("API server away", bound(550), api_server_away(plane)),
                Fault("collector killed", bound(SIZE.pods), kill(collect)),
                Fault("evictor killed", evicted(1), kill(evict)),
                Fault("broker started again", evicted(2), broker_again(kafka)),
            ]
        )
        async with plane.api() as server:
            demo_run = DemoRun(server, client, processes, SIZE, faults.snapshot)
            await demo_run.run()
            await faults.over()
            pods = await _wait_for_pods(server)
        log = read_audit_log(plane.audit_log)
    summed = summarize(demo_run, log)
    print("\n".join([*summed.lines, *summed.problems]))
    assert [fault.name for fault in faults.faults if not fault.done] == []
    assert summed.problems == ()
    assert find_duplicates(log.pods) == []
    assert (len(pods), [pod.name for pod in pods if not pod.node]) == (SIZE.pods, [])
    assert demo_run.protected <= {pod.uid for pod in pods}
    assert demo_run.observed.outcomes["evict", "done"] >= 2
