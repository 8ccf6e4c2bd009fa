"""The command `loadstream kubernetes demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo
from loadstream.cli.arguments import make_directory, number
from loadstream.kubernetes.arguments import Context, Kubeconfig, Sources, read_source_file

if TYPE_CHECKING:
    from simulation.kubernetes_demo.summary import Summary

Nodes = Annotated[
    int, typer.Option(parser=number("nodes", 20, 1000), metavar="NODES", help="Number of nodes.")
]
Pods = Annotated[
    int, typer.Option(parser=number("pods", 50, 5000), metavar="PODS", help="Number of pods.")
]
Output = Annotated[Path, typer.Option(help="Directory for logs, the audit log and the summary.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print lines instead of the live view.")]
Observe = Annotated[
    bool,
    typer.Option(
        "--observe", help="Observe the cluster of the kubeconfig instead, without changing it."
    ),
]
Seconds = Annotated[
    int,
    typer.Option(
        parser=number("seconds", 10, 86_400),
        metavar="SECONDS",
        help="Duration of --observe.",
    ),
]

#: Options that have an effect only without --observe, and only with it.
_RUN_OPTIONS = ("nodes", "pods", "plain")
_OBSERVE_OPTIONS = ("kubeconfig", "context", "sources", "seconds")


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
    """Run a real control plane on this machine, and let loadstream place and rebalance pods on it.

    API server, etcd and controllers are those of Kubernetes; kwok simulates the kubelets. The demo
    takes two to four minutes; the first run also builds the programs, which needs Go. Exit code 0: the
    API server's audit log shows no problem; 1: there is a problem; 2: Go is missing. With --observe no
    binder and no evictor runs, so nothing can be changed.
    """
    _refuse_without_effect(asked, observe=observe)
    make_directory(output, "--output")
    if observe:
        return _observe(kubeconfig, context, sources, output.absolute(), seconds)
    from rich.console import Console

    from connectors.kafka.client import BrokerUnavailable
    from simulation.control_plane.build import ControlPlaneUnavailable, build
    from simulation.kubernetes_demo.runner import run
    from simulation.kubernetes_demo.steps import Size
    from simulation.kubernetes_demo.topic_client import RecordLost
    from simulation.kubernetes_demo.view import show_live
    from simulation.processes import ProcessDied

    try:
        echo("building the control plane, unless it is in the cache ...")
        binary = build()
        with show_live(Console(), plain=plain) as show:
            summed = run(binary, output.absolute(), Size(nodes, pods), show)
    except ControlPlaneUnavailable as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except (BrokerUnavailable, RecordLost, ProcessDied, OSError) as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    _print_and_write(output, summed)
    raise typer.Exit(1 if summed.problems else 0)


def _print_and_write(output: Path, summed: "Summary") -> None:
    text = "\n".join([*summed.lines, *(f"problem: {each}" for each in summed.problems)])
    (output / "summary.txt").write_text(f"{text}\n", encoding="utf-8")
    echo(text)
    echo(f"logs and the audit log: {output}")


def _refuse_without_effect(asked: typer.Context, *, observe: bool) -> None:
    """Refuse options that have no effect with, or without, --observe."""
    names = _RUN_OPTIONS if observe else _OBSERVE_OPTIONS
    for name in names:
        source = asked.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            when = "with" if observe else "without"
            raise typer.BadParameter(f"it has no effect {when} --observe", param_hint=f"--{name}")


def _observe(
    kubeconfig: Path | None, context: str | None, sources: Path | None, output: Path, seconds: int
) -> None:
    from connectors.kafka.client import BrokerUnavailable
    from connectors.kubernetes.api.access import access
    from connectors.kubernetes.api.errors import AccessError
    from simulation.kubernetes_demo.observation import Observation, observe
    from simulation.kubernetes_demo.topic_client import RecordLost
    from simulation.processes import ProcessDied

    read_source_file(sources)

    def show(seen: Observation) -> None:
        echo(
            f"{seen.at_s:4.0f} s: {len(seen.allocatable_millicores)} nodes, "
            f"{len(seen.observed.cpu)} measured, {len(seen.pods)} pods, "
            f"{seen.observed.dry} dry evictions"
        )

    try:
        access(kubeconfig, context)
        seen = observe(kubeconfig, context, sources, output, seconds, show)
    except (AccessError, BrokerUnavailable, RecordLost, ProcessDied, OSError) as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    for line in seen.lines():
        echo(line)
    raise typer.Exit(0 if seen.allocatable_millicores else 1)
