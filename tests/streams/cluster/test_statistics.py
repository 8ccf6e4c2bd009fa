"""Counts and figures of the cluster stage."""

from typing import Any

import pytest

from streams.cluster.stage import NO_REASON, POSTPONED, REJECTED, UNPLACEABLE, classify_reason
from streams.stage.statistics import Counts, Figures
from tests.streams.builders import CLUSTER, metric, node, pod, request, tick
from tests.streams.world import World


def _decision(outcome: str, **refused_by: int) -> dict[str, Any]:
    return {"outcome": outcome, "refused_by": refused_by}


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (_decision("placed", LoadAware=3), NO_REASON),
        (_decision("withdrawn"), NO_REASON),
        (_decision("expired"), NO_REASON),
        (_decision("refused"), UNPLACEABLE),
        ({**_decision("withdrawn"), "rejected": "OutOfcpu"}, REJECTED),
        (_decision("waiting"), POSTPONED),
        (_decision("waiting", Fit=1, LoadAware=3), "LoadAware"),
        (_decision("waiting", LoadAware=2, Fit=2), "Fit"),
    ],
)
def test_a_decision_is_classed_by_the_filter_that_refused_most_nodes(
    decision: dict[str, Any], reason: str
) -> None:
    assert classify_reason(decision) == reason


def test_decisions_and_waits_are_counted_and_reported_once() -> None:
    world = World(tick(0), node(cpu="4"), metric(), request("first"), request("second"))
    world.send(tick(5))
    counts = world.stage.take_counts()
    assert counts.decided["placed", NO_REASON] == 2
    assert counts.waits_s == {0: 2}
    world.send(request(pod("large", cpu="4")))
    (outcome,) = world.stage.take_counts().decided
    assert outcome[0] == "waiting"
    assert outcome[1] not in (NO_REASON, POSTPONED, UNPLACEABLE)
    assert world.stage.take_counts() == Counts()


def test_a_pod_that_had_to_wait_counts_with_its_wait_in_log_time() -> None:
    world = World(tick(0), request("early"))
    world.send(tick(60), node(), metric(seconds=60))
    world.send(*map(tick, range(61, 200)))
    (wait_s,) = world.stage.take_counts().waits_s
    assert 60 <= wait_s < 200


def test_nodes_without_a_fresh_metric_are_stale_and_nodes_without_state_are_not_counted() -> None:
    world = World(
        tick(0), node("a"), node("b"), node("c"), metric("a"), metric("b", seconds=-10_000)
    )
    world.send(metric("unnamed", seconds=-2), request())
    (figures,) = world.stage.figures().clusters
    assert (figures.cluster, figures.nodes, figures.stale_nodes) == (CLUSTER, 3, 2)
    assert (figures.pods, figures.pending_requests) == (1, 0)
    assert figures.newest_metric_age_ms == 0
    world.send(tick(100_000))
    (figures,) = world.stage.figures().clusters
    assert (figures.stale_nodes, figures.newest_metric_age_ms) == (3, 100_000_000)


def test_a_deleted_metric_makes_nothing_look_fresh() -> None:
    world = World(tick(0), node("a"), metric("a"))
    world.send(metric("a", removed=True))
    (figures,) = world.stage.figures().clusters
    assert (figures.stale_nodes, figures.newest_metric_age_ms) == (1, None)


def test_a_stage_without_records_has_no_time_and_no_clusters() -> None:
    assert World().stage.figures() == Figures(None, 0)
