"""The commands `migrate`, `drain`, `undrain`, `migration pause|resume|abort` and `migrations`.

The first five write one request to topic `migration-requests`; the cluster's worker answers on
topic `status`, or in `dead-letters` if it refuses, after the command has ended or, with
`--wait`, before. `migrations` reads the answers. A pod is named as NAMESPACE/NAME, and its uid is
looked up in the newest records about it, so that a request never meets another pod of the same
name. A cluster, node, pod or migration that nothing names is refused here: a mistyped name becomes
no dead letter.

Exit codes: 0 it was written, or shown; 1 it was not, or was refused or failed, with the reason; 2
the command line is wrong; 3 shown, of a cluster that nothing has ever named.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.arguments import as_field, length_ms, pod_name
from loadstream.cluster_warnings import UNSEEN, warn, warn_first
from loadstream.failures import as_messages, connect_as_configured
from loadstream.migration_requests import ask, stop
from schemas.base.printable import json_text, one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.messages.migrations import MigrationRequest
    from schemas.messages.pods import PodRef

#: The longest life that a request may ask for; a test holds it to the schema.
_TTL_MAX_MS = 86_400_000

migration = typer.Typer(no_args_is_help=True, help="Pause, resume and abort a migration.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(migrate)
    app.command()(drain)
    app.command()(undrain)
    app.command()(migrations)
    app.add_typer(migration, name="migration")


def _record() -> "type[MigrationRequest]":
    from schemas.messages.migrations import MigrationRequest

    return MigrationRequest


def _pod() -> "type[PodRef]":
    from schemas.messages.pods import PodRef

    return PodRef


def _field(name: str) -> Callable[[Any], Any]:
    """Checks an argument as the field of the record that it becomes."""
    return as_field(_record, name)


Cluster = Annotated[str, typer.Argument(help="Name of the cluster.", callback=_field("cluster"))]
Node = Annotated[str, typer.Argument(help="Name of the node.", callback=_field("node"))]
Pod = Annotated[str, typer.Argument(help="The pod: NAMESPACE/NAME.")]
Which = Annotated[str, typer.Argument(help="Id of the migration, or its pod: NAMESPACE/NAME.")]
HowTo = Annotated[
    str | None,
    typer.Option(
        "--mode",
        help="ReservationFirst: room elsewhere is held before the pod is evicted; EvictDirectly: it "
        "is not. As the policy says if not given.",
        callback=_field("mode"),
    ),
]
Ttl = Annotated[
    str | None,
    typer.Option(help="How long a migration may take: 5m, 1h. As the policy says if not given."),
]
Windows = Annotated[
    bool, typer.Option("--ignore-windows", help="Do not wait for a maintenance window.")
]
Why = Annotated[
    str, typer.Option("--reason", help="Why, in your words.", callback=_field("reason"))
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Follow the request to its answer, until it is done.")
]
Json = Annotated[
    bool, typer.Option("--json", help="JSON: the request, and with --wait one object per answer.")
]


def migrate(
    cluster: Cluster,
    pod: Pod,
    mode: HowTo = None,
    ttl: Ttl = None,
    ignore_windows: Windows = False,
    reason: Why = "",
    uid: Annotated[
        str | None,
        typer.Option(help="uid of the pod; looked up in topic pod-lifecycle if not given."),
    ] = None,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Ask for a pod to be moved to another node.

    Protections, limits and disruption budgets hold as for any migration; in a cluster that only
    observes, it is marked dry.
    """
    named, ttl_ms = pod_name(pod), _ttl_ms(ttl)
    _check_pod(*named, uid)
    with as_messages():
        connection = connect_as_configured()
        _check_cluster(connection, cluster)
        ref = _pod_ref(connection, cluster, named, uid)
        ask(
            connection, cluster, f"pod {pod} is to be migrated", wait=wait, json=json, action="migrate", pod=ref,
            mode=mode, ttl_ms=ttl_ms, ignore_windows=ignore_windows, reason=reason,
        )  # fmt: skip


