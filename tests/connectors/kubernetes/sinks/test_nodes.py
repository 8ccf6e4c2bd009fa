"""Whether a node is there."""

import pytest

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.nodes import Nodes
from connectors.kubernetes.sinks.throttle import Throttle
from tests.connectors.kubernetes.sinks.played import UNAVAILABLE, Played, Said, failure

PATH = "/api/v1/nodes/n"
MISSING = failure(404, "NotFound", "no")
OVERLOADED_FOR_NO_TIME = failure(429, "TooManyRequests", "too many requests")


async def test_an_existing_node_is_checked_once(played: Played, client: ApiServer) -> None:
    played.says("GET", PATH, Said())
    nodes = Nodes(Throttle(client))
    assert [await nodes.is_missing("n") for _ in range(2)] == [False, False]
    assert len(played.asked) == 1


async def test_a_node_that_was_not_there_is_asked_about_again(
    played: Played, client: ApiServer
) -> None:
    played.says("GET", PATH, MISSING, Said())
    nodes = Nodes(Throttle(client))
    assert [await nodes.is_missing("n") for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    "answer",
    [
        OVERLOADED_FOR_NO_TIME,
        UNAVAILABLE,
        failure(500, "InternalError", "etcd"),
        Said(404, "no backend"),  # of a proxy
    ],
)
async def test_a_node_of_which_the_server_said_nothing_is_asked_about_again(
    played: Played, client: ApiServer, answer: Said
) -> None:
    played.says("GET", PATH, answer, MISSING)
    nodes = Nodes(Throttle(client))
    assert [await nodes.is_missing("n") for _ in range(2)] == [False, True]


async def test_a_binder_that_may_not_ask_does_not_ask_with_every_pod(
    played: Played, client: ApiServer
) -> None:
    played.says("GET", PATH, failure(403, "Forbidden", "no rights"))
    nodes = Nodes(Throttle(client))
    assert [await nodes.is_missing("n") for _ in range(2)] == [False, False]
    assert len(played.asked) == 1
