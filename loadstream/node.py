"""The command group `node`: `list`, `drain` and `undrain`.

Exit codes: 0 done; 1 the request was not written, or with `--wait` was refused or failed; 2 the command
line is wrong; 3 no record names the cluster or the node.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Cluster, Json, check_node_name
from loadstream.cli.command import (
    NOTHING_FOUND,
    as_messages,
    command,
    connect_as_configured,
    print_table,
    warn,
    warn_about_cluster,
)
from loadstream.migration.requests import (
    IgnoreWindows,
    Mode,
    RequestReason,
    Wait,
    check_cluster,
    send_request,
    stop,
)

if TYPE_CHECKING:
    from connectors.kafka.client import Connection

app = typer.Typer(name="node", no_args_is_help=True, help="List nodes by usage, drain nodes.")

Node = Annotated[str, typer.Argument(help="Name of the node.", callback=check_node_name)]


@command(app, "node list prod-eu-1", name="list")
def list_(
    cluster: Cluster,
    json: Json = False,
) -> None:
    """Show the nodes of a cluster by usage, like `kubectl top nodes`, with definitions of the numbers.

    This is the usage that loadstream's decisions are based on. It is a mean over a window, so it is smoother
    and older than the newest reading that `kubectl top` shows.
    """
    with as_messages():
        from connectors.queries.cluster_reading import read_kafka, read_nodes
        from connectors.queries.node_usage import describe_columns, list_node_usage, usage_table

        connection = connect_as_configured()
        is_known = warn_about_cluster(connection, cluster)
        kafka = read_kafka(connection)
        records = read_nodes(connection, kafka, cluster, wall_clock.now_ms())
    rows = list_node_usage(records)
    if json:
        for row in rows:
            print_json({"cluster": cluster, **asdict(row)})
    elif rows:
        print_table(usage_table(rows))
        for line in describe_columns(records, rows):
            echo(line)
    if not is_known or not rows:
        raise typer.Exit(NOTHING_FOUND)


@command(app, 'node drain prod-eu-1 node-17 --reason "new kernel" --wait')
def drain(
    cluster: Cluster,
    node: Node,
    mode: Mode = None,
    ignore_windows: IgnoreWindows = False,
    reason: RequestReason = "",
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Drain a node: it takes no new pods, and its pods are migrated.

    The node takes no pods until `loadstream node undrain`. Pods that may not be evicted stay and are named.
    If the policy's mode is `observe`, this is a dry run: the node stays open, and no pod is evicted.
    """
    with as_messages():
        connection = connect_as_configured()
        check_cluster(connection, cluster)
        _stop_unless_seen(connection, cluster, node)
        send_request(
            connection, cluster, f"requested the drain of node {node}", wait=wait, json=json, action="drain", node=node,
            mode=mode, ignore_windows=ignore_windows, reason=reason,
        )  # fmt: skip


@command(app, "node undrain prod-eu-1 node-17")
def undrain(
    cluster: Cluster, node: Node, reason: RequestReason = "", wait: Wait = False, json: Json = False
) -> None:
    """Allow new pods again on a node that was drained or is being drained."""
    from connectors.queries.migration_states import LIFE_MAX_MS, read_states

    with as_messages():
        connection = connect_as_configured()
        check_cluster(connection, cluster)
        states = read_states(connection, cluster, LIFE_MAX_MS)
        if states.is_undrained(node):
            stop(f"node {node} of cluster {cluster} is not being drained")
        if node not in states.drains:  # a drained node that was removed may come back
            _stop_unless_seen(connection, cluster, node)
        text = f"requested the undrain of node {node}"
        send_request(
            connection,
            cluster,
            text,
            wait=wait,
            json=json,
            action="undrain",
            node=node,
            reason=reason,
        )


def _stop_unless_seen(connection: "Connection", cluster: str, node: str) -> None:
    from connectors.queries.presence import search_node

    result = search_node(connection, cluster, node)
    problem = result.warning(f"Node {node} of cluster {cluster}")
    if problem is not None and result.read_all:
        stop(f"{problem} No request was written", NOTHING_FOUND)
    elif problem is not None:
        warn(problem)
