"""A real control plane, and the processes of `loadstream kubernetes` between it and the broker.

kwok and the controllers make the nodes ready, and stop before the measurement, because in a real cluster
they have other cores. etcd does not wait for its disk. The audit log is on.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import messages
from benchmarks.figures import CheckFailed
from benchmarks.rig import TIMEOUT_S, Rig, read_usage
from connectors.kubernetes.api.server import ApiServer
from connectors.process import event_loop
from simulation.control_plane.build import build
from simulation.control_plane.cluster import create_namespace, create_nodes, make_node
from simulation.control_plane.server import ControlPlane
from simulation.processes import LoadstreamProcess, make_duty, make_environment, run_processes

NAMESPACE = "bench"
#: Kafka answers a fetch at the first record, so a shorter wait would only use more CPU.
FETCH_WAIT_MS = 500
_MODULE = Path(__file__).parents[1] / "tests/control_plane"
_POLL_S = 0.25


@contextmanager
def start_plane(nodes: int) -> Iterator[ControlPlane]:
    """Start etcd and an API server with ready nodes. Raises ControlPlaneUnavailable without Go."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="loadstream-")))
        plane = stack.enter_context(ControlPlane(build(_MODULE), directory))
        event_loop.run(_make_nodes(plane, nodes))
        plane.kwok.stop()
        plane.controllers.stop()
        yield plane


@contextmanager
def run_duties(
    rig: Rig, plane: ControlPlane, directory: Path, names: Iterable[str]
) -> Iterator[dict[str, LoadstreamProcess]]:
    """Run each duty as a process, with the command of a user."""
    settings = make_environment(rig.settings)
    processes = {
        name: make_duty(
            directory, name, messages.CLUSTER, plane.kubeconfig(f"loadstream-{name}"), settings
        )
        for name in names
    }
    with run_processes([*processes.values()]):
        yield processes


def read_cpu(pids: Mapping[str, int | None]) -> dict[str, float]:
    """Return the CPU time of each process since its start. Raises CheckFailed if a process has ended."""
    gone = [name for name, pid in pids.items() if pid is None]
    if gone:
        raise CheckFailed(f"{', '.join(gone)}: the process ended by itself")
    return {name: read_usage(pid).cpu_s for name, pid in pids.items() if pid is not None}


class CpuMeter:
    """Measures the CPU time of processes, and of this process as `bench`, since its creation."""

    def __init__(self, pids: Mapping[str, int | None]) -> None:
        self._pids = pids
        self._before, self._bench_s = read_cpu(pids), time.process_time()

    def read(self) -> dict[str, float]:
        """Return the CPU time of each process. Raises CheckFailed if a process has ended."""
        used = {name: cpu_s - self._before[name] for name, cpu_s in read_cpu(self._pids).items()}
        return {**used, "bench": time.process_time() - self._bench_s}


async def _make_nodes(plane: ControlPlane, nodes: int) -> None:
    async with plane.api() as server:
        await create_namespace(server, NAMESPACE)
        await create_nodes(server, (make_node(messages.node_name(n)) for n in range(nodes)))
        async with asyncio.timeout(TIMEOUT_S):
            while not await _all_ready(server):
                await asyncio.sleep(_POLL_S)


async def _all_ready(server: ApiServer) -> bool:
    """Tell whether all nodes are ready: a node has a taint until it is ready."""
    async for page in server.pages("/api/v1/nodes", 500):
        if any(item["spec"].get("taints") for item in page["items"]):
            return False
    return True
