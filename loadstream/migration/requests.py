"""Writes one request to topic `migration-requests`, and with `--wait` follows the answers.

The cluster's worker answers on topic `status`, or in `dead-letters` if it refuses the request. A request
for a cluster, node, pod or migration that no record names is not written.
"""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn
from uuid import uuid4

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import as_field
from loadstream.cli.command import NOTHING_FOUND, warn_about_cluster

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kafka.cluster_records import Arrivals
    from schemas.messages.migrations import MigrationRequest

#: Topic of requests.
TOPIC = "migration-requests"
#: Seconds between two reads of the answers.
_POLL_S = 0.5


def request_class() -> "type[MigrationRequest]":
    from schemas.messages.migrations import MigrationRequest

    return MigrationRequest


Mode = Annotated[
    Literal["ReservationFirst", "EvictDirectly"] | None,
    typer.Option(
        "--mode",
        help="ReservationFirst: reserve room on another node before the eviction; EvictDirectly: do not. "
        "Default: as the policy says.",
    ),
]
IgnoreWindows = Annotated[
    bool, typer.Option("--ignore-windows", help="Do not wait for a maintenance window.")
]
RequestReason = Annotated[
    str,
    typer.Option(
        "--reason",
        help="Reason; shown with the request.",
        callback=as_field(request_class, "reason"),
    ),
]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait until the request has succeeded, failed or was refused."),
]


def check_cluster(connection: "Connection", cluster: str) -> None:
    """Warn if no worker writes; end the command if no record names the cluster."""
    if not warn_about_cluster(connection, cluster):
        stop("no request was written", NOTHING_FOUND)


def stop(reason: str, code: int = 1) -> NoReturn:
    """End the command with an error."""
    echo(f"error: {reason}", err=True)
    raise typer.Exit(code)


def send_request(
    connection: "Connection", cluster: str, text: str, *, wait: bool, json: bool, **fields: Any
) -> None:
    """Write one request; `text` describes it. Raises BrokerUnavailable."""
    from connectors.kafka.cluster_records import Arrivals
    from connectors.kafka.produce import produce_messages
    from schemas.messages.migrations import MigrationRequest

    request = MigrationRequest(
        request_id=f"request-{uuid4().hex[:16]}",
        cluster=cluster,
        requested_at_ms=wall_clock.now_ms(),
        **fields,
    )
    dry = _describe_dry_run(connection, request)
    answers = []
    if wait:
        sources = (("status", cluster), ("dead-letters", TOPIC))
        answers = [Arrivals(connection, topic, key) for topic, key in sources]
    _, refused = produce_messages(connection, TOPIC, [request])
    if refused:
        stop(f"the request was not written: {refused[0]}")
    if json:
        print_json(request.payload())
    else:
        echo(f"{request.request_id}: {text}{dry}; see `loadstream migration list {cluster}`")
    if wait:
        _print_answers(request, answers, json=json)


def _describe_dry_run(connection: "Connection", request: "MigrationRequest") -> str:
    """Return what stays as it is, if the cluster's policy makes the request a dry run."""
    from connectors.policies.entries import find_newest_entry
    from schemas.policy import PolicyError, read_policy

    stays = {"drain": "the node stays open", "migrate": "the pod stays"}.get(request.action)
    if stays is None:
        return ""
    entry = find_newest_entry(connection, request.cluster)
    with suppress(PolicyError):  # no worker has read it yet
        if read_policy(entry.record.document if entry else "").is_dry_for("request"):
            return f" (dry run by the policy: {stays})"
    return ""


def _print_answers(request: "MigrationRequest", answers: "list[Arrivals]", *, json: bool) -> None:
    """Print answers until the request has ended. Ctrl-C ends the command, but not the request."""
    from connectors.queries.migration_answers import find_answer
    from schemas.topics.codec import decode

    begun = False
    while True:
        for arrivals in answers:
            for record in arrivals.take():
                answer = find_answer(request, decode(arrivals.topic, record.value), begun=begun)
                if answer is None:
                    continue
                begun = True
                if json:
                    print_json({"request_id": request.request_id, **asdict(answer)})
                else:
                    echo(answer.text, err=answer.failed)
                if answer.done:
                    raise typer.Exit(1 if answer.failed else 0)
        time.sleep(_POLL_S)
