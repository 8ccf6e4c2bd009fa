"""Records of topic `policies`, which `policy apply`, `policy rollback`, `cluster pause` and `cluster
resume` write.

The newest record of a cluster applies. It contains the document and whether the cluster is paused:
pausing and resuming repeat the document, and a new document leaves the cluster paused or running. A
record takes effect when the worker of the cluster applies it; `--wait` waits for that. If two commands
run at the same time, the later record replaces the whole earlier record.
"""

import getpass
import json
import os
import socket
from base64 import urlsafe_b64decode
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.policies.entries import TOPIC
from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.cli.arguments import as_field
from loadstream.cli.command import NOTHING_FOUND, warn, warn_about_cluster
from loadstream.cli.files import print_problems, read_file
from schemas.base.printable import to_one_line

#: Token of a pod's service account, where it is mounted.
SERVICE_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
#: Seconds after which a worker that starts has read a policy.
WORKER_START_S = 60.0

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.messages.policies import PolicyRecord
    from schemas.policy import Policy


def _record() -> "type[PolicyRecord]":
    from schemas.messages.policies import PolicyRecord

    return PolicyRecord


Reason = Annotated[
    str,
    typer.Option(
        "--reason", help="Reason; shown in the history.", callback=as_field(_record, "reason")
    ),
]
By = Annotated[
    str,
    typer.Option(
        "--by",
        help="Author; shown in the history. Default: the service account in a pod, else user@host.",
        callback=as_field(_record, "applied_by"),
    ),
]
File = Annotated[Path, typer.Argument(help="YAML file; - reads standard input.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until a worker has applied or refused the record.")
]
New = Annotated[
    bool, typer.Option("--new", help="Write the record even if no record names the cluster.")
]


def read_policy_file(file: Path) -> "tuple[Policy, str]":
    """Return the policy of a file and its text; errors end the command."""
    from schemas.messages.policies import DOCUMENT_BYTES_MAX
    from schemas.policy import PolicyError, read_policy
    from streams.placement.registry import KNOWN

    name, text = read_file(file, DOCUMENT_BYTES_MAX)
    try:
        return read_policy(text, KNOWN), text.decode()
    except PolicyError as error:
        print_problems(name, error.problems)


def require_cluster(connection: "Connection", cluster: str, *, new: bool, wait: bool) -> None:
    """End the command if no record names the cluster, unless it is new. Raises BrokerUnavailable."""
    if not warn_about_cluster(connection, cluster, starting=wait) and not new:
        echo("error: nothing was written; use --new for a new cluster", err=True)
        raise typer.Exit(NOTHING_FOUND)


def write_record(
    connection: "Connection",
    cluster: str,
    document: str,
    *,
    paused: bool,
    reason: str,
    by: str,
    wait: bool,
) -> None:
    """Write one record; an empty `by` becomes the author of this process. Raises BrokerUnavailable."""
    from connectors.kafka.produce import produce_messages
    from schemas.messages.policies import AUTHOR_MAX, PolicyRecord

    record = PolicyRecord(
        cluster=cluster,
        document=document,
        paused=paused,
        applied_at_ms=wall_clock.now_ms(),
        applied_by=(by or find_author())[:AUTHOR_MAX],
        reason=reason,
    )
    positions, refused = produce_messages(connection, TOPIC, [record])
    if refused:
        echo(f"error: the record was not written: {refused[0]}", err=True)
        raise typer.Exit(1)
    if wait:
        wait_until_applied(connection, *positions[0])


def find_author() -> str:
    """Return the author of this process's records: the service account of its pod, else user@host."""
    with suppress(OSError, ValueError, IndexError, KeyError, TypeError):
        _, claims, _ = SERVICE_TOKEN.read_text(encoding="ascii").split(".")
        # Base64 of a token has no padding; superfluous padding is ignored.
        return str(json.loads(urlsafe_b64decode(claims + "=="))["sub"])
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())  # the image's user has no entry in /etc/passwd
    return f"{user}@{socket.gethostname()}"


def wait_until_applied(connection: "Connection", partition: int, offset: int) -> None:
    """Wait until a worker has read the record; Ctrl-C ends the command, and the record stays."""
    from connectors.kafka.applied import APPLIED, wait_for_result

    text = "No worker has read the policy yet. Start `loadstream worker`, if none runs."
    timer = Timer(WORKER_START_S, warn, [text])
    timer.daemon = True
    timer.start()
    try:
        state = wait_for_result(connection, TOPIC, partition, offset)
    finally:
        timer.cancel()
    if state != APPLIED:
        echo(f"error: {to_one_line(state)}", err=True)
        raise typer.Exit(1)
