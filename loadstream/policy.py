"""The commands around policies: `policy check`, `apply`, `history`, `pause` and `resume`.

A policy is a file that is checked before it is written, and a record of topic `policies` keyed by
its cluster; the newest record of a cluster holds. Pausing and resuming repeat the newest document
with the switch changed, and applying a document leaves the switch as it is. A record takes effect
when the cluster's worker applies it, not when the command ends, unless `--wait` waits for that. Two
commands at the same moment: the later record holds, with the document and the switch that its
author saw.

Exit codes: 0 all is well; 1 something is not as it should be, and was reported; 2 the command line
is wrong; 3 done, for a cluster that nothing has ever named, which may be a mistyped one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.policy.entries import TOPIC, is_set_apart, newest_entry, read_entries_of
from connectors.policy.history import as_json, as_line
from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json
from loadstream import policy_draft as draft_commands
from loadstream import policy_import as import_commands
from loadstream.arguments import as_field, cluster_name
from loadstream.cluster_warnings import UNSEEN, warn, warn_first
from loadstream.failures import as_messages, connect_as_configured
from loadstream.policy_files import print_problems, read_file
from schemas.base.printable import json_text, one_line, yaml_text

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.messages.policies import PolicyRecord
    from schemas.policy import Policy

app = typer.Typer(
    no_args_is_help=True, help="Check policies, give them to clusters, pause and resume clusters."
)
draft_commands.register(app)
import_commands.register(app)


def _record() -> "type[PolicyRecord]":
    from schemas.messages.policies import PolicyRecord

    return PolicyRecord


def _field(name: str) -> Callable[[Any], Any]:
    """Checks an argument as the field of the record that it becomes."""
    return as_field(_record, name)


Cluster = Annotated[str, typer.Argument(help="Name of the cluster.", callback=_field("cluster"))]
File = Annotated[Path, typer.Argument(help="YAML file; - reads standard input.")]
Reason = Annotated[
    str, typer.Option("--reason", help="Why; shown in the history.", callback=_field("comment"))
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the cluster's worker has applied or refused it.")
]


@app.command()
def check(
    file: File,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Also check whether the policy fits what is known of this cluster.",
            callback=cluster_name,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print the effective policy and warnings about the file, or every error at once.

    What is printed is YAML that reads back to the same policy.
    """
    from schemas.policy import effective_yaml

    policy, _ = _read(file)
    warnings = _show_warnings(policy)
    if not json:
        echo(yaml_text(effective_yaml(policy)), nl=False)
        echo(f"# digest: {policy.digest}")
    seen = True
    if cluster is not None:
        with as_messages():
            connection = connect_as_configured()
            seen = warn_first(connection, cluster)
            warnings += _warn_of_cluster(connection, cluster, policy)
    if json:
        print_json(
            {"digest": policy.digest, "mode": policy.mode, "warnings": warnings, "effective": effective_yaml(policy)}
        )  # fmt: skip
    _end(seen)


def _show_warnings(policy: "Policy") -> list[str]:
    warnings = [str(each) for each in policy.warnings]
    for sentence in warnings:
        warn(sentence)
    return warnings


def _warn_of_cluster(connection: "Connection", cluster: str, policy: "Policy") -> list[str]:
    """Warn of what the policy needs and the cluster does not have."""
    from connectors.policy.unmet import unmet

    found = list(unmet(connection, cluster, policy))
    for sentence in found:
        warn(sentence)
    return found


