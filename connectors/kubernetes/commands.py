"""The commands `loadstream kubernetes ...`: one process between a real cluster and Kafka.

Exit codes: 1 no broker or API server can be asked as things are configured, or a duty failed; 2 an
option or a file is wrong; 130 it was ended. A broker or an API server that is away once it runs is
waited for. Start the same command twice, and one process stands by for the other.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.arguments import (
    MetricsHost,
    MetricsPort,
    as_field,
    check_metrics,
    make_directory,
    number,
)
from connectors.terminal import echo

if TYPE_CHECKING:
    from pydantic import BaseModel

    from connectors.kubernetes.duties.process import Make
    from connectors.kubernetes.sources.settings import SourceSettings

app = typer.Typer(
    name="kubernetes",
    no_args_is_help=True,
    help="Watch, measure, bind and evict on a real cluster: one process per cluster and duty.",
)


def _usage() -> "type[BaseModel]":
    from schemas.usage import NodeUsage

    return NodeUsage


Cluster = Annotated[
    str,
    typer.Option(callback=as_field(_usage, "cluster"), help="The cluster's name in all records."),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="A kubeconfig; without one: KUBECONFIG, the pod's service account, or ~/.kube/config."
    ),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]


def _names(given: list[str] | None) -> list[str] | None:
    """No pod is of a scheduler without a name."""
    if given and not all(given):
        raise typer.BadParameter("found an empty name; expected the name of a scheduler")
    return given


Schedulers = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler",
        metavar="NAME",
        callback=_names,
        help="Pods with this spec.schedulerName are ours to place; may be repeated.",
        show_default="loadstream",
    ),
]
Sources = Annotated[
    Path | None,
    typer.Option(
        "--sources",
        help="YAML file with the usage sources; without one: every kubelet's /metrics/resource.",
    ),
]
Nodes = Annotated[
    int, typer.Option(parser=number("nodes", 20, 1000), metavar="NODES", help="How many nodes.")
]
Pods = Annotated[
    int, typer.Option(parser=number("pods", 50, 5000), metavar="PODS", help="How many pods.")
]
Output = Annotated[
    Path, typer.Option(help="Directory for logs, the audit log, the summary and the picture.")
]
Plain = Annotated[
    bool, typer.Option("--plain", help="Lines instead of the live view, as without a terminal.")
]
Observe = Annotated[
    bool,
    typer.Option(
        "--observe", help="Look at the cluster of the current kubeconfig instead; change nothing."
    ),
]
Seconds = Annotated[
    int,
    typer.Option(
        parser=number("seconds", 10, 86_400),
        metavar="SECONDS",
        help="With --observe: for how long.",
    ),
]

#: Options of the demo without, and with --observe.
_OF_RUN = ("nodes", "pods", "plain")
_OF_OBSERVATION = ("kubeconfig", "context", "sources", "seconds")


@app.command()
def watch(
    cluster: Cluster,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler: Schedulers = None,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Report nodes, pods, workloads, budgets and pending pods, until Ctrl-C."""
    _run(cluster, kubeconfig, context, [_watch(scheduler)], metrics_host, metrics_port)


