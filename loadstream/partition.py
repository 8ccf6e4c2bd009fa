"""The command group `partition`: a partition begins again without its rows and its journal."""

from typing import Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json
from loadstream.cli.command import as_messages, command, connect_as_configured

app = typer.Typer(name="partition", no_args_is_help=True, help="Reset damaged partitions.")
#: What to do after a reset.
_NEXT = (
    "Start the workers. Watches of Kubernetes clusters list them again; let other producers send full "
    "lists and the requests that wait."
)


@app.callback()
def _group() -> None:
    """Keep `partition` a group: Typer would merge a group with its only command."""


@command(app, "partition reset 3 --yes")
def reset(
    partitions: Annotated[
        list[int], typer.Argument(min=0, metavar="N...", help="Numbers of partitions.")
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this option it is only shown.")
    ] = False,
    json: Json = False,
) -> None:
    """Delete what both stages know of a partition: rows, journal and checkpoints.

    For a partition from which no worker starts. Stop all workers first. Inputs go on at their ends,
    and policies are read again. Watches of Kubernetes clusters list them again by themselves; other
    producers have to send full lists and the requests that wait. Exit code 1 without --yes.
    """
    with as_messages():
        from loadstream.partition_reset import plan_reset, reset_partition

        connection = connect_as_configured()
        plans = [plan_reset(connection, number) for number in sorted(set(partitions))]
        for plan in plans:
            if not json:
                echo("\n".join(plan.lines))
            if yes:
                reset_partition(connection, plan)
            if json:
                print_json({"partition": plan.partition, "plan": plan.lines, "reset": yes})
            elif yes:
                echo(f"partition {plan.partition} was reset")
    if not json:
        echo(_NEXT if yes else "Nothing was written; --yes does it.")
    if not yes:
        raise typer.Exit(1)
