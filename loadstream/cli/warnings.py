"""Warnings on standard error, such as those about the cluster of a command."""

from typing import TYPE_CHECKING

from connectors.process import wall_clock
from connectors.process.terminal import echo
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection

#: Exit code if no record names the cluster or object of the command.
NOTHING_FOUND = 3


def warn(text: str) -> None:
    echo(f"warning: {to_one_line(text)}", err=True)


def warn_about_cluster(connection: "Connection", cluster: str, *, starting: bool = False) -> bool:
    """Warn if no worker writes for a cluster, or no record of a producer names it.

    Returns whether a producer names the cluster. With `starting`, a worker may still be starting, so a
    clock that has never ticked is not reported. Raises BrokerUnavailable.
    """
    from connectors.queries.presence import describe_silence, last_tick_ms, seek_cluster

    tick_ms = last_tick_ms(connection, cluster)
    silent = (
        None if starting and tick_ms is None else describe_silence(tick_ms, wall_clock.now_ms())
    )
    if silent is not None:
        warn(silent)
    unseen = seek_cluster(connection, cluster).warning(f"Cluster {cluster}")
    if unseen is not None:
        warn(unseen)
    return unseen is None
