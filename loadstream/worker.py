"""The command `worker`: both stages, fed by Kafka.

The worker checks its topics before it starts, because Faust silently reads nothing from a missing
topic.
"""

import logging
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from connectors.process.terminal import echo
from loadstream.cli.command import command

if TYPE_CHECKING:
    from schemas.settings.connection import KafkaSettings


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "worker --log-level info")(worker)


def worker(
    log_level: Annotated[
        Literal["debug", "info", "warn", "error"] | None,
        typer.Option(help="debug, info, warn or error. Default: LOADSTREAM_LOG_LEVEL."),
    ] = None,
    check_topics: Annotated[
        bool, typer.Option(help="Check that all topics exist with the expected settings.")
    ] = True,
) -> None:
    """Aggregate usage samples and decide placements and evictions, until stopped.

    Settings come from the environment: LOADSTREAM_KAFKA_* for the connection, LOADSTREAM_WORKER_* for
    the worker, LOADSTREAM_LOG_* for its log.
    """
    import uvloop

    from connectors.kafka.reconnect import mend_connections
    from connectors.process import logs
    from schemas.settings.connection import KafkaSettings
    from schemas.settings.environment import SettingsError, read_settings
    from streams.worker import event_loop
    from streams.worker.settings import WorkerSettings

    # Before the other imports, because none of their objects is garbage.
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
    # All data is durable, and threads of native libraries can crash while the interpreter shuts down.
    os._exit(code)


def _check_topics(kafka: "KafkaSettings") -> None:
    """Stop if a topic is missing or has another number of partitions; print other differences."""
    from connectors.kafka.admin import find_topics
    from connectors.kafka.client import BrokerUnavailable, connect
    from connectors.kafka.topics import compare_all, expected_names, expected_topics

    try:
        topics = find_topics(connect(kafka), expected_names())
    except BrokerUnavailable as error:
        echo(f"loadstream worker: {error}", err=True)
        raise typer.Exit(1) from None
    stop = False
    for findings in compare_all(expected_topics(kafka), topics).values():
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
    if log_failure(app):  # repeats a failure that Faust logged before its shutdown
        return code or 1
    return code
