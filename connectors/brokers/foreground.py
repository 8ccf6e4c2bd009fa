"""`loadstream broker`: run a broker until it is stopped, and announce it to other commands."""

import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from connectors.brokers.distribution import KafkaUnavailable
from connectors.brokers.embedded import EmbeddedBroker
from connectors.brokers.server import KafkaServer
from connectors.brokers.storage import Broker
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import EMBEDDED_PARTITIONS, expected_topics
from connectors.process.signals import terminable
from connectors.process.terminal import echo
from schemas.settings.announcement import announce
from schemas.settings.connection import ENV_PREFIX, KafkaSettings
from schemas.settings.environment import SettingsError

_WATCH_S = 1.0
_SERVERS = f"{ENV_PREFIX}BOOTSTRAP_SERVERS"


def run_embedded(brokers: int) -> None:
    """Run the embedded broker until SIGINT or SIGTERM.

    Raises SettingsError for unsupported settings.
    """
    partitions = KafkaSettings.from_environment().partitions
    if partitions != EMBEDDED_PARTITIONS:
        raise SettingsError(
            f"LOADSTREAM_KAFKA_PARTITIONS={partitions}: topics of the embedded broker always have "
            f"{EMBEDDED_PARTITIONS} partitions; remove the setting, or use --kafka"
        )
    with terminable(), EmbeddedBroker(brokers) as server:
        _serve("embedded broker", server.bootstrap_servers, ())


def run_kafka(brokers: int, port: int | None, directory: Path | None) -> None:
    """Run a real Kafka until SIGINT or SIGTERM.

    Raises KafkaUnavailable if a broker dies.
    """
    configured = KafkaSettings.from_environment()
    with terminable(), ExitStack() as stack:
        if directory is None:
            directory = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="loadstream-kafka-"))
            )
        server = stack.enter_context(KafkaServer(directory, brokers=brokers, port=port))
        settings = KafkaSettings.local(
            server.bootstrap_servers,
            partitions=configured.partitions,
            replication_factor=configured.replication_factor or min(3, brokers),
        )
        create_topics(connect(settings), expected_topics(settings))
        _serve(f"Apache Kafka, data in {directory}", server.bootstrap_servers, server.members)


def _serve(description: str, bootstrap_servers: str, members: Sequence[Broker]) -> None:
    with announce(bootstrap_servers) as path:
        echo(bootstrap_servers)
        other_servers = os.environ.get(_SERVERS)
        use = f"use {other_servers} while {_SERVERS} is set" if other_servers else "find it"
        echo(
            f"{description} with all topics, announced in {path}: other commands {use}. Press Ctrl-C to stop it.",
            err=True,
        )
        try:
            while True:
                for member in members:
                    if member.pid is None:
                        raise KafkaUnavailable(
                            f"broker {member.number} ended unexpectedly; {member.describe_log()}"
                        )
                time.sleep(_WATCH_S)
        except KeyboardInterrupt:
            return