@app.command()
def collect(
    cluster: Cluster,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    sources: Sources = None,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Measure what nodes and pods use, until Ctrl-C."""
    _run(cluster, kubeconfig, context, [_collect(sources)], metrics_host, metrics_port)


@app.command()
def bind(
    cluster: Cluster,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Bind pods to the nodes that were decided, until Ctrl-C."""
    from connectors.kubernetes.duties import kinds

    _run(cluster, kubeconfig, context, [kinds.bind], metrics_host, metrics_port)


@app.command()
def evict(
    cluster: Cluster,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Evict pods as commanded, until Ctrl-C; dry commands are only reported."""
    from connectors.kubernetes.duties import kinds

    _run(cluster, kubeconfig, context, [kinds.evict], metrics_host, metrics_port)


@app.command("all")
def all_duties(
    cluster: Cluster,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler: Schedulers = None,
    sources: Sources = None,
    metrics_host: MetricsHost = "",
    metrics_port: MetricsPort = 0,
) -> None:
    """Watch, collect, bind and evict in one process, until Ctrl-C."""
    from connectors.kubernetes.duties import kinds

    makes = [_watch(scheduler), _collect(sources), kinds.bind, kinds.evict]
    _run(cluster, kubeconfig, context, makes, metrics_host, metrics_port)


@app.command()
def demo(
    asked: typer.Context,
    nodes: Nodes = 200,
    pods: Pods = 1000,
    output: Output = Path("demo-output/kubernetes"),
    plain: Plain = False,
    observe: Observe = False,
    seconds: Seconds = 180,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    sources: Sources = None,
) -> None:
    """Run a real control plane here, and let loadstream place and rebalance pods on it.

    API server, etcd and controllers are Kubernetes' own; kwok plays the kubelets. It takes two to
    four minutes, and some more the first time, to build them with Go. Exit code 0: all went as it
    should, by the API server's own audit log; 1: something did not; 2: there is no Go. With
    --observe no binder and no evictor runs, so nothing can be changed.
    """
    _refuse_without_effect(asked, observe=observe)
    make_directory(output, "--output")
    if observe:
        return _observe(kubeconfig, context, sources, output.absolute(), seconds)
    from rich.console import Console

    from connectors.kafka.client import BrokerUnavailable
    from connectors.kafka.wire import WireError
    from connectors.kubernetes.control_plane.build import ControlPlaneUnavailable, build
    from connectors.kubernetes.demo.picture import draw
    from connectors.kubernetes.demo.processes import ProcessDied
    from connectors.kubernetes.demo.runner import run
    from connectors.kubernetes.demo.story import Size
    from connectors.kubernetes.demo.view import shown

    try:
        echo("the control plane is built, where it is not in the cache ...")
        binary = build()
        with shown(Console(), plain=plain) as show:
            story, summed = run(binary, output.absolute(), Size(nodes, pods), show)
    except ControlPlaneUnavailable as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except (BrokerUnavailable, WireError, ProcessDied, OSError) as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    hottest = max(story.looks, key=lambda look: len(look.hot))
    draw(output / "nodes.png", hottest.cpu, story.looks[-1].cpu)
    text = "\n".join([*summed.lines, *(f"problem: {each}" for each in summed.problems)])
    (output / "summary.txt").write_text(f"{text}\n", encoding="utf-8")
    echo(text)
    echo(f"picture: {output / 'nodes.png'}; logs and the audit log: {output}")
    raise typer.Exit(1 if summed.problems else 0)


def _refuse_without_effect(asked: typer.Context, *, observe: bool) -> None:
    """Options that change nothing with, or without, --observe are errors of the command line."""
    names = _OF_RUN if observe else _OF_OBSERVATION
    for name in names:
        source = asked.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            also = "does not go" if observe else "goes"
            raise typer.BadParameter(f"it {also} with --observe", param_hint=f"--{name}")


def _observe(
    kubeconfig: Path | None,
    context: str | None,
    sources: Path | None,
    output: Path,
    seconds: int,
) -> None:
    from connectors.kafka.client import BrokerUnavailable
    from connectors.kafka.wire import WireError
    from connectors.kubernetes.api.access import access
    from connectors.kubernetes.api.errors import AccessError
    from connectors.kubernetes.demo.observation import Seen, observe
    from connectors.kubernetes.demo.processes import ProcessDied

    _read_sources(sources)

    def show(seen: Seen) -> None:
        echo(
            f"{seen.at_s:4.0f} s: {len(seen.allocatable_millicores)} nodes, "
            f"{len(seen.observed.cpu)} measured, {len(seen.pods)} pods, "
            f"{seen.observed.dry} dry evictions"
        )

    try:
        access(kubeconfig, context)
        seen = observe(kubeconfig, context, sources, output, seconds, show)
    except (AccessError, BrokerUnavailable, WireError, ProcessDied, OSError) as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    for line in seen.lines():
        echo(line)
    raise typer.Exit(0 if seen.allocatable_millicores else 1)


def _watch(schedulers: list[str] | None) -> "Make":
    from functools import partial

    from connectors.kubernetes.duties import kinds
    from connectors.kubernetes.watch.state_watch import SCHEDULERS

    return partial(kinds.watch, schedulers=schedulers or SCHEDULERS)


def _collect(file: Path | None) -> "Make":
    from functools import partial

    from connectors.kubernetes.duties import kinds

    return partial(kinds.collect, sources=_read_sources(file))


def _read_sources(file: Path | None) -> "tuple[SourceSettings, ...]":
    from connectors.kubernetes.sources.base import known_settings
    from connectors.kubernetes.sources.settings import DEFAULT_TEXT, SourcesError, read_sources

    try:
        text = DEFAULT_TEXT if file is None else file.read_bytes()
        return read_sources(text, known_settings(), str(file or "sources"))
    except SourcesError as error:
        raise typer.BadParameter(f"\n{error}", param_hint="--sources") from None
    except OSError as error:
        raise typer.BadParameter(
            f"{file} cannot be read: {error.strerror}; expected a file of usage sources",
            param_hint="--sources",
        ) from None


def _run(
    cluster: str,
    kubeconfig: Path | None,
    context: str | None,
    makes: "Sequence[Make]",
    metrics_host: str,
    metrics_port: int,
) -> None:
    """Run the duties until the process is ended."""
    check_metrics(metrics_host, metrics_port)
    from connectors.kafka.failures import as_messages

    with as_messages():
        from connectors import event_loop, process_log
        from connectors.kafka.client import connect
        from connectors.kafka.extents import check_partitions
        from connectors.kafka.turn import LOCK
        from connectors.kubernetes.api.access import access
        from connectors.kubernetes.api.errors import AccessError
        from connectors.kubernetes.duties.process import run
        from connectors.kubernetes.duties.telemetry import Telemetry
        from connectors.metrics_endpoint import PortUnusable, serving
        from schemas.connection import KafkaSettings

        process_log.configure()
        kafka = KafkaSettings.from_environment()
        # A broker that cannot be reached is named before all else. With another number of partitions
        # a process would be active for a partition that is not its cluster's.
        check_partitions(connect(kafka), LOCK)
        telemetry = Telemetry(cluster)
        try:
            with serving(metrics_host, metrics_port, telemetry.registry, telemetry.problems):
                work = run(kafka, cluster, access(kubeconfig, context), makes, telemetry)
                event_loop.run(work)
        except (AccessError, PortUnusable) as error:
            echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None
        raise typer.Exit(130)
