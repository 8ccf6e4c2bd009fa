"""The command `loadstream agent`: measures this node until it is stopped.

Exit codes: 0 SIGTERM; 130 Ctrl-C; 1 the node cannot be measured, no broker is configured, or the metrics
port is in use; 2 an option is wrong. While the broker is unavailable, samples wait and standard error
says so.
"""

import socket
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import (
    ClusterOption,
    MetricsHost,
    MetricsPort,
    check_metrics,
    check_node_name,
)
from loadstream.cli.command import as_messages, command

if TYPE_CHECKING:
    from connectors.agent.source import AgentSource

#: Seconds between two messages about the same subject.
_COMPLAIN_EVERY_S = 60.0
#: The process is unhealthy after this many intervals, and this many seconds, without a sample.
_SILENT_INTERVALS, _SILENT_S = 5, 30.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "agent --cluster prod-eu-1 --node node-17")(agent)


NodeName = Annotated[
    str,
    typer.Option(
        default_factory=socket.gethostname,
        callback=check_node_name,
        show_default="this host's name",
        help="Name of the node, as the cluster has it.",
    ),
]
Interval = Annotated[
    float,
    typer.Option(min=1, max=10, help="Seconds between two samples."),
]
Proc = Annotated[Path, typer.Option(help="Directory /proc of the node.")]
Cgroups = Annotated[Path, typer.Option(help="Directory of the node's cgroups.")]
PodLogs = Annotated[
    Path,
    typer.Option(help="Directory of the kubelet's pod logs; its subdirectories name the pods."),
]
Once = Annotated[
    bool,
    typer.Option(
        "--once", help="Print one sample as JSON after one interval; no broker is needed."
    ),
]


def agent(
    cluster: ClusterOption,
    node: NodeName,
    interval: Interval = 10.0,
    proc: Proc = Path("/proc"),
    cgroup: Cgroups = Path("/sys/fs/cgroup"),
    pod_logs: PodLogs = Path("/var/log/pods"),
    once: Once = False,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Measure this node and send the samples to the configured broker, until Ctrl-C.

    Reads the usage of the node and its pods from /proc and the pods' cgroups. No API server
    is needed. While the broker is unavailable, up to 600 samples wait; then the oldest are dropped.
    """
    from connectors.agent.source import AgentSource, NodePaths

    check_metrics(metrics_host, metrics_port)
    if once and metrics_port:
        raise typer.BadParameter("it has no effect with --once", param_hint="--metrics-port")
    with as_messages():
        try:
            source = AgentSource(cluster, node, NodePaths(proc, cgroup, pod_logs))
            if once:
                time.sleep(interval)
                print_json(source.sample().payload())
                if source.files.last_failure:
                    echo(f"files: {source.files.last_failure}", err=True)
                return
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            echo(f"error: this node cannot be measured: {where}{error.strerror}", err=True)
            raise typer.Exit(1) from None
        _run(source, interval, metrics_host, metrics_port)


def _run(source: "AgentSource", interval_s: float, host: str, port: int) -> None:
    from connectors.agent.delivery import Delivery
    from connectors.agent.telemetry import AgentTelemetry
    from connectors.process.metrics_endpoint import serve_while_open
    from connectors.process.signals import terminable
    from schemas.settings.connection import KafkaSettings

    kafka = KafkaSettings.from_environment()
    kafka.servers()  # raises if no broker is configured
    telemetry, complaints = AgentTelemetry(), Complaints()
    delivery = Delivery(
        kafka,
        lambda sampled_at_ms: telemetry.success.set(sampled_at_ms / 1000),
        lambda text: complaints.report("broker", text),
    )
    measured_s = time.monotonic()

    def find_problems() -> list[str]:
        silent_s = time.monotonic() - measured_s
        allowed_s = max(_SILENT_S, _SILENT_INTERVALS * interval_s)
        if silent_s <= allowed_s:
            return []
        return [f"nothing was measured for {silent_s:.0f} s; at most {allowed_s:.0f} s are allowed"]

    with (
        terminable(),
        serve_while_open(host, port, telemetry.registry, find_problems),
        closing(delivery),
    ):
        delivery.start()
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + interval_s, time.monotonic())
            time.sleep(max(0.0, due_s - time.monotonic()))
            try:
                sample = source.sample()
            except OSError as error:
                telemetry.failed.inc()
                complaints.report("node", str(error.strerror))
            else:
                measured_s = time.monotonic()
                dropped = delivery.put(sample)
                if dropped:
                    complaints.report("backlog", f"samples are dropped; {delivery.backlog} wait")
                telemetry.samples.inc()
                telemetry.dropped.inc(dropped)
                telemetry.pods.set(len(sample.pods))
                telemetry.unnamed.set(source.unnamed)
            telemetry.backlog.set(delivery.backlog)
            for purpose, failures in source.files.failures.items():
                telemetry.read_errors.labels(purpose).inc(failures)
            source.files.failures.clear()
            if source.files.last_failure:
                complaints.report("files", source.files.last_failure)
                source.files.last_failure = ""


class Complaints:
    """Reports failures on standard error, once a minute per subject."""

    def __init__(self) -> None:
        self._reported_s: dict[str, float] = {}

    def report(self, subject: str, text: str) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s.get(subject, -_COMPLAIN_EVERY_S) >= _COMPLAIN_EVERY_S:
            self._reported_s[subject] = now_s
            echo(f"{subject}: {text}", err=True)
