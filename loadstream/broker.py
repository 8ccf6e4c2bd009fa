"""The command `broker`: runs a local broker."""

from pathlib import Path
from typing import Annotated

import typer

from loadstream.cli.arguments import make_directory
from loadstream.cli.command import as_messages, command

_PORT_MAX = 65_535


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "broker --kafka --port 9092", kafka=False)(broker)


def broker(
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Run Apache Kafka instead of the embedded broker.")
    ] = False,
    brokers: Annotated[
        int,
        typer.Option(min=1, max=9, help="Number of brokers."),
    ] = 1,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=_PORT_MAX,
            help="Port of the first broker; further brokers use the ports after it. Only with --kafka.",
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Directory in which records are kept; only with --kafka. Default: records are deleted at the end."
        ),
    ] = None,
) -> None:
    """Run a local broker with all topics until Ctrl-C; other commands find it automatically.

    The embedded broker needs no installation and keeps about 5 MB per partition in memory until it ends.
    Apache Kafka (--kafka) needs Java 17 and, for the first start, Maven.
    """
    if not kafka and (port is not None or directory is not None):
        raise typer.BadParameter(
            "the embedded broker uses a port of the system's choice and keeps no files; use --kafka with "
            "--port and --directory",
        )
    if port is not None and port + brokers - 1 > _PORT_MAX:
        raise typer.BadParameter(
            f"found {port}; expected at most {_PORT_MAX - brokers + 1} for the first of {brokers} "
            "brokers, because the others use the ports after it",
            param_hint="--port",
        )
    if directory is not None:
        make_directory(directory, "--directory")
    from connectors.brokers import foreground

    with as_messages():
        if kafka:
            foreground.run_kafka(brokers, port, directory)
        else:
            foreground.run_embedded(brokers)
