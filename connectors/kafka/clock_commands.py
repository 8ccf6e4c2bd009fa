"""The command `clock reset`: the time of a partition is set to this machine's.

For a partition whose time is ahead (`loadstream_clock_lag_seconds` below -10, and `/readyz` of its
worker says so). The worker that applies the record refuses it if it is not its own present, so a
wrong clock of this machine does no harm, and neither does a reset of a partition whose time is
right.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from connectors.kafka.failures import as_messages, connect_as_configured
from connectors.terminal import echo, print_json

if TYPE_CHECKING:
    from connectors.kafka.client import Connection

_CLOCK = "clock"

clock = typer.Typer(no_args_is_help=True, help="Set the time of a partition right.")


@clock.callback()
def _group() -> None:
    """Without it the only command would take the group's place."""


@clock.command()
def reset(
    partition: Annotated[
        list[int], typer.Option("--partition", min=0, help="Which one; may be repeated.")
    ],
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until the partition's worker has applied or refused it."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Set the time of a partition to now, also if it is later there already.

    Deadlines keep the time that they have left, and what is dated later than now becomes as old as
    now.
    """
    with as_messages():
        import time

        from connectors.kafka.produce import produce_messages
        from schemas.clock import ClockTick

        connection = connect_as_configured()
        ticks = [
            ClockTick(partition=number, now_ms=time.time_ns() // 1_000_000, reset=True)
            for number in sorted(set(partition))
        ]
        places, refused = produce_messages(connection, _CLOCK, ticks)
        for reason in refused:
            echo(f"error: {reason}", err=True)
        if places and wait:
            refused += _wait(connection, places, quiet=json)
        elif places and not json:
            echo(
                "written: the worker of the partition sets its time with its next batch, and refuses a reset that is "
                "not its own present (`--wait` waits for that)"
            )
    if json:
        print_json({"written": len(places), "refused": refused, "applied": wait and not refused})
    if refused:
        raise typer.Exit(1)


def _wait(connection: "Connection", places: list[tuple[int, int]], *, quiet: bool) -> list[str]:
    """Until workers have applied or refused the records; Ctrl-C ends the command and not the reset."""
    from connectors.kafka.applied import APPLIED, follow

    refused = []
    if not quiet:
        echo(
            "waiting for the workers of the partitions; Ctrl-C ends this command and not the reset",
            err=True,
        )
    for partition, state in follow(connection, _CLOCK, places):
        if state != APPLIED:
            refused.append(state)
            echo(f"error: partition {partition}: {state}", err=True)
        elif not quiet:
            echo(f"partition {partition}: the time is set")
    return refused
