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
    int, typer.Option(parser=number("nodes", 20, 1000), metavar="NODES", help="How many nodes.")
]
Pods = Annotated[
    int, typer.Option(parser=number("pods", 50, 5000), metavar="PODS", help="How many pods.")
]
Output = Annotated[Path, typer.Option(help="Directory for logs, the audit log and the summary.")]
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
    from simulation.control_plane.build import ControlPlaneUnavailable, build
    from simulation.kubernetes_demo.runner import run
    from simulation.kubernetes_demo.steps import Size
    from simulation.kubernetes_demo.topic_client import RecordLost
    from simulation.kubernetes_demo.view import show_live
    from simulation.processes import ProcessDied

    try:
        echo("the control plane is built, where it is not in the cache ...")
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
    _report(output, summed)
    raise typer.Exit(1 if summed.problems else 0)


def _report(output: Path, summed: "Summary") -> None:
    """Print the summary, and write it."""
    text = "\n".join([*summed.lines, *(f"problem: {each}" for each in summed.problems)])
    (output / "summary.txt").write_text(f"{text}\n", encoding="utf-8")
    echo(text)
    echo(f"logs and the audit log: {output}")


def _refuse_without_effect(asked: typer.Context, *, observe: bool) -> None:
    """Options that change nothing with, or without, --observe are errors of the command line."""
    names = _OF_RUN if observe else _OF_OBSERVATION
    for name in names:
        source = asked.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            also = "does not go" if observe else "goes"
            raise typer.BadParameter(f"it {also} with --observe", param_hint=f"--{name}")


def _observe(
    kubeconfig: Path | None, context: str | None, sources: Path | None, output: Path, seconds: int
) -> None:
    from connectors.kafka.client import BrokerUnavailable
    from connectors.kubernetes.api.access import access
    from connectors.kubernetes.api.errors import AccessError
    from simulation.kubernetes_demo.observation import Seen, observe
    from simulation.kubernetes_demo.topic_client import RecordLost
    from simulation.processes import ProcessDied

    read_source_file(sources)

    def show(seen: Seen) -> None:
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
