"""`loadstream mend`: lets a worker start again from a partition whose rows or journal are damaged.

Exit codes: 0 there is nothing to mend, or it was mended; 1 it would lose what is listed, and was
not asked to; 2 no broker answers, topics have another number of partitions than the settings say,
there is no such partition, or a worker writes to it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.printable import json_text

if TYPE_CHECKING:
    from schemas.connection import KafkaSettings
    from streams.replay.mending import Mended

#: Most losses that are listed; the others are counted.
LISTED_MAX = 50


#: Prints a line, of which nothing but printable text reaches a terminal.
Echo = Callable[..., None]


def mend_command(
    echo: Echo, reach: "Callable[[KafkaSettings], None]"
) -> Callable[[int, bool, bool], None]:
    """The command, which prints through `echo`; `reach` ends it with advice if no broker answers or
    the topics are not as the settings say.

    What reads and writes after that waits for brokers that go away meanwhile, as a worker does.
    """

    def mend(
        partition: Annotated[
            int, typer.Option(min=0, help="The partition that no worker starts from.")
        ],
        yes: Annotated[
            bool, typer.Option("--yes", help="Mend it; everything that is listed is lost.")
        ] = False,
        json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ) -> None:
        """Show what can be kept of a damaged partition, in both stages; with --yes, keep it and
        drop the rest.

        Stop the workers first: one that holds the partition ends otherwise. Nothing is written
        without --yes. Inputs and outputs are not looked at: what cannot be read there becomes a
        dead letter.
        """
        import asyncio

        from schemas.connection import KafkaSettings, SettingsError
        from streams.mend.mender import look, put_right
        from streams.worker.publisher import LostOwnership

        try:
            kafka = KafkaSettings.from_environment()
            reach(kafka)
            if partition >= kafka.partitions:
                raise typer.BadParameter(
                    f"found {partition}; there are the partitions 0 to {kafka.partitions - 1}",
                    param_hint="--partition",
                )
            mended = asyncio.run((put_right if yes else look)(kafka, partition))
        except typer.Exit:  # a RuntimeError whose reason was printed
            raise
        except LostOwnership:
            echo(
                f"error: a worker writes to partition {partition}, so mending was given up: stop all "
                "workers, and mend it again",
                err=True,
            )
            raise typer.Exit(2) from None
        except (SettingsError, OSError, RuntimeError) as error:
            echo(f"error: {error}", err=True)
            raise typer.Exit(2) from None
        (_print_json if json else _print_lines)(echo, partition, mended, written=yes)
        if mended.lost and not yes:
            raise typer.Exit(1)

    return mend


def _print_json(echo: Echo, partition: int, mended: "Mended", *, written: bool) -> None:
    import orjson

    whole = {
        "partition": partition,
        "rows_kept": len(mended.rows),
        "batches_redone": mended.redone,
        "lost": mended.lost,
        "written": written,
    }
    echo(json_text(orjson.dumps(whole)))


def _print_lines(echo: Echo, partition: int, mended: "Mended", *, written: bool) -> None:
    rows = (
        f"{len(mended.rows)} rows are kept, {mended.redone} batches of the journal redone over them"
    )
    if not mended.lost:
        echo(f"partition {partition}: {rows}; nothing is lost")
        return
    for sentence in mended.lost[:LISTED_MAX]:
        echo(f"lost: {sentence}")
    if len(mended.lost) > LISTED_MAX:
        echo(f"lost: and {len(mended.lost) - LISTED_MAX} more")
    if written:
        echo(f"partition {partition} was mended: {rows}. Start the workers")
    else:
        echo(f"partition {partition}: {rows}. Nothing was written; --yes does it")
