"""The command `doctor`: runs all checks and prints one line for each finding.

Exit codes: 0 no error, though there may be warnings; 1 at least one error; 2 the command line is wrong.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import (
    Context,
    Json,
    Kubeconfig,
    check_cluster_name,
    parse_object_name,
    read_source_file,
)
from loadstream.cli.command import command
from loadstream.doctor.findings import Finding, error
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kubernetes.sources.settings import SourceSettings
    from connectors.queries.cluster_reading import KafkaState

Duty = Literal["watch", "collect", "bind", "evict"]
_DUTIES: tuple[Duty, ...] = ("watch", "collect", "bind", "evict")
#: Name of the cluster in a scan without a cluster argument.
_UNNAMED = "cluster"


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "doctor prod-eu-1 --kubeconfig ~/.kube/config")(doctor)


def doctor(
    cluster: Annotated[
        str | None,
        typer.Argument(
            help="Name of the cluster; without it only Kafka is checked.",
            callback=check_cluster_name,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    duty: Annotated[
        Duty | None,
        typer.Option(help="Process that uses these credentials; then a missing right is an error."),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Check the rights of the service accounts of this Helm release.",
        ),
    ] = None,
    sources: Annotated[
        Path | None,
        typer.Option(help="File of usage sources; each of its PromQL queries runs once."),
    ] = None,
    json: Json = False,
) -> None:
    """Check an installation, and give advice for each fault.

    Always checks Kafka. With CLUSTER, also checks the records of its processes, policy and nodes. With
    --kubeconfig, --context, --duty, --release or --sources, also checks the API server: its clock, rights,
    and the pods that loadstream would refuse.
    """
    helm_release = None if release is None else parse_object_name(release, "--release")
    settings = None if sources is None else read_source_file(sources)
    asks_server = bool(kubeconfig or context or duty or release or sources)
    findings = _check_kafka(cluster, scan=not asks_server)
    if asks_server:
        credentials = (kubeconfig, context)
        rights = _check_kubernetes(cluster, credentials, duty, helm_release, settings)
        findings = chain(findings, rights)
    has_error = False
    for finding in findings:
        has_error |= finding.grade == "error"
        if json:
            print_json(asdict(finding))
        else:
            echo(to_one_line(str(finding)))
    if has_error:
        raise typer.Exit(1)


def _check_kafka(cluster: str | None, *, scan: bool) -> Iterator[Finding]:
    """Check Kafka and the records of a cluster; `scan` counts pods that would be refused."""
    from connectors.kafka.client import BrokerUnavailable, connect
    from connectors.queries.cluster_reading import read_kafka
    from loadstream.doctor.kafka import check_brokers, check_certificates, check_topics
    from schemas.settings.announcement import NotAnnounced
    from schemas.settings.connection import KafkaSettings
    from schemas.settings.environment import SettingsError

    try:
        connection = connect(KafkaSettings.from_environment())
        kafka = read_kafka(connection)
        yield from check_brokers(kafka)
        yield from check_certificates(connection.settings)
        yield from check_topics(kafka)
    except (BrokerUnavailable, NotAnnounced, SettingsError) as failure:
        yield error("brokers", str(failure).rstrip("."))
        return
    if cluster is not None:
        try:
            yield from _check_cluster(connection, kafka, cluster, scan=scan)
        except BrokerUnavailable as failure:  # for example because a topic is missing
            yield error("cluster", str(failure))


def _check_cluster(
    connection: "Connection", kafka: "KafkaState", cluster: str, *, scan: bool
) -> Iterator[Finding]:
    from connectors.process import wall_clock
    from connectors.queries.cluster_reading import read_cluster
    from connectors.queries.presence import search_cluster
    from loadstream.doctor import policy as policies
    from loadstream.doctor import processes
    from loadstream.doctor.pods import check_pods, read_pods

    records = read_cluster(connection, kafka, cluster, wall_clock.now_ms())
    unseen = search_cluster(connection, cluster).warning(f"cluster {cluster}")
    policy, finding = policies.read_checked_policy(connection, cluster)
    yield from processes.check_processes(records, policy, unseen)
    if unseen:
        return
    yield from processes.check_commands(connection, records)
    yield finding
    yield from policies.check_pools(records, policy)
    yield from policies.check_unmet(connection, cluster, policy)
    yield from policies.check_windows(records, policy)
    yield from policies.check_low_thresholds(records, policy)
    yield from policies.check_memory(connection, records)
    if scan:
        yield from check_pods(read_pods(connection, cluster))


def _check_kubernetes(
    cluster: str | None,
    credentials: tuple[Path | None, str | None],
    duty: Duty | None,
    release: tuple[str, str] | None,
    sources: "tuple[SourceSettings, ...] | None",
) -> Iterator[Finding]:
    """Check the API server; `credentials` are a kubeconfig and its context, each None for the default."""
    from connectors.kubernetes.api.access import access
    from connectors.kubernetes.api.errors import AccessError
    from connectors.kubernetes.api.server import ApiServer
    from loadstream.doctor import kubernetes
    from loadstream.doctor.queries import check_queries

    async def check() -> list[Finding]:
        async with ApiServer(access(*credentials)) as server:
            findings = await kubernetes.check_server(server)
            if findings[0].check == "API server" and findings[0].grade == "error":
                return findings
            duties = (duty,) if duty else _DUTIES
            required = bool(duty or release)
            findings += await kubernetes.check_rights(server, duties, release, required=required)
            if not duty:  # the credentials of one process may not list everything
                findings += await kubernetes.scan_pods(server, cluster or _UNNAMED)
            if sources:
                findings += await check_queries(server, cluster or _UNNAMED, sources)
            return findings

    try:
        yield from asyncio.run(check())
    except AccessError as failure:
        yield error("API server", str(failure))
