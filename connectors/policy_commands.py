"""The commands around policies: `policy check`, `apply`, `history`, `pause` and `resume`.

A policy is a file that is checked before it is written, and a record of topic `policies` keyed by its
cluster; the newest record of a cluster holds. Pausing and resuming repeat the newest document with the
switch changed, and applying a document leaves the switch as it is. A record takes effect when the
cluster's worker applies it, not when the command ends. Two commands at the same moment: the later
record holds, with the document and the switch that its author saw.

Exit codes: 0 all is well; 1 something is not as it should be, and was said; 2 the command line is wrong.
"""

import io
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.arguments import as_field
from connectors.kafka.failures import as_messages

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.policies import PolicyRecord
    from schemas.policy import KnownPlugins, Policy

#: Where the names of plugins come from; the root that puts the command together tells.
_sources: "list[Callable[[], KnownPlugins]]" = []

app = typer.Typer(
    no_args_is_help=True, help="Check policies, give them to clusters, pause and resume clusters."
)

#: Topic of policies.
TOPIC = "policies"


def _record() -> "type[PolicyRecord]":
    from schemas.policies import PolicyRecord

    return PolicyRecord


def _field(name: str) -> Callable[[Any], Any]:
    """Checks an argument as the field of the record that it becomes."""
    return as_field(_record, name)


Cluster = Annotated[str, typer.Argument(help="Name of the cluster.", callback=_field("cluster"))]
File = Annotated[Path, typer.Argument(help="YAML file; - reads standard input.")]
Comment = Annotated[
    str, typer.Option(help="Why; shown in the history.", callback=_field("comment"))
]


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a cluster's policies, and where it stands."""

    partition: int
    offset: int
    record: "PolicyRecord"


@app.command()
def check(file: File) -> None:
    """Print the effective policy and what of the file has no effect, or every error at once.

    What is printed is YAML that reads back to the same policy.
    """
    from schemas.policy import effective_yaml

    policy, _ = _read(file)
    typer.echo(effective_yaml(policy), nl=False)
    typer.echo(f"# digest: {policy.digest}")
    for path in policy.not_applied:
        typer.echo(f"# not applied: {_printable(path)}")


@app.command()
def apply(cluster: Cluster, file: File, comment: Comment = "") -> None:
    """Make a file the cluster's policy. A file with errors is not written; a pause stays."""
    policy, document = _read(file)
    with as_messages():
        connection = _connect()
        newest = newest_entry(connection, cluster)
        paused = newest is not None and newest.record.paused
        _write(connection, cluster, document, paused=paused, comment=comment)
    for path in policy.not_applied:
        typer.echo(f"not applied: {_printable(path)}", err=True)
    effect = "evictions are marked dry" if policy.dry_run else "evictions are commands"
    typer.echo(f"cluster {cluster} has policy {policy.digest} ({policy.mode}: {effect})")
    if paused:
        typer.echo(f"it stays paused; `loadstream policy resume {cluster}` resumes it")


@app.command()
def history(
    cluster: Cluster,
    document: Annotated[
        bool, typer.Option("--document", help="Also print each document as it was written.")
    ] = False,
) -> None:
    """Show the cluster's policies, oldest first: the last one holds.

    Kafka keeps older ones for 30 days at least, the embedded broker until it ends.
    """
    from connectors.kafka.units import time_text

    with as_messages():
        entries = list(read_entries_of(_connect(), cluster))
    if not entries:
        typer.echo(f"cluster {cluster} has no policy: the default one holds")
    for entry in entries:
        record = entry.record
        parts = [
            time_text(record.applied_at_ms),
            f"{entry.partition}:{entry.offset}",
            _summary(record.document),
            "paused" if record.paused else "running",
            _printable(record.comment),
        ]
        typer.echo("  ".join(part for part in parts if part))
        if document and record.document:
            for line in record.document.splitlines():
                typer.echo(f"    {_printable(line)}")


@app.command()
def pause(cluster: Cluster, comment: Comment = "") -> None:
    """Stop all commands of a cluster at once; requests wait. Its policy stays as it is."""
    _switch(cluster, paused=True, comment=comment)


@app.command()
def resume(cluster: Cluster, comment: Comment = "") -> None:
    """Let a paused cluster go on under its policy."""
    _switch(cluster, paused=False, comment=comment)


def _switch(cluster: str, *, paused: bool, comment: str) -> None:
    """Repeat the newest document with the switch changed; nothing to change is no error."""
    state = "paused" if paused else "running"
    with as_messages():
        connection = _connect()
        newest = newest_entry(connection, cluster)
        # A cluster without a policy runs under the default one, which is the empty document.
        if (newest is not None and newest.record.paused) is paused:
            typer.echo(f"cluster {cluster} is {state} already; nothing was written")
            return
        document = newest.record.document if newest is not None else ""
        _write(connection, cluster, document, paused=paused, comment=comment)
    typer.echo(f"cluster {cluster} is {state}")


