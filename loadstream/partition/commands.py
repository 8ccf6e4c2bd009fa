"""The command `partition reset`: a partition starts again without its rows and its journal."""

from typing import Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json
from loadstream.cli.command import as_messages, command, connect_as_configured

app = typer.Typer(name="partition", no_args_is_help=True, help="Reset damaged partitions.")
#: What to do after a reset.
_NEXT = (
    "Start the workers. `loadstream kubernetes watch` sends full lists again; let other producers send "
    "full lists and waiting requests."
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
        bool, typer.Option("--yes", help="Reset; without this option the plan is only shown.")
    ] = False,
    json: Json = False,
) -> None:
    """Delete the state of a partition in both stages: rows, journal and checkpoints.

    Use it if workers cannot start from a partition. Stop all workers first. Inputs continue at their
    ends, and policies are read again. `loadstream kubernetes watch` sends full lists again by itself;
    other producers must send full lists and waiting requests. Exit code 1 without --yes.
    """
    from loadstream.partition.reset import ResetRefused, plan_reset, reset_partition

    with as_messages(ResetRefused):
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
        echo(_NEXT if yes else "Nothing was written; use --yes to reset.")
    if not yes:
        raise typer.Exit(1)
