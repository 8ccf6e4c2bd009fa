"""The command `clock reset`: the time of a partition is set to this machine's.

For a partition whose time is ahead (`loadstream_clock_lag_seconds` below -10, and `/readyz` of its worker
says so). The worker that applies the record refuses it where it is not its own present, so a wrong clock of this
machine does no harm, and neither does a reset of a partition whose time is right.
"""

from typing import Annotated

import typer

from connectors.kafka.failures import as_messages
from connectors.terminal import echo, print_json

clock = typer.Typer(no_args_is_help=True, help="Set the time of a partition right.")


@clock.callback()
def _group() -> None:
    """Without it the only command would take the group's place."""


@clock.command()
def reset(
    partition: Annotated[
        list[int], typer.Option("--partition", min=0, help="Which one; may be repeated.")
    ],
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Set the time of a partition to now, also if it is later there already.

    Deadlines keep the time that they have left, and what is dated later than now becomes as old as now.
    """
    with as_messages():
        import time
        from io import BytesIO

        from connectors.kafka.client import connect
        from connectors.kafka.produce import produce_lines
        from schemas.clock import ClockTick
        from schemas.codec import encode
        from schemas.connection import KafkaSettings
        from schemas.topics import TOPIC_BY_NAME

        refused: list[str] = []
        connection = connect(KafkaSettings.from_environment())
        ticks = [
            ClockTick(partition=number, now_ms=time.time_ns() // 1_000_000, reset=True)
            for number in sorted(set(partition))
        ]
        produce_lines(
            connection,
            TOPIC_BY_NAME["clock"],
            BytesIO(b"\n".join(map(encode, ticks))),
            on_error="skip",
            on_rejection=lambda rejection: refused.append(rejection.reason),
        )
    for reason in refused:
        echo(f"error: {reason}", err=True)
    if json:
        print_json({"written": len(ticks) - len(refused), "refused": refused})
    elif len(refused) < len(ticks):
        echo(
            "written: the worker of the partition sets its time with its next batch, and refuses a reset that is "
            "not its own present (`loadstream tail dead-letters --from 1m`)"
        )
    if refused:
        raise typer.Exit(1)
