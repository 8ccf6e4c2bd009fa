"""The command `worker`: the stages, fed by Kafka.

The worker checks its topics before it starts, because Faust silently reads nothing from a missing
topic.
"""

import logging
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.process.terminal import echo
from loadstream.cli.arguments import as_field
from loadstream.cli.command import command

if TYPE_CHECKING:
    from schemas.settings.connection import KafkaSettings


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "worker --log-level info")(worker)


def _log_level(name: str | None) -> str | None:
    from connectors.process.logs import LogSettings

    return name if name is None else as_field(lambda: LogSettings, "level")(name)


def worker(
    log_level: Annotated[
        str | None,
        typer.Option(
            help="debug, info, warn or error; else LOADSTREAM_LOG_LEVEL.", callback=_log_level
        ),
    ] = None,
    check_topics: Annotated[
        bool, typer.Option(help="Check that all topics exist and are as they must be.")
    ] = True,
) -> None:
    """Aggregate usage samples, and decide placements and evictions, until it is stopped.

    Settings come from the environment: LOADSTREAM_KAFKA_* say how to reach Kafka,
    LOADSTREAM_WORKER_* how the worker runs, LOADSTREAM_LOG_* what it says.
    """
    import uvloop

    from connectors.kafka.reconnect import mend_connections
    from connectors.process import logs
    from connectors.process.settings import read_settings
    from schemas.settings.connection import KafkaSettings, SettingsError
    from streams.worker import event_loop
    from streams.worker.settings import WorkerSettings

    # Before the rest is imported: nothing of it is garbage.
    event_loop.collect_garbage_rarely()
    uvloop.install()
    mend_connections()
    try:
        overrides = {} if log_level is None else {"level": log_level}
        settings, log = read_settings({WorkerSettings: {}, logs.LogSettings: overrides})
        kafka = KafkaSettings.from_environment()
        if check_topics:
            _check_topics(kafka)
        from streams.app import build

        logs.configure(log, kafka.secrets())
        app = build(settings, kafka)
    except (SettingsError, OSError) as error:
        echo(f"loadstream worker: {error}", err=True)
        raise typer.Exit(2) from None
    code = _run(app, settings.stop_timeout_s)
    logging.shutdown()
    # All is durable. Threads of native libraries may crash while the interpreter takes itself apart.
    os._exit(code)


def _check_topics(kafka: "KafkaSettings") -> None:
    """Stop if a topic is missing or has another number of partitions; say what else differs."""
    from connectors.kafka.admin import find_topics
    from connectors.kafka.client import BrokerUnavailable, connect
    from connectors.kafka.topics import compare_all, expected_names, expected_topics

    try:
        found = find_topics(connect(kafka), expected_names())
    except BrokerUnavailable as error:
        echo(f"loadstream worker: {error}", err=True)
        raise typer.Exit(1) from None
    stop = False
    for findings in compare_all(expected_topics(kafka), found).values():
        for finding in findings:
            grave = finding.verdict == "missing" or finding.setting == "partitions"
            stop |= grave
            if grave or finding.verdict == "differs":
                echo(f"loadstream worker: {finding}", err=True)
    if stop:
        raise typer.Exit(1)


def _run(app: Any, stop_timeout_s: float) -> int:
    from streams.worker.shutdown import DeadlineWorker, log_failure

    worker = DeadlineWorker(app, stop_timeout_s)
    code = 0
    try:
        worker.execute_from_commandline()
    except SystemExit as stop:
        code = int(stop.code or 0)
    if log_failure(app):  # Faust has logged it long before
        return code or 1
    return code
