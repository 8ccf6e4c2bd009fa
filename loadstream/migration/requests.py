"""One request to topic `migration-requests`, and with `--wait` the answers until it is done.

The cluster's worker answers on topic `status`, or in `dead-letters` if it refuses, after the command
has ended or, with `--wait`, before. A cluster, node, pod or migration that nothing names is refused
here: a mistyped name becomes no dead letter.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from uuid import uuid4

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import as_field, length_ms
from loadstream.cli.warnings import NOTHING_FOUND, warn_first

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from connectors.kafka.cluster_records import Arrivals
    from schemas.messages.migrations import MigrationRequest

#: Topic of requests.
TOPIC = "migration-requests"
#: Time between two looks for an answer, in seconds.
_LOOK_S = 0.5
#: The longest life that a request may ask for; a test holds it to the schema.
_TTL_MAX_MS = 86_400_000


def request_class() -> "type[MigrationRequest]":
    from schemas.messages.migrations import MigrationRequest

    return MigrationRequest


def _field(name: str) -> Callable[[Any], Any]:
    """Checks an argument as the field of the record that it becomes."""
    return as_field(request_class, name)


Cluster = Annotated[str, typer.Argument(help="Name of the cluster.", callback=_field("cluster"))]
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
    bool,
    typer.Option("--wait", help="Wait until the request has succeeded, failed or was refused."),
]


def check_cluster(connection: "Connection", cluster: str) -> None:
    """Warn if no worker writes; stop if nothing names the cluster."""
    if not warn_first(connection, cluster):
        stop("nothing was asked for", NOTHING_FOUND)


def read_ttl_ms(text: str | None) -> int | None:
    if text is None:
        return None
    found_ms = length_ms(text, "--ttl")
    if found_ms > _TTL_MAX_MS:
        raise typer.BadParameter(f"found {text}; expected at most 1d", param_hint="--ttl")
    return found_ms


def stop(why: str, code: int = 1) -> NoReturn:
    """End the command with an error."""
    echo(f"error: {why}", err=True)
    raise typer.Exit(code)


def ask(
    connection: "Connection", cluster: str, said: str, *, wait: bool, json: bool, **fields: Any
) -> None:
    """Write one request and wait until all replicas have it. Raises BrokerUnavailable."""
    from connectors.kafka.cluster_records import Arrivals
    from connectors.kafka.produce import produce_messages
    from schemas.messages.migrations import MigrationRequest

    request = MigrationRequest(
        request_id=f"request-{uuid4().hex[:16]}",
        cluster=cluster,
        requested_at_ms=wall_clock.now_ms(),
        **fields,
    )
    answers = []
    if wait:
        places = (("status", cluster), ("dead-letters", TOPIC))
        answers = [Arrivals(connection, topic, key) for topic, key in places]
    _, refused = produce_messages(connection, TOPIC, [request])
    if refused:
        stop(f"the request was not written: {refused[0]}")
    if json:
        print_json(request.payload())
    else:
        echo(f"{request.request_id}: {said}; see `loadstream migration list {cluster}`")
    if wait:
        _follow(request, answers, json=json)


def _follow(request: "MigrationRequest", answers: "list[Arrivals]", *, json: bool) -> None:
    """Print what is answered until it is done; Ctrl-C ends the command and not the request."""
    from connectors.queries.migration_answers import answer
    from schemas.topics.codec import decode

    begun = False
    while True:
        for arrivals in answers:
            for record in arrivals.take():
                found = answer(request, decode(arrivals.topic, record.value), begun=begun)
                if found is None:
                    continue
                begun = True
                if json:
                    print_json({"request_id": request.request_id, **asdict(found)})
                else:
                    echo(found.text, err=found.failed)
                if found.done:
                    raise typer.Exit(1 if found.failed else 0)
        time.sleep(_LOOK_S)
