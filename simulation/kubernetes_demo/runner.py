"""Runs the demo: a control plane, a broker and the processes of loadstream, then the steps.

All processes run on this machine and end with the demo. Logs, the audit log and the summary stay in the
output directory; other files in this directory are not changed.
"""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka.client import connect
from connectors.kafka.produce import produce_messages
from connectors.process.wall_clock import now_ms
from schemas.messages.policies import PolicyRecord
from schemas.settings.connection import KafkaSettings
from simulation.control_plane import audit
from simulation.control_plane.server import ControlPlane
from simulation.kubernetes_demo.steps import (
    READ_TOPICS,
    DemoRun,
    Observations,
    Size,
    Snapshot,
    TopicClient,
)
from simulation.kubernetes_demo.summary import Summary, summarize
from simulation.processes import (
    LoadstreamProcess,
    make_duty,
    make_environment,
    make_worker,
    run_processes,
)

CLUSTER = "kwok"
DUTIES = ("watch", "collect", "bind", "evict")
#: Interval between two measurements of a kubelet.
_INTERVAL = "5s"


def write_sources(path: Path, plane: ControlPlane) -> Path:
    """Write the file of usage sources, with the address of kwok instead of kubelets."""
    url = f"{plane.kwok_url}/metrics/nodes/{{node}}/metrics/resource"
    path.write_text(
        f"sources:\n  - source: kubelet_resource\n    interval: {_INTERVAL}\n    url: {url!r}\n",
        encoding="utf-8",
    )
    return path


def make_policy_record() -> PolicyRecord:
    """Return the record of the demo's policy."""
    document = (Path(__file__).parent / "policy.yaml").read_text(encoding="utf-8")
    return PolicyRecord(
        cluster=CLUSTER,
        document=document,
        applied_at_ms=now_ms(),
        reason="the demo's policy",
    )


def make_processes(
    directory: Path, plane: ControlPlane, kafka: KafkaSettings
) -> list[LoadstreamProcess]:
    """Return a worker and all duties for a control plane, not started yet."""
    settings = make_environment(kafka)
    sources = write_sources(directory / "sources.yaml", plane)
    options = {"collect": ("--sources", str(sources))}
    return [
        make_worker(directory, settings),
        *(
            make_duty(
                directory,
                name,
                CLUSTER,
                plane.kubeconfig(f"loadstream-{name}"),
                settings,
                options.get(name, ()),
            )
            for name in DUTIES
        ),
    ]


def run(
    binary: Path, directory: Path, size: Size, show: Callable[[Snapshot, Observations], None]
) -> Summary:
    """Run the demo on the embedded broker; write logs and the audit log to `directory`.

    Raises ControlPlaneUnavailable, ProcessDied, BrokerUnavailable and OSError.
    """
    store = directory / "control-plane"
    shutil.rmtree(store, ignore_errors=True)  # the objects of the last run
    for name in ("worker", *DUTIES):
        (directory / name / "log").unlink(missing_ok=True)
    store.mkdir(parents=True)
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(binary, store))
        broker = stack.enter_context(EmbeddedBroker())
        parts = make_processes(directory, plane, broker.settings)
        processes = stack.enter_context(run_processes(parts))
        connection = connect(broker.settings)
        client = stack.enter_context(TopicClient(connection, READ_TOPICS))
        produce_messages(connection, "policies", [make_policy_record()])
        return asyncio.run(run_steps(plane, client, processes, size, show))


async def run_steps(
    plane: ControlPlane,
    client: TopicClient,
    processes: Sequence[LoadstreamProcess],
    size: Size,
    show: Callable[[Snapshot, Observations], None],
) -> Summary:
    """Run all steps on started processes; return the summary."""
    async with plane.api() as server:
        demo_run = DemoRun(server, client, processes, size, show)
        await demo_run.run()
        return summarize(demo_run, audit.read_audit_log(plane.audit_log))
