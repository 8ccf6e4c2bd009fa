"""Runs the demo: a control plane, a broker and loadstream's processes, then the story.

Everything runs on this machine and ends with it; what is left is in the directory of the output:
logs, the audit log and the summary. What else the directory has stays.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from connectors.brokers.embedded import EmbeddedBroker
from schemas.messages.policies import PolicyRecord
from schemas.settings.connection import KafkaSettings
from simulation.control_plane import audit
from simulation.control_plane.server import ControlPlane
from simulation.kubernetes_demo.story import READ_TOPICS, Look, Observed, Size, Story
from simulation.kubernetes_demo.summary import Summary, summary
from simulation.kubernetes_demo.wire import Wire
from simulation.processes import Loadstream, duty, environment, running, worker

CLUSTER = "kwok"
DUTIES = ("watch", "collect", "bind", "evict")
#: How often kubelets are asked, as the sources' file says.
_INTERVAL = "5s"


def write_sources(path: Path, plane: ControlPlane) -> Path:
    """The file that tells `collect` where kwok plays the kubelets."""
    url = f"{plane.kwok_url}/metrics/nodes/{{node}}/metrics/resource"
    path.write_text(
        f"sources:\n  - source: kubelet_resource\n    interval: {_INTERVAL}\n    url: {url!r}\n",
        encoding="utf-8",
    )
    return path


def policy(cluster: str = CLUSTER, name: str = "policy") -> PolicyRecord:
    """One of the two policies of the demo, as an operator would apply it."""
    document = (Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8")
    return PolicyRecord(
        cluster=cluster,
        document=document,
        applied_at_ms=time.time_ns() // 1_000_000,
        reason="the demo's policy",
    )


def everything(directory: Path, plane: ControlPlane, kafka: KafkaSettings) -> list[Loadstream]:
    """A worker and all duties around a control plane; they are not started yet."""
    settings = environment(kafka)
    sources = write_sources(directory / "sources.yaml", plane)
    more = {"collect": ("--sources", str(sources))}
    return [
        worker(directory, settings),
        *(
            duty(
                directory,
                name,
                CLUSTER,
                plane.kubeconfig(f"loadstream-{name}"),
                settings,
                more.get(name, ()),
            )
            for name in DUTIES
        ),
    ]


def run(
    binary: Path, directory: Path, size: Size, show: Callable[[Look, Observed], None]
) -> Summary:
    """The whole demo on the embedded broker; `directory` gets logs and the audit log.

    Raises ControlPlaneUnavailable, ProcessDied, BrokerUnavailable, OSError.
    """
    store = directory / "control-plane"
    shutil.rmtree(store, ignore_errors=True)  # a store has the objects of the run before
    for name in ("worker", *DUTIES):
        (directory / name / "log").unlink(missing_ok=True)
    store.mkdir(parents=True)
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(binary, store))
        broker = stack.enter_context(EmbeddedBroker())
        parts = everything(directory, plane, broker.settings)
        processes = stack.enter_context(running(parts))
        wire = stack.enter_context(Wire(broker.settings, READ_TOPICS))
        wire.send("policies", policy())
        return asyncio.run(tell(plane, wire, processes, size, show))


async def tell(
    plane: ControlPlane,
    wire: Wire,
    processes: Sequence[Loadstream],
    size: Size,
    show: Callable[[Look, Observed], None],
) -> Summary:
    """The story on what runs, and its summary."""
    async with plane.api() as server:
        story = Story(server, wire, processes, size, show)
        await story.run()
        return summary(story, audit.read(plane.audit_log))
