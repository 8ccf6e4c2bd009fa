"""The command group `policy`; `policy check` and `apply`.

Exit codes: 0 done; 1 the policy has errors or was refused; 2 the command line is wrong; 3 no record
names the cluster.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.policies.entries import find_newest_entry
from connectors.process.terminal import echo, print_json
from connectors.units import count_text
from loadstream.cli.arguments import Cluster, Json, check_cluster_name
from loadstream.cli.command import (
    NOTHING_FOUND,
    as_messages,
    command,
    connect_as_configured,
    warn,
    warn_about_cluster,
)
from loadstream.policy.imports import import_
from loadstream.policy.records import (
    By,
    File,
    New,
    Reason,
    Wait,
    read_policy_file,
    require_cluster,
    write_record,
)
from loadstream.policy.versions import diff, history, rollback, show
from schemas.base.printable import escape_yaml, to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.policy import Policy

app = typer.Typer(
    name="policy",
    no_args_is_help=True,
    help="Write, check, apply and compare the policies of clusters.",
)
command(app, "policy import koord-scheduler-config.yaml", name="import", kafka=False)(import_)
command(app, "policy show prod-eu-1")(show)
command(app, "policy history prod-eu-1")(history)
command(app, "policy diff prod-eu-1 policy.yaml")(diff)
command(app, "policy rollback prod-eu-1")(rollback)


@command(app, "policy check policy.yaml --cluster prod-eu-1")
def check(
    file: File,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Also check whether the policy fits this cluster.",
            callback=check_cluster_name,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Print the whole policy, as YAML with the same effect.")
    ] = False,
    json: Json = False,
) -> None:
    """Print whether a policy is valid, its warnings or errors, and how it differs from the defaults."""
    from connectors.policies.differences import list_differences
    from schemas.policy import Policy, effective_yaml

    policy, _ = read_policy_file(file)
    warnings = _warn_all(policy.warnings)
    is_known = True
    if cluster is not None:
        with as_messages():
            connection = connect_as_configured()
            is_known = warn_about_cluster(connection, cluster)
            warnings += _warn_of_cluster(connection, cluster, policy)
    if json:
        print_json(
            {"digest": policy.digest, "mode": policy.mode, "warnings": warnings, "effective": effective_yaml(policy)}
        )  # fmt: skip
    elif everything:
        echo(escape_yaml(effective_yaml(policy)), nl=False)
        echo(f"# digest: {policy.digest}")
    else:
        differences = list_differences(Policy(), policy)
        fields = f"{count_text(len(differences), 'field')} set to another value than the default"
        counted = count_text(len(warnings), "warning") if warnings else "no warnings"
        echo(f"valid; {counted}; {fields}; digest {policy.digest}")
        for difference in differences:
            echo(to_one_line(f"  {difference}"))
    if not is_known:
        raise typer.Exit(NOTHING_FOUND)


def _warn_of_cluster(connection: "Connection", cluster: str, policy: "Policy") -> list[str]:
    from connectors.policies.unmet import find_unmet_requirements

    return _warn_all(find_unmet_requirements(connection, cluster, policy))


def _warn_all(warnings: Iterable[object]) -> list[str]:
    sentences = list(map(str, warnings))
    for sentence in sentences:
        warn(sentence)
    return sentences


@command(app, 'policy apply prod-eu-1 policy.yaml --reason "lower thresholds"')
def apply(
    cluster: Cluster,
    file: File,
    reason: Reason = "",
    by: By = "",
    wait: Wait = False,
    new: New = False,
    json: Json = False,
) -> None:
    """Make a file the cluster's policy. A file with errors is not written. A paused cluster stays paused."""
    policy, document = read_policy_file(file)
    warnings = _warn_all(policy.warnings)
    with as_messages():
        connection = connect_as_configured()
        require_cluster(connection, cluster, new=new, wait=wait)
        warnings += _warn_of_cluster(connection, cluster, policy)
        newest = find_newest_entry(connection, cluster)
        paused = newest is not None and newest.record.paused
        write_record(connection, cluster, document, paused=paused, reason=reason, by=by, wait=wait)
    if json:
        fields = {"cluster": cluster, "digest": policy.digest, "mode": policy.mode}
        print_json({**fields, "paused": paused, "warnings": warnings, "applied": wait})
        return
    echo(f"cluster {cluster} has policy {policy.digest} ({policy.mode}: {_effect(policy)})")
    if paused:
        echo(f"the cluster stays paused; `loadstream cluster resume {cluster}` resumes it")


def _effect(policy: "Policy") -> str:
    if policy.is_dry_for("request"):
        return "evictions are marked dry"
    if policy.dry_run:
        return "evictions of rounds are marked dry, requested evictions are carried out"
    return "evictions are carried out"
