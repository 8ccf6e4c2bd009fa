"""The connection of a command, and its expected failures as sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from connectors.process.terminal import echo

if TYPE_CHECKING:
    from connectors.kafka.client import Connection


def connect_as_configured() -> "Connection":
    """A connection to the broker that the environment names. Raises BrokerUnavailable."""
    from connectors.kafka.client import connect
    from schemas.settings.connection import KafkaSettings

    return connect(KafkaSettings.from_environment())


@contextmanager
def as_messages() -> Iterator[None]:
    """Expected failures end in a sentence on standard error and exit code 1; Ctrl-C in code 130.

    Anything else is a fault of ours and keeps its traceback.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, _expected()):
            raise
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _expected() -> tuple[type[Exception], ...]:
    """Failures that a sentence says; imported only where something has failed."""
    from connectors.kafka.admin import TopicsRefused
    from connectors.kafka.client import BrokerUnavailable
    from connectors.kafka.partition_reset import ResetRefused
    from connectors.process.metrics_endpoint import PortUnusable
    from schemas.settings.announcement import AlreadyAnnounced, NotAnnounced
    from schemas.settings.connection import SettingsError

    return (
        AlreadyAnnounced,
        BrokerUnavailable,
        NotAnnounced,
        PortUnusable,
        ResetRefused,
        SettingsError,
        TopicsRefused,
    )
