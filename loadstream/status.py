"""The command `loadstream status`: is it working, and where is it hot.

Exit codes: 0 no problem was found; 1 there are problems, or the broker is out of reach; 2 the
command line is wrong; 3 nothing has ever named the cluster, or there is no cluster at all.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json, cluster_name
from loadstream.cli.command import as_messages, command, connect_as_configured
from loadstream.cli.warnings import NOTHING_FOUND
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.queries.status_processes import Section

#: Pause between two screens, in seconds.
_PAUSE_S = 5.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "status prod-eu-1 --watch")(status)


def status(
    cluster: Annotated[
        str | None,
        typer.Argument(
            help="Name of the cluster; without it all clusters that recent records name.",
            callback=cluster_name,
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Again every 5 s, until Ctrl-C.")
    ] = False,
    json: Json = False,
) -> None:
    """Show brokers, workers, duties, usage sources, nodes, waiting pods, moves and policy on one screen.

    Problems come first, each with what to do. The exit code is 1 if there are any.
    """
    with as_messages():
        while watch:
            _show_again(cluster, json=json)
        code = 0
        for name, sections in _read(connect_as_configured(), cluster):
            _print(name, sections, json=json)
            if any(section.problems for section in sections):
                code = 1
    raise typer.Exit(code)


def _show_again(cluster: str | None, *, json: bool) -> None:
    """Show one screen of many; a broker that is out of reach is reported and waited for."""
    import click

    from connectors.kafka.client import BrokerUnavailable

    try:
        parts = list(_read(connect_as_configured(), cluster))
    except BrokerUnavailable as error:
        parts = []
        echo(f"error: {error}", err=True)
    if parts and not json:
        click.clear()  # nothing where the output is no terminal
    for name, sections in parts:
        _print(name, sections, json=json)
    time.sleep(_PAUSE_S)


def _read(
    connection: "Connection", cluster: str | None
) -> "Iterator[tuple[str | None, list[Section]]]":
    """The brokers, then each cluster; without a name, of several clusters only the main lines."""
    from connectors.kafka.client import BrokerUnavailable
    from connectors.queries.cluster_reading import list_clusters, read_cluster, read_kafka
    from connectors.queries.status_processes import kafka_section
    from connectors.queries.status_sections import cluster_sections, main_lines

    kafka = read_kafka(connection)
    brokers = kafka_section(kafka)
    if "missing" in kafka.verdicts.values():
        yield None, [brokers]
        return
    names = [cluster] if cluster else list_clusters(connection, kafka)
    if len(names) != 1:
        yield None, [brokers]
    if not names:
        what = "no cluster: no record in status, node-state or policies names one"
        if kafka.leaderless:
            what = "not all partitions can be read, so clusters cannot be listed: name one"
        echo(what, err=True)
        raise typer.Exit(1 if kafka.leaderless else NOTHING_FOUND)
    for name in names:
        try:
            records = read_cluster(connection, kafka, name, wall_clock.now_ms())
            if cluster and not records.is_known and not kafka.leaderless:
                _stop_if_unseen(connection, cluster)
        except BrokerUnavailable as error:
            unread = replace(brokers, problems=(*brokers.problems, f"{error}"))
            yield name, [unread]
            continue
        sections = cluster_sections(records)
        yield name, [brokers, *sections] if len(names) == 1 else main_lines(sections)


def _stop_if_unseen(connection: "Connection", cluster: str) -> None:
    from connectors.queries.presence import seek_cluster

    unseen = seek_cluster(connection, cluster).warning(f"Cluster {cluster}")
    if unseen:
        echo(to_one_line(unseen), err=True)
        raise typer.Exit(NOTHING_FOUND)


def _print(name: str | None, sections: "list[Section]", *, json: bool) -> None:
    from connectors.queries.status_sections import screen

    if not json:
        for line in screen(name, sections):
            echo(to_one_line(line))
        return
    for section in sections:
        about = {"cluster": name, "section": section.name}
        print_json({**about, **section.data, "problems": list(section.problems)})