@app.command()
def apply(
    cluster: Cluster,
    file: File,
    reason: Reason = "",
    wait: Wait = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Make a file the cluster's policy. A file with errors is not written; a pause stays."""
    policy, document = _read(file)
    warnings = _show_warnings(policy)
    with as_messages():
        connection = connect_as_configured()
        seen = warn_first(connection, cluster)
        warnings += _warn_of_cluster(connection, cluster, policy)
        newest = newest_entry(connection, cluster)
        paused = newest is not None and newest.record.paused
        _write(connection, cluster, document, paused=paused, comment=reason, wait=wait)
    if json:
        whole = {"cluster": cluster, "digest": policy.digest, "mode": policy.mode, "paused": paused}
        print_json(
            {
                **whole,
                "warnings": warnings,
                "applied": wait,
            }
        )
        _end(seen)
        return
    echo(f"cluster {cluster} has policy {policy.digest} ({policy.mode}: {_effect(policy)})")
    if paused:
        echo(f"it stays paused; `loadstream policy resume {cluster}` resumes it")
    _end(seen)


def _effect(policy: "Policy") -> str:
    """Whether evictions are carried out."""
    if policy.dry_for("request"):
        return "evictions are marked dry"
    if policy.dry_run:
        return "evictions of rounds are marked dry, those of migrate and drain are commands"
    return "evictions are commands"


@app.command()
def history(
    cluster: Cluster,
    document: Annotated[
        bool, typer.Option("--document", help="Also print each document as it was written.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per policy.")] = False,
) -> None:
    """Show the cluster's policies, oldest first: the last one holds.

    Kafka keeps older ones for 30 days at least, the embedded broker until it ends.
    """
    from connectors.kafka.applied import Applied
    from streams.placement.plugins.registry import KNOWN

    with as_messages():
        connection = connect_as_configured()
        seen = warn_first(connection, cluster)
        entries = list(read_entries_of(connection, cluster))
        applied = Applied(connection, TOPIC)
    if not entries and not json:
        echo(f"cluster {cluster} has no policy: the default one holds")
    for entry in entries:
        state = applied.state(entry.partition, entry.offset)
        echo(
            json_text(as_json(entry, state, KNOWN))
            if json
            else one_line(as_line(entry, state, KNOWN))
        )
        if document and entry.record.document and not json:
            for line in entry.record.document.splitlines():
                echo(f"    {one_line(line)}")
    _end(seen)


@app.command()
def pause(
    cluster: Cluster,
    reason: Reason = "",
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Stop all commands of a cluster at once; requests wait. Its policy stays as it is."""
    _switch(cluster, paused=True, comment=reason, wait=wait, json=json)


@app.command()
def resume(
    cluster: Cluster,
    reason: Reason = "",
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Let a paused cluster go on under its policy, or one that was set apart after defects."""
    _switch(cluster, paused=False, comment=reason, wait=wait, json=json)


def _end(seen: bool) -> None:
    if not seen:
        raise typer.Exit(UNSEEN)


def _switch(cluster: str, *, paused: bool, comment: str, wait: bool, json: bool) -> None:
    """Repeat the newest document with the switch changed; nothing to change is no error.

    A cluster that is set apart comes back with the same document, so resuming repeats it.
    """
    state = "paused" if paused else "running"
    with as_messages():
        connection = connect_as_configured()
        seen = warn_first(connection, cluster)
        newest = newest_entry(connection, cluster)
        # A cluster without a policy runs under the default one, which is the empty document.
        before = newest is not None and newest.record.paused
        again = not (before or paused) and is_set_apart(connection, cluster)
        if before is paused and not again:
            if wait and newest is not None:
                _wait(connection, [(newest.partition, newest.offset)])
            if json:
                print_json(
                    {"cluster": cluster, "paused": paused, "written": False, "applied": wait}
                )
            else:
                echo(f"cluster {cluster} is {state} already; nothing was written")
            _end(seen)
            return
        document = newest.record.document if newest is not None else ""
        _write(connection, cluster, document, paused=paused, comment=comment, wait=wait)
    if json:
        print_json({"cluster": cluster, "paused": paused, "written": True, "applied": wait})
    else:
        tried = "; it was set apart after defects and is tried again" if again else ""
        echo(f"cluster {cluster} is {state}{tried}")
    _end(seen)


def _write(
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
        _wait(connection, places)


def _wait(connection: "Connection", places: list[tuple[int, int]]) -> None:
    """Until a worker has read the record; Ctrl-C ends the command and not the policy."""
    from connectors.kafka.applied import APPLIED, follow

    for _, state in follow(connection, TOPIC, places):
        if state != APPLIED:
            echo(f"error: {one_line(state)}", err=True)
            raise typer.Exit(1)


def _read(file: Path) -> "tuple[Policy, str]":
    """The policy of a file and its text; errors are printed and end the command."""
    from schemas.messages.policies import DOCUMENT_BYTES_MAX
    from schemas.policy import PolicyError, read_policy
    from streams.placement.plugins.registry import KNOWN

    name, text = read_file(file, DOCUMENT_BYTES_MAX)
    try:
        return read_policy(text, KNOWN), text.decode()
    except PolicyError as error:
        print_problems(name, error.problems)
