"""The command `loadstream kubernetes demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo
from loadstream.cli.arguments import make_directory, number

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


def demo(
    nodes: Nodes = 200,
    pods: Pods = 1000,
    output: Output = Path("demo-output/kubernetes"),
    plain: Plain = False,
) -> None:
    """Run a real control plane on this machine, and let loadstream place and rebalance pods on it.

    API server, etcd and controllers are those of Kubernetes; kwok simulates the kubelets. The demo
    takes two to four minutes; the first run also builds the programs, which needs Go. Exit code 0: the
    API server's audit log shows no problem; 1: there is a problem; 2: Go is missing.
    """
    make_directory(output, "--output")
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
