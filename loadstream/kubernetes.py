"""The commands `loadstream kubernetes ...`: one process between a real cluster and Kafka.

Exit codes: 0 stopped; 1 no broker or API server is available at the start, or a duty failed; 2 an option
or a file is wrong. A running process waits for an unavailable broker or API server. If the same command
runs twice, one process is the standby of the other.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo
from loadstream.cli.arguments import (
    ClusterOption,
    Context,
    Kubeconfig,
    MetricsHost,
    MetricsPort,
    Sources,
    check_metrics,
    make_directory,
    read_source_file,
)
from loadstream.cli.command import as_messages, command

if TYPE_CHECKING:
    from connectors.kubernetes.duties.process import DutyFactory
    from simulation.kubernetes_demo.summary import Summary

app = typer.Typer(
    name="kubernetes",
    no_args_is_help=True,
    help="Watch, measure, bind and evict on a real cluster: one process per cluster and task.",
)


def _check_scheduler_names(names: list[str] | None) -> list[str] | None:
    if names and not all(names):
        raise typer.BadParameter("found an empty name; expected the name of a scheduler")
    return names


Schedulers = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler",
        metavar="NAME",
        callback=_check_scheduler_names,
        help="loadstream places pods with this spec.schedulerName; can be repeated.",
        show_default="loadstream",
    ),
]


Cordon = Annotated[
    bool,
    typer.Option(
        "--cordon/--no-cordon",
        help="Cordon the Kubernetes node during `loadstream node drain`.",
    ),
]

Nodes = Annotated[int, typer.Option(min=20, max=1000, help="Number of nodes.")]
Pods = Annotated[int, typer.Option(min=50, max=5000, help="Number of pods.")]
Output = Annotated[Path, typer.Option(help="Directory for logs, the audit log and the summary.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print lines instead of the live view.")]


@command(app, "kubernetes watch --cluster prod-eu-1")
def watch(
    cluster: ClusterOption,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler: Schedulers = None,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Report nodes, pods, workloads, budgets and pending pods, until Ctrl-C."""
    _run(cluster, kubeconfig, context, [_watch(scheduler)], metrics_host, metrics_port)


@command(app, "kubernetes collect --cluster prod-eu-1")
def collect(
    cluster: ClusterOption,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    sources: Sources = None,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Measure what nodes and pods use, until Ctrl-C."""
    _run(cluster, kubeconfig, context, [_collect(sources)], metrics_host, metrics_port)


@command(app, "kubernetes bind --cluster prod-eu-1")
def bind(
    cluster: ClusterOption,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Bind pods to the nodes that were chosen for them, until Ctrl-C."""
    from connectors.kubernetes.duties import kinds

    _run(cluster, kubeconfig, context, [kinds.bind], metrics_host, metrics_port)


@command(app, "kubernetes evict --cluster prod-eu-1")
def evict(
    cluster: ClusterOption,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    cordon: Cordon = True,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Carry out eviction commands, until Ctrl-C; dry commands are only reported."""
    _run(cluster, kubeconfig, context, [_evict(cordon)], metrics_host, metrics_port)


@command(app, "kubernetes all --cluster prod-eu-1", name="all")
def all_duties(
    cluster: ClusterOption,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler: Schedulers = None,
    sources: Sources = None,
    cordon: Cordon = True,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Watch, collect, bind and evict in one process, until Ctrl-C."""
    from connectors.kubernetes.duties import kinds

    duties = [_watch(scheduler), _collect(sources), kinds.bind, _evict(cordon)]
    _run(cluster, kubeconfig, context, duties, metrics_host, metrics_port)


@command(app, "kubernetes demo --nodes 40", kafka=False)
def demo(
    nodes: Nodes = 200,
    pods: Pods = 1000,
    output: Output = Path("demo-output/kubernetes"),
    plain: Plain = False,
) -> None:
    """Run a real control plane on this machine, and let loadstream place and rebalance pods on it.

    The API server, etcd and the controllers are real; kwok simulates the kubelets. The demo takes two to
    four minutes; the first run also builds the programs, which needs Go. Exit code 0: the API server's
    audit log shows no problem; 1: there is a problem; 2: Go is missing.
    """
    make_directory(output, "--output")
    from rich.console import Console

    from simulation.control_plane.build import ControlPlaneUnavailable, build
    from simulation.kubernetes_demo.runner import run
    from simulation.kubernetes_demo.steps import RecordLost, Size
    from simulation.kubernetes_demo.view import show_live
    from simulation.processes import ProcessDied

    failures = (RecordLost, ProcessDied, OSError)
    with as_messages(ControlPlaneUnavailable, code=2), as_messages(*failures):
        echo("building the control plane, unless it is in the cache ...")
        binary = build()
        with show_live(Console(), plain=plain) as show:
            summary = run(binary, output.absolute(), Size(nodes, pods), show)
    _print_and_write(output, summary)
    raise typer.Exit(1 if summary.problems else 0)


def _watch(schedulers: list[str] | None) -> "DutyFactory":
    from connectors.kubernetes.duties import kinds
    from connectors.kubernetes.watch.state_watch import SCHEDULERS

    return partial(kinds.watch, schedulers=schedulers or SCHEDULERS)


def _collect(file: Path | None) -> "DutyFactory":
    from connectors.kubernetes.duties import kinds

    return partial(kinds.collect, sources=read_source_file(file))


def _evict(cordon: bool) -> "DutyFactory":
    from connectors.kubernetes.duties import kinds

    return partial(kinds.evict, cordon=cordon)


def _run(
    cluster: str,
    kubeconfig: Path | None,
    context: str | None,
    duties: "Sequence[DutyFactory]",
    metrics_host: str,
    metrics_port: int,
) -> None:
    """Run the duties until the process is stopped."""
    check_metrics(metrics_host, metrics_port)
    from connectors.kafka.client import connect
    from connectors.kafka.extents import check_partitions
    from connectors.kafka.term import LOCK
    from connectors.kubernetes.api.access import access
    from connectors.kubernetes.api.errors import AccessError
    from connectors.kubernetes.duties.process import run
    from connectors.kubernetes.duties.telemetry import DutyTelemetry
    from connectors.process import event_loop, logs
    from connectors.process.metrics_endpoint import serve_while_open
    from connectors.process.signals import run_until_stopped
    from schemas.settings.connection import KafkaSettings
    from schemas.settings.environment import read_settings

    with as_messages(AccessError):
        kafka = KafkaSettings.from_environment()
        (log,) = read_settings({logs.LogSettings: {}})
        logs.configure(log, kafka.secrets())
        # Checks the broker first. With another number of partitions, the process would be active for a
        # partition of other clusters.
        check_partitions(connect(kafka), LOCK)
        telemetry = DutyTelemetry(cluster)
        with serve_while_open(metrics_host, metrics_port, telemetry.registry, telemetry.problems):
            work = run(kafka, cluster, access(kubeconfig, context), duties, telemetry)
            event_loop.run(run_until_stopped(work))


def _print_and_write(output: Path, summary: "Summary") -> None:
    text = "\n".join([*summary.lines, *(f"problem: {problem}" for problem in summary.problems)])
    (output / "summary.txt").write_text(f"{text}\n", encoding="utf-8")
    echo(text)
    echo(f"logs and the audit log: {output}")
