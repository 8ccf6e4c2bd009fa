"""Registers commands, connects them to Kafka, and prints their warnings and expected failures."""

import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection

#: Exit codes of all commands; the root help and the reference show them.
EXIT_CODES = {
    0: "Done, or the program was stopped by SIGTERM.",
    1: "The command failed or was refused; the last sentence on standard error says why.",
    2: "The command line or a setting is wrong, or a required tool is missing.",
    3: "There is no answer: no record names the cluster or object, or part of the history to replay is gone.",
    130: "Ctrl-C.",
}
#: Exit code if no record names the cluster or object of the command.
NOTHING_FOUND = 3
#: The setting that the option overrides; its module (`schemas.settings.connection`) is slow to import.
_SERVERS = "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS"
_Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        help=f"Kafka brokers. Default: {_SERVERS}, or the broker started by `loadstream broker`.",
    ),
]


def command(
    app: typer.Typer,
    example: str,
    *,
    name: str | None = None,
    text: str | None = None,
    kafka: bool = True,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command of an app. One function can be several commands.

    Args:
        app: app or group of the command.
        example: command line without `loadstream`, for the help.
        name: name of the command; None: the name of the function.
        text: help of the command; None: the docstring of the function.
        kafka: whether the command connects to Kafka and has the option `--bootstrap`.
    """

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        declared = _with_bootstrap(function) if kafka else function
        app.command(name, help=text, epilog=f"Example: loadstream {example}")(declared)
        return function

    return declare


def _with_bootstrap(function: Callable[..., None]) -> Callable[..., None]:
    """Add an option that sets the brokers while the function runs."""

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
    """Set an environment variable within a block; None leaves it unchanged."""
    earlier_value = os.environ.get(name)
    os.environ |= {} if value is None else {name: value}
    try:
        yield
    finally:
        os.environ.pop(name, None)
        os.environ |= {} if earlier_value is None else {name: earlier_value}


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows in columns, the header first."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        echo(to_one_line("  ".join(cells).rstrip()))


def connect_as_configured() -> "Connection":
    """Connect to the brokers of the environment. Raises BrokerUnavailable."""
    from connectors.kafka.client import connect
    from schemas.settings.connection import KafkaSettings

    return connect(KafkaSettings.from_environment())


@contextmanager
def as_messages(*expected: type[Exception], code: int = 1) -> Iterator[None]:
    """End the command with a sentence and an exit code on expected failures, with 130 on Ctrl-C.

    Failures of connections and settings are always expected. Any other exception is a bug and keeps its
    traceback.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (*expected, *_list_expected())):
            raise
        echo(f"error: {error}", err=True)
        raise typer.Exit(code) from None
    except KeyboardInterrupt:
        # Ctrl-C may come before a coroutine starts; Python would report it at the end.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        raise typer.Exit(130) from None


def _list_expected() -> tuple[type[Exception], ...]:
    # Imported only after a failure, because the imports are slow.
    from connectors.kafka.admin import TopicsRefused
    from connectors.kafka.client import BrokerUnavailable
    from connectors.process.metrics_endpoint import PortUnusable
    from schemas.settings.announcement import AlreadyAnnounced, NotAnnounced
    from schemas.settings.environment import SettingsError

    return (
        AlreadyAnnounced,
        BrokerUnavailable,
        NotAnnounced,
        PortUnusable,
        SettingsError,
        TopicsRefused,
    )


def warn(text: str) -> None:
    echo(f"warning: {to_one_line(text)}", err=True)


def warn_about_cluster(connection: "Connection", cluster: str, *, starting: bool = False) -> bool:
    """Warn if no worker writes for a cluster, or no record of a producer names it.

    Returns whether a producer names the cluster. With `starting`, a worker may still be starting, so a
    clock that has never ticked is not reported. Raises BrokerUnavailable.
    """
    from connectors.queries.presence import describe_silence, last_tick_ms, search_cluster

    tick_ms = last_tick_ms(connection, cluster)
    silence = (
        None if starting and tick_ms is None else describe_silence(tick_ms, wall_clock.now_ms())
    )
    if silence is not None:
        warn(silence)
    problem = search_cluster(connection, cluster).warning(f"Cluster {cluster}")
    if problem is not None:
        warn(problem)
    return problem is None
