"""Commands of the streams: `loadstream worker`, `loadstream replay`, `loadstream mend`.

One of the few places where streams and connectors meet: a worker looks at its topics before it
starts, since Faust would quietly read nothing from a topic that is not there.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.arguments import as_field
from connectors.known_plugins import know_plugins
from connectors.terminal import echo
from streams.mend.command import mend_command
from streams.replay_command import replay

if TYPE_CHECKING:
    from schemas.connection import KafkaSettings
    from schemas.policy import KnownPlugins


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(worker)
    app.command()(replay)
    app.command()(mend_command(echo, _reach))
    know_plugins(_known_plugins)


def _known_plugins() -> "KnownPlugins":
    from streams.placement.plugins.registry import KNOWN

    return KNOWN


def _log_level(name: str | None) -> str | None:
    from streams.worker.settings import LogSettings

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
    """Run the stages: windows and percentiles, placement decisions.

    Settings come from the environment: LOADSTREAM_KAFKA_* say how to reach Kafka,
    LOADSTREAM_WORKER_* how the worker runs, LOADSTREAM_LOG_* what it says.
    """
    import uvloop

    from schemas.connection import KafkaSettings, SettingsError
    from streams.worker import garbage_collection, logs, patience, story
    from streams.worker.settings import read_settings

    # Before the rest is imported: nothing of it is garbage.
    garbage_collection.look_rarely()
    uvloop.install()
    patience.mend_connections()
    try:
        settings, log = read_settings(**({} if log_level is None else {"level": log_level}))
        kafka = KafkaSettings.from_environment()
        if check_topics:
            _check_topics(kafka)
        from streams.app import build

        logs.configure(log, kafka.secrets())
        app = build(settings, kafka)
        story.began(settings, kafka)
    except (SettingsError, OSError) as error:
        echo(f"loadstream worker: {error}", err=True)
        raise typer.Exit(2) from None
    sys.exit(_run(app, settings.stop_timeout_s))


def _reach(kafka: "KafkaSettings") -> None:
    """End with 2 if no broker answers, or the journal has other partitions; with what to do."""
    from connectors.kafka.client import BrokerUnavailable, connect
    from connectors.kafka.extents import check_partitions
    from streams.stage.journal import TOPIC

    try:
        check_partitions(connect(kafka), TOPIC)
    except BrokerUnavailable as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


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
    from streams.worker.shutdown import PromptWorker, say_failure

    worker = PromptWorker(app, stop_timeout_s)
    code = 0
    try:
        worker.execute_from_commandline()
    except SystemExit as stop:
        code = int(stop.code or 0)
    if say_failure(app):  # Faust has logged it long before
        return code or 1
    return code