def drain(
    cluster: Cluster,
    node: Node,
    mode: HowTo = None,
    ttl: Ttl = None,
    ignore_windows: Windows = False,
    reason: Why = "",
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Ask for a node to be emptied: it takes no new pods, and those on it are migrated.

    It stays so until `loadstream undrain`. Pods that may not be evicted stay, and are named.
    """
    ttl_ms = _ttl_ms(ttl)
    with as_messages():
        connection = connect_as_configured()
        _check_cluster(connection, cluster)
        _stop_unless_seen(connection, cluster, node)
        ask(
            connection, cluster, f"node {node} is to be drained", wait=wait, json=json, action="drain", node=node,
            mode=mode, ttl_ms=ttl_ms, ignore_windows=ignore_windows, reason=reason,
        )  # fmt: skip


def undrain(
    cluster: Cluster, node: Node, reason: Why = "", wait: Wait = False, json: Json = False
) -> None:
    """Let a node that was drained, or is being drained, take pods again."""
    from connectors.queries.migration_states import LIFE_MAX_MS, read_states

    with as_messages():
        connection = connect_as_configured()
        _check_cluster(connection, cluster)
        states = read_states(connection, cluster, LIFE_MAX_MS)
        if states.undrained(node):
            stop(f"node {node} of cluster {cluster} is not being drained")
        if node not in states.drains:  # one that was removed meanwhile may come back
            _stop_unless_seen(connection, cluster, node)
        said = f"node {node} is to take pods again"
        ask(
            connection,
            cluster,
            said,
            wait=wait,
            json=json,
            action="undrain",
            node=node,
            reason=reason,
        )


@migration.command()
def pause(
    cluster: Cluster, which: Which, reason: Why = "", wait: Wait = False, json: Json = False
) -> None:
    """Hold a migration where it is; its time does not run."""
    _switch(cluster, which, "pause", "is to pause", reason, wait=wait, json=json)


@migration.command()
def resume(
    cluster: Cluster, which: Which, reason: Why = "", wait: Wait = False, json: Json = False
) -> None:
    """Let a paused migration go on."""
    _switch(cluster, which, "resume", "is to go on", reason, wait=wait, json=json)


@migration.command()
def abort(
    cluster: Cluster, which: Which, reason: Why = "", wait: Wait = False, json: Json = False
) -> None:
    """Give a migration up; room that is held for it is given back. A pod that has left is not moved back."""
    _switch(cluster, which, "abort", "is to be given up", reason, wait=wait, json=json)


def migrations(
    cluster: Cluster,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also those that have ended, and nodes that were undrained."),
    ] = False,
    back: Annotated[
        str,
        typer.Option(
            help="For those that have ended, how far to look back from the newest record: 10m, 1h, 2d."
        ),
    ] = "1d",
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show the newest state of a cluster's migrations and drains, oldest change first."""
    from connectors.queries.migration_states import read_states

    back_ms = length_ms(back, "--back")
    with as_messages():
        connection = connect_as_configured()
        seen = warn_first(connection, cluster)
        found = read_states(connection, cluster, back_ms)
    now_ms = wall_clock.now_ms()
    for message in found.shown(everything=everything):
        echo(json_text(found.as_json(message)) if json else one_line(found.line(message, now_ms)))
    if not json:
        echo(found.summary())
    elif not found.complete:
        warn(found.cut_off)
    if not seen:
        raise typer.Exit(UNSEEN)


def _switch(
    cluster: str, which: str, action: str, said: str, reason: str, *, wait: bool, json: bool
) -> None:
    """Ask for something to be done to a migration that is under way."""
    from connectors.queries.migration_states import LIFE_MAX_MS, read_states

    named = pod_name(which) if "/" in which else None
    if named is None:
        as_field(_record, "migration_id", "WHICH")(which)
    with as_messages():
        connection = connect_as_configured()
        _check_cluster(connection, cluster)
        states = read_states(connection, cluster, LIFE_MAX_MS)
        found = states.migrations.get(which) if named is None else states.live_of(*named)
        problem = states.hinders(found, action)
        if problem is not None:
            what = f"pod {which}" if named else which
            stop(f"migration of {what} in cluster {cluster}: {problem}")
        migration_id = which if found is None else found.migration_id
        said = f"migration {migration_id} {said}"
        ask(
            connection, cluster, said, wait=wait, json=json, action=action, migration_id=migration_id,
            reason=reason,
        )  # fmt: skip


def _check_cluster(connection: "Connection", cluster: str) -> None:
    """Warn if no worker writes; stop if nothing names the cluster."""
    if not warn_first(connection, cluster):
        stop("nothing was asked for")


def _stop_unless_seen(connection: "Connection", cluster: str, node: str) -> None:
    from connectors.queries.presence import seek_node

    sought = seek_node(connection, cluster, node)
    unseen = sought.warning(f"Node {node} of cluster {cluster}")
    if unseen is not None and sought.whole:
        stop(f"{unseen} Nothing was asked for")
    elif unseen is not None:
        warn(unseen)


def _check_pod(namespace: str, name: str, uid: str | None) -> None:
    """A name or a uid that no record can carry is an error of the command line."""
    for value, field in ((namespace, "namespace"), (name, "name")):
        as_field(_pod, field, "POD")(value)
    if uid is not None:
        as_field(_pod, "uid", "--uid")(uid)


def _pod_ref(
    connection: "Connection", cluster: str, named: tuple[str, str], uid: str | None
) -> "PodRef":
    """The pod of a name, by the uid that was reported last. Raises BrokerUnavailable."""
    from connectors.queries.pod_search import find_pod
    from schemas.messages.pods import PodRef

    if uid is not None:
        return PodRef(namespace=named[0], name=named[1], uid=uid)
    found = find_pod(connection, cluster, *named)
    if isinstance(found, str):
        stop(found)
    return found


def _ttl_ms(text: str | None) -> int | None:
    if text is None:
        return None
    found_ms = length_ms(text, "--ttl")
    if found_ms > _TTL_MAX_MS:
        raise typer.BadParameter(f"found {text}; expected at most 1d", param_hint="--ttl")
    return found_ms
