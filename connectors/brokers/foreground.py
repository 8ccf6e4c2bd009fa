"""`loadstream broker`: a broker that runs until it is stopped, announced to other commands."""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from connectors.brokers.distribution import KafkaUnavailable
from connectors.brokers.embedded import PARTITIONS, EmbeddedBroker
from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from connectors.process.signals import terminable
from connectors.process.terminal import echo
from schemas.settings.announcement import announce
from schemas.settings.connection import ENV_PREFIX, KafkaSettings, SettingsError

_WATCH_S = 1.0
_SERVERS = f"{ENV_PREFIX}BOOTSTRAP_SERVERS"


def run_embedded(brokers: int) -> None:
    """Run the embedded broker; returns at SIGINT or SIGTERM.

    Raises SettingsError where the settings ask for what it has not.
    """
    asked = KafkaSettings.from_environment().partitions
    if asked != PARTITIONS:
        raise SettingsError(
            f"LOADSTREAM_KAFKA_PARTITIONS={asked}: topics of the embedded broker have {PARTITIONS} "
            "partitions, always; take the setting away, or use --kafka"
        )
    with terminable(), EmbeddedBroker(brokers) as server:
        _serve("embedded broker", server.bootstrap_servers, watch=lambda: None)


def run_kafka(brokers: int, port: int | None, directory: Path | None) -> None:
    """Run a real Kafka; returns at SIGINT or SIGTERM.

    Raises KafkaUnavailable where the directory cannot be written, and when a broker dies.
    """
    configured = KafkaSettings.from_environment()
    with terminable(), ExitStack() as stack:
        if directory is None:
            directory = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="loadstream-kafka-"))
            )
        _make(directory)
        server = stack.enter_context(KafkaServer(directory, brokers=brokers, port=port))
        settings = KafkaSettings.local(
            server.bootstrap_servers,
            partitions=configured.partitions,
            replication_factor=configured.replication_factor or min(3, brokers),
        )
        create_topics(connect(settings), expected_topics(settings))

        def watch() -> None:
            for number in range(1, brokers + 1):
                if server.pid(number) is None:
                    raise KafkaUnavailable(
                        f"broker {number} has ended by itself; {server.last_words(number)}"
                    )

        _serve(f"Apache Kafka, data in {directory}", server.bootstrap_servers, watch)


def _make(directory: Path) -> None:
    """Make the directory of the records; raises KafkaUnavailable before anything is fetched."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KafkaUnavailable(
            f"--directory: {directory} cannot be made: {error.strerror}; expected a directory that "
            "can be written"
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise KafkaUnavailable(
            f"--directory: {directory} cannot be written; expected a directory that can be"
        )


def _serve(what: str, bootstrap_servers: str, watch: Callable[[], None]) -> None:
    with announce(bootstrap_servers) as path:
        echo(bootstrap_servers)
        elsewhere = os.environ.get(_SERVERS)
        found = f"go to {elsewhere} while {_SERVERS} is set" if elsewhere else "find it"
        echo(
            f"{what} with all topics, announced in {path}: other commands {found}. Ctrl-C ends it.",
            err=True,
        )
        try:
            while True:
                watch()
                time.sleep(_WATCH_S)
        except KeyboardInterrupt:
            return
