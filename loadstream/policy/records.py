"""Records of topic `policies`, which `policy apply`, `cluster pause` and `cluster resume` write.

The newest record of a cluster holds. Pausing and resuming repeat the newest document with the
switch changed, and applying a document leaves the switch as it is. A record takes effect when the
cluster's worker applies it, not when the command ends, unless `--wait` waits for that. Two commands
at the same moment: the later record holds, with the document and the switch that its author saw.
"""

from threading import Timer
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.policies.entries import TOPIC
from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.cli.arguments import as_field
from loadstream.cli.warnings import NOTHING_FOUND, warn, warn_first
from schemas.base.printable import to_one_line

#: A worker that starts has read a policy after this time, in seconds.
WORKER_START_S = 60.0

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.messages.policies import PolicyRecord


def _record() -> "type[PolicyRecord]":
    from schemas.messages.policies import PolicyRecord

    return PolicyRecord


Cluster = Annotated[
    str, typer.Argument(help="Name of the cluster.", callback=as_field(_record, "cluster"))
]
Reason = Annotated[
    str,
    typer.Option(
        "--reason", help="Why; shown in the history.", callback=as_field(_record, "comment")
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the cluster's worker has applied or refused it.")
]
New = Annotated[
    bool, typer.Option("--new", help="Write it even if no record has named the cluster.")
]


def check_named(connection: "Connection", cluster: str, *, new: bool, wait: bool) -> None:
    """End the command if nothing names the cluster, which may be mistyped, and it is not to be new.

    Raises BrokerUnavailable.
    """
    if not warn_first(connection, cluster, starting=wait) and not new:
        echo("error: nothing was written; --new writes it for a new cluster", err=True)
        raise typer.Exit(NOTHING_FOUND)


def write_record(
    connection: "Connection",
    cluster: str,
    document: str,
    *,
    paused: bool,
    comment: str,
    wait: bool,
) -> None:
    """Write one record and wait until all replicas have it. Raises BrokerUnavailable."""
    from connectors.kafka.produce import produce_messages
    from schemas.messages.policies import PolicyRecord

    record = PolicyRecord(
        cluster=cluster,
        document=document,
        paused=paused,
        applied_at_ms=wall_clock.now_ms(),
        comment=comment,
    )
    places, refused = produce_messages(connection, TOPIC, [record])
    if refused:
        echo(f"error: the record was not written: {refused[0]}", err=True)
        raise typer.Exit(1)
    if wait:
        wait_until_applied(connection, places)


def wait_until_applied(connection: "Connection", places: list[tuple[int, int]]) -> None:
    """Until a worker has read the records; Ctrl-C ends the command and not the policy."""
    from connectors.kafka.applied import APPLIED, follow

    text = "No worker has read the policy yet. Start `loadstream worker`, if none runs."
    timer = Timer(WORKER_START_S, warn, [text])
    timer.daemon = True
    timer.start()
    try:
        for _, state in follow(connection, TOPIC, places):
            if state != APPLIED:
                echo(f"error: {to_one_line(state)}", err=True)
                raise typer.Exit(1)
    finally:
        timer.cancel()
