"""How a command is declared, with an example in its help; how it connects to Kafka; how it fails."""

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.process.terminal import echo
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection

#: The setting that the option takes the place of (`schemas.settings.connection`, which is heavy).
_SERVERS = "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS"
_Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        help=f"Kafka brokers. Default: {_SERVERS}, or the broker started by `loadstream broker`.",
    ),
]


def command(
    app: typer.Typer, example: str, *, name: str | None = None, kafka: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command of an app.

    Args:
        app: the app or group that the command belongs to.
        example: what follows `loadstream` in the example of its help.
        name: of the command; none: the function's.
        kafka: it talks to Kafka, and takes `--bootstrap`.
    """

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        made = _with_bootstrap(function) if kafka else function
        app.command(name, epilog=f"Example: loadstream {example}")(made)
        return function

    return declare


def _with_bootstrap(function: Callable[..., None]) -> Callable[..., None]:
    """The function with one option more, which sets the brokers for as long as it runs."""

    @wraps(function)
    def run(bootstrap: str | None, **options: Any) -> None:
        with _environment(_SERVERS, bootstrap):
            function(**options)

    signature = inspect.signature(function)
    option = inspect.Parameter(
        "bootstrap", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Bootstrap
    )
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**function.__annotations__, "bootstrap": _Bootstrap}
    return run


@contextmanager
def _environment(name: str, value: str | None) -> Iterator[None]:
    """Set a variable of the environment for a while; a value of none leaves it as it is."""
    before = os.environ.get(name)
    os.environ |= {} if value is None else {name: value}
    try:
        yield
    finally:
        os.environ.pop(name, None)
        os.environ |= {} if before is None else {name: before}


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of cells, the header first, in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        echo(to_one_line("  ".join(cells).rstrip()))


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
        if not isinstance(error, _list_expected()):
            raise
        echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _list_expected() -> tuple[type[Exception], ...]:
    """Failures that a sentence says; imported only where something has failed."""
    from connectors.kafka.admin import TopicsRefused
    from connectors.kafka.client import BrokerUnavailable
    from connectors.process.metrics_endpoint import PortUnusable
    from loadstream.partition_reset import ResetRefused
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
