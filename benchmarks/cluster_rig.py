"""A real control plane beside the broker, and loadstream's duties between the two.

kwok and the controllers run while nodes are made ready, and are stopped before anything is measured:
in a cluster they have cores of their own. etcd does not wait for its disk. The audit log is on, as
in every control plane that is started here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from benchmarks import messages
from benchmarks.figures import Unproven
from benchmarks.rig import PATIENCE_S, Rig, usage
from connectors.kubernetes.api.server import ApiServer
from connectors.process import event_loop
from simulation.control_plane.build import build
from simulation.control_plane.cluster import create_namespace, create_nodes, node
from simulation.control_plane.server import ControlPlane
from simulation.processes import Loadstream, make_duty, make_environment

NAMESPACE = "bench"
#: A real broker answers at the first record, so a short wait would only cost it.
FETCH_WAIT_MS = 500
_MODULE = Path(__file__).parents[1] / "tests/control_plane"
_LOOK_S = 0.25
_STOP_S = 20.0

T = TypeVar("T")


@contextmanager
def control_plane(nodes: int) -> Iterator[ControlPlane]:
    """etcd and an API server with this number of nodes that pods can be placed on.

    Raises ControlPlaneUnavailable where Go is missing.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="loadstream-")))
        plane = stack.enter_context(ControlPlane(build(_MODULE), directory))
        event_loop.run(_make_nodes(plane, nodes))
        plane.kwok.stop()
        plane.controllers.stop()
        yield plane


@contextmanager
def duties(
    place: Rig, plane: ControlPlane, directory: Path, names: Iterable[str]
) -> Iterator[dict[str, Loadstream]]:
    """These duties, a process each, as a user would start them."""
    settings = make_environment(place.settings)
    processes = {
        name: make_duty(
            directory, name, messages.CLUSTER, plane.kubeconfig(f"loadstream-{name}"), settings
        )
        for name in names
    }
    with running(processes):
        yield processes


@contextmanager
def running(processes: dict[str, Loadstream]) -> Iterator[None]:
    """Start them all, and end them afterwards."""
    try:
        for each in processes.values():
            each.start()
        yield
    finally:
        for each in processes.values():
            each.ask_to_stop()
        for each in processes.values():
            each.wait_for_end(_STOP_S)


def cpu_s(pids: dict[str, int | None]) -> dict[str, float]:
    """CPU time that each process has used so far; raises Unproven if one is gone."""
    gone = [name for name, pid in pids.items() if pid is None]
    if gone:
        raise Unproven(f"{', '.join(gone)} ended by itself")
    return {name: usage(pid).cpu_s for name, pid in pids.items() if pid is not None}


async def each_of(items: Iterable[T], at_once: int, work: Callable[[T], Awaitable[Any]]) -> None:
    """Work on all items in their order, at most this number at once."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(worker())


async def _make_nodes(plane: ControlPlane, nodes: int) -> None:
    async with plane.api() as server:
        await create_namespace(server, NAMESPACE)
        await create_nodes(server, (node(messages.node_name(n)) for n in range(nodes)))
        async with asyncio.timeout(PATIENCE_S):
            while not await _all_ready(server):
                await asyncio.sleep(_LOOK_S)


async def _all_ready(server: ApiServer) -> bool:
    """No node has a taint; every new one has, until it is ready."""
    async for page in server.pages("/api/v1/nodes", 500):
        if any(each["spec"].get("taints") for each in page["items"]):
            return False
    return True
