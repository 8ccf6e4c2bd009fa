"""What can be expected to fail in a command that talks to Kafka, told in sentences."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from connectors.terminal import echo


@contextmanager
def as_messages() -> Iterator[None]:
    """Expected failures end in a sentence on standard error and exit code 1; Ctrl-C in code 130.

    Anything else is a fault of ours and keeps its traceback.
    """
    from connectors.brokers.distribution import KafkaUnavailable
    from connectors.kafka.admin import TopicsRefused
    from connectors.kafka.client import BrokerUnavailable
    from schemas.announcement import AlreadyAnnounced
    from schemas.connection import SettingsError

    expected = (AlreadyAnnounced, BrokerUnavailable, KafkaUnavailable, SettingsError, TopicsRefused)
    try:
        yield
    except expected as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
