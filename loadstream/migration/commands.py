"""The command group `migration`: `list`, `start`, `pause`, `resume` and `abort`.

The user names a pod as NAMESPACE/NAME. A request contains the uid of the newest pod with this name, so it
cannot affect a later pod with the same name.

Exit codes: 0 done; 1 the request was not written, or with `--wait` was refused or failed; 2 the command
line is wrong; 3 no record names the cluster, the pod or the migration.
"""

from typing import Annotated

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.cli.arguments import Cluster, Json, as_field, parse_length_ms, parse_object_name
from loadstream.cli.command import (
    NOTHING_FOUND,
    as_messages,
    command,
    connect_as_configured,
    warn,
    warn_about_cluster,
)
from loadstream.migration.requests import (
    IgnoreWindows,
    Mode,
    RequestReason,
    Wait,
    check_cluster,
    request_class,
    send_request,
    stop,
)
from schemas.base.printable import escape_json, to_one_line

app = typer.Typer(
    name="migration",
    no_args_is_help=True,
    help="List the migrations of a cluster; start, pause, resume or abort one.",
)

Pod = Annotated[str, typer.Argument(help="The pod: NAMESPACE/NAME.")]
Migration = Annotated[str, typer.Argument(help="Id of the migration, or its pod: NAMESPACE/NAME.")]


@command(app, "migration list prod-eu-1 --all --back 2h", name="list")
def list_(
    cluster: Cluster,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also show migrations that have ended and nodes that were undrained."
        ),
    ] = False,
    back: Annotated[
        str,
        typer.Option(
            help="How far to look back from the newest record for ended migrations: 10m, 1h, 2d."
        ),
    ] = "1d",
    json: Json = False,
) -> None:
    """Show the newest state of unfinished migrations and drains, and failed requests, oldest change first."""
    from connectors.queries.migration_states import read_states
    from schemas.topics.codec import encode

    back_ms = parse_length_ms(back, "--back")
    with as_messages():
        connection = connect_as_configured()
        is_known = warn_about_cluster(connection, cluster)
        states = read_states(connection, cluster, back_ms)
    now_ms = wall_clock.now_ms()
    for message in states.list_statuses(everything=everything):
        echo(
            escape_json(encode(message).decode())
            if json
            else to_one_line(states.format_line(message, now_ms))
        )
    if not json:
        echo(states.summarize())
    elif not states.is_complete:
        warn(states.cut_off)
    if not is_known:
        raise typer.Exit(NOTHING_FOUND)


@command(app, "migration start prod-eu-1 shop/web-1 --wait")
def start(
    cluster: Cluster,
    pod: Pod,
    mode: Mode = None,
    ignore_windows: IgnoreWindows = False,
    reason: RequestReason = "",
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Request that a pod is moved to another node.

    Protections, limits and disruption budgets apply as to every migration. If the policy's mode is
    `observe`, the eviction is marked dry and not carried out.
    """
    from connectors.queries.presence import find_pod

    pod_name = parse_object_name(pod)
    with as_messages():
        connection = connect_as_configured()
        check_cluster(connection, cluster)
        pod_ref = find_pod(connection, cluster, *pod_name)
        if isinstance(pod_ref, str):
            stop(pod_ref)
        send_request(
            connection, cluster, f"requested the migration of pod {pod}", wait=wait, json=json, action="migrate", pod=pod_ref,
            mode=mode, ignore_windows=ignore_windows, reason=reason,
        )  # fmt: skip


@command(
    app,
    "migration abort prod-eu-1 shop/web-1",
    name="abort",
    text="Abort a migration and release its reservation. A pod that was evicted is not moved back.",
)
@command(
    app,
    "migration resume prod-eu-1 shop/web-1",
    name="resume",
    text="Resume a paused migration.",
)
@command(
    app,
    "migration pause prod-eu-1 shop/web-1",
    name="pause",
    text="Pause a migration; its time limit is paused, too.",
)
def change(
    context: typer.Context,
    cluster: Cluster,
    migration: Migration,
    reason: RequestReason = "",
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Request the action that the command is named after."""
    from connectors.queries.migration_states import LIFE_MAX_MS, read_states

    action = str(context.info_name)
    pod_name = parse_object_name(migration) if "/" in migration else None
    if pod_name is None:
        as_field(request_class, "migration_id", "MIGRATION")(migration)
    with as_messages():
        connection = connect_as_configured()
        check_cluster(connection, cluster)
        states = read_states(connection, cluster, LIFE_MAX_MS)
        status = states.find_live(*pod_name) if pod_name else states.migrations.get(migration)
        problem = states.find_obstacle(status, action)
        if problem is not None:
            subject = f"pod {migration}" if pod_name else migration
            stop(f"migration of {subject} in cluster {cluster}: {problem}")
        migration_id = migration if status is None else status.migration_id
        text = f"requested {action} of migration {migration_id}"
        send_request(
            connection, cluster, text, wait=wait, json=json, action=action, migration_id=migration_id,
            reason=reason,
        )  # fmt: skip
