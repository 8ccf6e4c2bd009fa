"""The commands `policy show`, `history`, `diff` and `rollback`.

Exit codes: those of the group (`loadstream.policy.commands`); 1 also if there is no earlier policy.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.policies.entries import (
    TOPIC,
    PolicyEntry,
    format_author,
    format_json,
    format_line,
    format_time_and_age,
    read_entries_of,
    read_valid_entries,
    split_current,
)
from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Cluster, Json
from loadstream.cli.command import (
    NOTHING_FOUND,
    as_messages,
    connect_as_configured,
    warn_about_cluster,
)
from loadstream.cli.files import print_problems
from loadstream.policy.records import (
    By,
    Reason,
    Wait,
    read_policy_file,
    write_record,
)
from schemas.base.printable import escape_json, escape_yaml, to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.policy import Policy


def show(
    cluster: Cluster,
    json: Json = False,
) -> None:
    """Print the cluster's policy with its digest, start time, author and reason.

    The output is YAML with the same effect.
    """
    with as_messages():
        connection = connect_as_configured()
        is_known = warn_about_cluster(connection, cluster)
        entries = read_valid_entries(connection, cluster)
        _, present = split_current(entries)
        state = _read_state(connection, present)
    document = present[-1].record.document if present else ""
    policy = _read_document(document, f"the policy of cluster {cluster}")
    paused = bool(present) and present[-1].record.paused
    if json:
        first = present[0].record if present else None
        fields = {
            "cluster": cluster,
            "digest": policy.digest,
            "mode": policy.mode,
            "paused": paused,
            "state": state,
            "since_ms": None if first is None else first.applied_at_ms,
            "applied_by": "" if first is None else first.applied_by,
            "reason": "" if first is None else first.reason,
            "policy": document,
        }
        print_json(fields)
    else:
        for line in _describe(cluster, policy, entries, state):
            echo(to_one_line(f"# {line}"))
        if document:
            echo(escape_yaml(document.rstrip("\n")))
    if not is_known:
        raise typer.Exit(NOTHING_FOUND)


def history(
    cluster: Cluster,
    document: Annotated[
        bool, typer.Option("--document", help="Also print each document as it was written.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the cluster's policies, oldest first; the last one applies.

    Kafka keeps older policies for at least 30 days, the embedded broker until it ends.
    """
    from connectors.kafka.applied import AppliedRecords
    from streams.placement.registry import KNOWN

    with as_messages():
        connection = connect_as_configured()
        is_known = warn_about_cluster(connection, cluster)
        entries = list(read_entries_of(connection, cluster))
        applied = AppliedRecords(connection, TOPIC)
    if not entries and not json:
        echo(f"cluster {cluster} has no policy: the default policy applies")
    for entry in entries:
        state = applied.state(entry.partition, entry.offset)
        echo(
            escape_json(format_json(entry, state, KNOWN))
            if json
            else to_one_line(format_line(entry, state, KNOWN))
        )
        if document and entry.record.document and not json:
            for line in entry.record.document.splitlines():
                echo(f"    {to_one_line(line)}")
    if not is_known:
        raise typer.Exit(NOTHING_FOUND)


def diff(
    cluster: Cluster,
    file: Annotated[
        Path | None, typer.Argument(help="Compare the cluster's policy with this YAML file.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the fields in which two policies differ, with all defaults filled in.

    Without FILE, the previous policy is compared with the current policy.
    """
    from connectors.policies.differences import list_differences

    other = None if file is None else read_policy_file(file)[0]
    with as_messages():
        connection = connect_as_configured()
        is_known = warn_about_cluster(connection, cluster)
        entries = read_valid_entries(connection, cluster)
    document = entries[-1].record.document if entries else ""
    present = _read_document(document, f"the policy of cluster {cluster}")
    if other is not None:
        differences = list_differences(present, other)
    else:
        earlier = _find_earlier(cluster, entries)
        differences = list_differences(_read_entry(earlier), present)
    for difference in differences:
        if json:
            print_json(asdict(difference))
        else:
            echo(to_one_line(str(difference)))
    if not differences and not json:
        echo("the policies have the same effect")
    if not is_known:
        raise typer.Exit(NOTHING_FOUND)


def rollback(
    cluster: Cluster,
    reason: Reason = "",
    by: By = "",
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Apply the previous policy again, as a new record. A paused cluster stays paused.

    A second rollback undoes the first.
    """
    from connectors.policies.differences import list_differences

    with as_messages():
        connection = connect_as_configured()
        warn_about_cluster(connection, cluster, starting=wait)
        entries = read_valid_entries(connection, cluster)
        earlier = _find_earlier(cluster, entries)
        policy = _read_entry(earlier)
        newest = entries[-1].record
        if not reason:
            reason = f"rollback to the policy of offset {earlier.offset}"
        write_record(
            connection, cluster, earlier.record.document,
            paused=newest.paused, reason=reason, by=by, wait=wait,
        )  # fmt: skip
    if json:
        fields = {"cluster": cluster, "digest": policy.digest, "mode": policy.mode}
        print_json({**fields, "offset": earlier.offset, "paused": newest.paused, "applied": wait})
        return
    applied_at = format_time_and_age(earlier.record.applied_at_ms)
    echo(
        f"cluster {cluster} has policy {policy.digest} ({policy.mode}) again, first applied {applied_at}"
    )
    for difference in list_differences(_read_entry(entries[-1]), policy):
        echo(to_one_line(f"  {difference}"))


def _find_earlier(cluster: str, entries: Sequence[PolicyEntry]) -> PolicyEntry:
    """Return the entry of the previous policy; end the command if there is no previous policy."""
    earlier, _ = split_current(entries)
    if earlier:
        return earlier[-1]
    echo(
        f"error: cluster {cluster} has no earlier policy; `loadstream policy history {cluster}` lists the "
        "policies that Kafka has kept",
        err=True,
    )
    raise typer.Exit(1)


def _read_entry(entry: PolicyEntry) -> "Policy":
    return _read_document(entry.record.document, f"policies {entry.partition}:{entry.offset}")


def _read_document(document: str, name: str) -> "Policy":
    """Read a policy; errors end the command."""
    from schemas.policy import PolicyError, read_policy
    from streams.placement.registry import KNOWN

    try:
        return read_policy(document, KNOWN)
    except PolicyError as error:
        print_problems(name, error.problems)


def _read_state(connection: "Connection", present: Sequence[PolicyEntry]) -> str:
    """Tell whether a worker has applied the newest record; empty if there is no record."""
    from connectors.kafka.applied import AppliedRecords

    if not present:
        return ""
    return AppliedRecords(connection, TOPIC).state(present[-1].partition, present[-1].offset)


def _describe(
    cluster: str, policy: "Policy", entries: Sequence[PolicyEntry], state: str
) -> list[str]:
    if not entries:
        return [
            f"cluster {cluster} has no policy: the default policy applies ({policy.digest}, {policy.mode})"
        ]
    _, present = split_current(entries)
    lines = [
        f"cluster {cluster}: policy {policy.digest}, mode {policy.mode}, {state}",
        f"since {_format_time_and_author(present[0])}",
    ]
    paused = list(takewhile(lambda entry: entry.record.paused, reversed(entries)))
    if paused:
        lines.append(f"paused since {_format_time_and_author(paused[-1])}")
    return lines


def _format_time_and_author(entry: PolicyEntry) -> str:
    author = format_author(entry.record)
    return f"{format_time_and_age(entry.record.applied_at_ms)}{f' {author}' if author else ''}"
