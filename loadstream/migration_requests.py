"""One request to topic `migration-requests`, and with `--wait` the answers until it is done."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json

if TYPE_CHECKING:
    from connectors.kafka.arrivals import Arrivals
    from connectors.kafka.client import Connection
    from schemas.messages.migrations import MigrationRequest

#: Topic of requests.
TOPIC = "migration-requests"
#: Time between two looks for an answer, in seconds.
_LOOK_S = 0.5


def stop(why: str) -> NoReturn:
    """End the command with an error."""
    echo(f"error: {why}", err=True)
    raise typer.Exit(1)


def ask(
    connection: "Connection", cluster: str, said: str, *, wait: bool, json: bool, **fields: Any
) -> None:
    """Write one request and wait until all replicas have it. Raises BrokerUnavailable."""
    from connectors.kafka.arrivals import Arrivals
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
        echo(f"{request.request_id}: {said}; see `loadstream migrations {cluster}`")
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
