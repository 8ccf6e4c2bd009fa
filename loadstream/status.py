"""The command `loadstream status`: the state of the brokers and clusters on one screen.

Exit codes: 0 there is no error, though there may be warnings; 1 there are errors, or the broker is
unavailable; 2 the command line is wrong; 3 no record names the cluster, or there is no cluster.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json
from connectors.units import count_text
from loadstream.cli.arguments import Json, check_cluster_name
from loadstream.cli.command import NOTHING_FOUND, as_messages, command, connect_as_configured
from loadstream.doctor.findings import Finding, error
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.queries.cluster_reading import KafkaState
    from connectors.queries.status_processes import Section

#: Pause between two screens, in seconds.
_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Report:
    """State of the brokers or of one cluster."""

    cluster: str | None
    findings: "Sequence[Finding]"
    sections: "Sequence[Section]"


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "status prod-eu-1 --watch")(status)


def status(
    cluster: Annotated[
        str | None,
        typer.Argument(
            help="Name of the cluster; without it all clusters that recent records name.",
            callback=check_cluster_name,
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Repeat every 5 s, until Ctrl-C.")
    ] = False,
    json: Json = False,
) -> None:
    """Show brokers, workers, duties, usage sources, nodes, waiting pods, moves and policy on one screen.

    Problems come first, with advice. `loadstream doctor` finds the same problems, and also checks the API
    server. The exit code is 1 if a problem is an error.
    """
    with as_messages():
        while watch:
            _show_again(cluster, json=json)
        code = 0
        for report in _read(connect_as_configured(), cluster):
            _print(report, json=json)
            if any(finding.grade == "error" for finding in report.findings):
                code = 1
    raise typer.Exit(code)


def _show_again(cluster: str | None, *, json: bool) -> None:
    """Show the screen once, then pause; an unavailable broker is reported."""
    import click

    from connectors.kafka.client import BrokerUnavailable

    try:
        reports = list(_read(connect_as_configured(), cluster))
    except BrokerUnavailable as failure:
        reports = []
        echo(f"error: {failure}", err=True)
    if reports and not json:
        click.clear()  # does nothing if the output is not a terminal
    for report in reports:
        _print(report, json=json)
    time.sleep(_PAUSE_S)


def _read(connection: "Connection", cluster: str | None) -> "Iterator[Report]":
    """Yield a report on the brokers, then one per cluster; with several clusters they are short."""
    from connectors.queries.cluster_reading import list_clusters, read_kafka
    from connectors.queries.status_processes import kafka_section
    from loadstream.doctor.kafka import check_brokers, check_topics

    kafka = read_kafka(connection)
    brokers = Report(None, [*check_brokers(kafka), *check_topics(kafka)], [kafka_section(kafka)])
    yield brokers
    if kafka.missing:
        return
    names = [cluster] if cluster else list_clusters(connection, kafka)
    if not names:
        message = "there is no cluster: no record of status, node-state or policies names a cluster"
        if kafka.leaderless:
            message = "partitions have no leader, so clusters cannot be listed: name a cluster"
        echo(message, err=True)
        raise typer.Exit(1 if kafka.leaderless else NOTHING_FOUND)
    for name in names:
        yield _read_cluster(
            connection, kafka, name, is_named=bool(cluster), is_single=len(names) == 1
        )


def _read_cluster(
    connection: "Connection", kafka: "KafkaState", name: str, *, is_named: bool, is_single: bool
) -> Report:
    from connectors.kafka.client import BrokerUnavailable
    from connectors.queries.cluster_reading import read_cluster
    from connectors.queries.node_usage import read_policy_in_force
    from connectors.queries.status_sections import cluster_sections
    from loadstream.doctor.policy import read_checked_policy
    from loadstream.doctor.processes import check_processes

    try:
        records = read_cluster(connection, kafka, name, wall_clock.now_ms())
        if is_named and not records.is_known and not kafka.leaderless:
            _stop_if_unseen(connection, name)
        if "policies" in records.unreadable:
            policy, findings = read_policy_in_force(records), []
        else:
            policy, finding = read_checked_policy(connection, name)
            findings = [finding]
    except BrokerUnavailable as failure:
        return Report(name, [error("cluster", f"{failure}")], [])
    findings += check_processes(records, policy)
    sections = cluster_sections(records)
    if not is_single:
        main = [section for section in sections if section.name in ("policy", "nodes")]
        sections = [replace(section, lines=section.lines[:1]) for section in main]
    return Report(name, findings, sections)


def _stop_if_unseen(connection: "Connection", cluster: str) -> None:
    from connectors.queries.presence import search_cluster

    unseen = search_cluster(connection, cluster).warning(f"Cluster {cluster}")
    if unseen:
        echo(to_one_line(unseen), err=True)
        raise typer.Exit(NOTHING_FOUND)


def _print(report: Report, *, json: bool) -> None:
    faults = [finding for finding in report.findings if finding.grade != "ok"]
    if json:
        about = {"cluster": report.cluster}
        print_json({**about, "section": "faults", "faults": [asdict(fault) for fault in faults]})
        for section in report.sections:
            print_json({**about, "section": section.name, **section.data})
        return
    if report.cluster is not None:
        count = count_text(len(faults), "fault") if faults else "no fault found"
        echo(to_one_line(f"{report.cluster}: {count}"))
    for fault in faults:
        echo(to_one_line(f"  ! {fault}"))
    for section in report.sections:
        for index, line in enumerate(section.lines):
            echo(to_one_line(f"{'' if index else section.name:8} {line}"))