def read_entries_of(connection: "Connection", cluster: str) -> Iterator[Entry]:
    """The policies of a cluster, oldest first.

    What no worker would apply is told and left out: records that cannot be read, and those that
    a wrong key or partitioner has put where the cluster's worker does not look.
    """
    from connectors.kafka.admin import find_topics
    from connectors.kafka.client import BrokerUnavailable
    from connectors.kafka.tail import Gap, read_entries
    from schemas.partitions import mislabelled, misplaced
    from schemas.policies import PolicyRecord
    from schemas.topics import TOPIC_BY_NAME

    found = find_topics(connection, [TOPIC])
    if not found:
        servers = ",".join(connection.settings.servers())
        raise BrokerUnavailable(
            f"topic {TOPIC} does not exist at {servers}; make all topics with "
            "`loadstream topics create`"
        )
    partitions = found[TOPIC].partitions
    for entry in read_entries(connection, TOPIC_BY_NAME[TOPIC], "beginning", follow=False):
        if isinstance(entry, Gap):
            typer.echo(f"warning: {entry}", err=True)
            continue
        if entry.cluster != cluster:
            continue
        message = entry.message
        refusal = misplaced(entry.key, entry.partition, partitions)
        if not isinstance(message, PolicyRecord):
            refusal = message
        elif refusal is None:
            refusal = mislabelled(TOPIC, entry.key, message)
        if refusal is None:
            yield Entry(entry.partition, entry.offset, message)
        else:
            place = f"{entry.partition}:{entry.offset}"
            reason = _printable(refusal.reason)
            typer.echo(f"warning: {TOPIC} {place} does not count: {reason}", err=True)


def newest_entry(connection: "Connection", cluster: str) -> Entry | None:
    """The record that holds for a cluster; none: the default policy, running."""
    newest = None
    for entry in read_entries_of(connection, cluster):
        newest = entry
    return newest


def _write(
    connection: "Connection", cluster: str, document: str, *, paused: bool, comment: str
) -> None:
    """Write one record and wait until all replicas have it. Raises BrokerUnavailable."""
    from connectors.kafka.produce import produce_lines
    from schemas.codec import encode
    from schemas.policies import PolicyRecord
    from schemas.topics import TOPIC_BY_NAME

    record = PolicyRecord(
        cluster=cluster,
        document=document,
        paused=paused,
        applied_at_ms=time.time_ns() // 1_000_000,
        comment=comment,
    )
    refused: list[str] = []
    produce_lines(
        connection,
        TOPIC_BY_NAME[TOPIC],
        io.BytesIO(encode(record)),
        on_rejection=lambda rejection: refused.append(rejection.reason),
    )
    if refused:
        typer.echo(f"error: the record was not written: {refused[0]}", err=True)
        raise typer.Exit(1)


def know_plugins(source: "Callable[[], KnownPlugins]") -> None:
    """Let policies name the plugins that `source` answers with, instead of the built-in ones."""
    _sources[:] = [source]


def _known_plugins() -> "KnownPlugins":
    from schemas.policy import BUILT_IN

    return _sources[0]() if _sources else BUILT_IN


def _read(file: Path) -> "tuple[Policy, str]":
    """The policy of a file and its text; errors are printed as `file:line: path: what is wrong`."""
    from schemas.policies import DOCUMENT_BYTES_MAX
    from schemas.policy import PolicyError, read_policy

    name = "standard input" if str(file) == "-" else str(file)
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as stream:
            # One byte more than allowed is enough to refuse a file that is too long.
            text = stream.read(DOCUMENT_BYTES_MAX + 1)
        return read_policy(text, _known_plugins()), text.decode()
    except OSError as error:
        typer.echo(f"error: {name} cannot be read: {error.strerror}", err=True)
    except PolicyError as error:
        for problem in error.problems:
            place = f"{name}:{problem.line}" if problem.line else name
            parts = (place, problem.path, problem.message)
            typer.echo(_printable(": ".join(part for part in parts if part)), err=True)
        count = len(error.problems)
        typer.echo(f"{name}: {count} error{'s' if count > 1 else ''}", err=True)
    raise typer.Exit(1)


def _summary(document: str) -> str:
    """A document in a few words: its digest and mode, or that it cannot be read."""
    from schemas.policy import PolicyError, read_policy

    try:
        policy = read_policy(document, _known_plugins())
    except PolicyError as error:
        return f"{'invalid':16}  {len(error.problems)} errors: not applied"
    return f"{policy.digest}  {policy.mode}"


def _printable(text: str) -> str:
    """Foreign text without what moves a terminal's cursor."""
    return "".join(character if character.isprintable() else " " for character in text)


def _connect() -> "Connection":
    from connectors.kafka.client import connect
    from schemas.connection import KafkaSettings

    return connect(KafkaSettings.from_environment())
