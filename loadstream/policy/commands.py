"""The command group `policy`: a file is checked, then written as the cluster's newest policy.

Exit codes: 0 all is well; 1 something is not as it should be, and was reported; 2 the command line
is wrong; 3 nothing has ever named the cluster.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.policies.entries import TOPIC, newest_entry, read_entries_of
from connectors.policies.history import as_json, as_line
from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json, cluster_name
from loadstream.cli.command import as_messages, command, connect_as_configured
from loadstream.cli.files import print_problems, read_file
from loadstream.cli.warnings import NOTHING_FOUND, warn, warn_first
from loadstream.policy.draft import init
from loadstream.policy.imports import import_
from loadstream.policy.records import Cluster, New, Reason, Wait, check_named, write_record
from schemas.base.printable import escape_json, escape_yaml, to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.policy import Policy

app = typer.Typer(
    name="policy", no_args_is_help=True, help="Write, check and apply the policies of clusters."
)
command(app, "policy init prod-eu-1 --output policy.yaml")(init)
command(app, "policy import koord-scheduler-config.yaml", name="import", kafka=False)(import_)


File = Annotated[Path, typer.Argument(help="YAML file; - reads standard input.")]


@command(app, "policy check policy.yaml --cluster prod-eu-1")
def check(
    file: File,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Also check whether the policy fits what is known of this cluster.",
            callback=cluster_name,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print the effective policy and warnings about the file, or every error at once.

    What is printed is YAML that reads back to the same policy.
    """
    from schemas.policy import effective_yaml

    policy, _ = _read(file)
    warnings = _show_warnings(policy)
    if not json:
        echo(escape_yaml(effective_yaml(policy)), nl=False)
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
    from connectors.policies.unmet import unmet

    found = list(unmet(connection, cluster, policy))
    for sentence in found:
        warn(sentence)
    return found


@command(app, 'policy apply prod-eu-1 policy.yaml --reason "lower thresholds"')
def apply(
    cluster: Cluster,
    file: File,
    reason: Reason = "",
    wait: Wait = False,
    new: New = False,
    json: Json = False,
) -> None:
    """Make a file the cluster's policy. A file with errors is not written. A paused cluster stays paused."""
    policy, document = _read(file)
    warnings = _show_warnings(policy)
    with as_messages():
        connection = connect_as_configured()
        check_named(connection, cluster, new=new, wait=wait)
        warnings += _warn_of_cluster(connection, cluster, policy)
        newest = newest_entry(connection, cluster)
        paused = newest is not None and newest.record.paused
        write_record(connection, cluster, document, paused=paused, comment=reason, wait=wait)
    if json:
        whole = {"cluster": cluster, "digest": policy.digest, "mode": policy.mode, "paused": paused}
        print_json({**whole, "warnings": warnings, "applied": wait})
        return
    echo(f"cluster {cluster} has policy {policy.digest} ({policy.mode}: {_effect(policy)})")
    if paused:
        echo(f"it stays paused; `loadstream cluster resume {cluster}` resumes it")


def _effect(policy: "Policy") -> str:
    """Whether evictions are carried out."""
    if policy.is_dry_for("request"):
        return "evictions are marked dry"
    if policy.dry_run:
        return "evictions of rounds are marked dry, those that are asked for are commands"
    return "evictions are commands"


@command(app, "policy history prod-eu-1")
def history(
    cluster: Cluster,
    document: Annotated[
        bool, typer.Option("--document", help="Also print each document as it was written.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the cluster's policies, oldest first: the last one holds.

    Kafka keeps older ones for 30 days at least, the embedded broker until it ends.
    """
    from connectors.kafka.applied import Applied
    from streams.placement.registry import KNOWN

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
            escape_json(as_json(entry, state, KNOWN))
            if json
            else to_one_line(as_line(entry, state, KNOWN))
        )
        if document and entry.record.document and not json:
            for line in entry.record.document.splitlines():
                echo(f"    {to_one_line(line)}")
    _end(seen)


def _end(seen: bool) -> None:
    if not seen:
        raise typer.Exit(NOTHING_FOUND)


def _read(file: Path) -> "tuple[Policy, str]":
    """The policy of a file and its text; errors are printed and end the command."""
    from schemas.messages.policies import DOCUMENT_BYTES_MAX
    from schemas.policy import PolicyError, read_policy
    from streams.placement.registry import KNOWN

    name, text = read_file(file, DOCUMENT_BYTES_MAX)
    try:
        return read_policy(text, KNOWN), text.decode()
    except PolicyError as error:
        print_problems(name, error.problems)
