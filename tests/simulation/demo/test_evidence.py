"""The evidence that the demo shows at its end."""

from dataclasses import replace

import numpy as np
import pytest

from simulation.closed_loop.measures import MINUTE_MS
from simulation.cluster.cluster import Eviction
from simulation.demo.evidence import MINUTES_AFTER as AFTER
from simulation.demo.evidence import MINUTES_BEFORE as BEFORE
from simulation.demo.evidence import Evidence, draw_picture, explain_move
from tests.simulation.closed_loop.days import scenario

_MINUTE = 100


def evidence(demand: np.ndarray, pod_share: float = 0.0, life_minutes: int = 1000) -> Evidence:
    """Return an eviction from the first node at minute 100 of a pod with this share of its demand."""
    drawn = scenario(hours=2.5)
    size = drawn.machines[0].millicores
    flat = replace(
        drawn.demands,
        cpu_percent=np.full_like(drawn.demands.cpu_percent, 1.0),
        cpu_millicores=np.full_like(drawn.demands.cpu_millicores, pod_share * size),
    )
    plan = drawn.plans[0]
    again = replace(
        plan,
        pod=plan.pod.model_copy(update={"uid": f"{plan.pod.uid}.1"}),
        life_ms=life_minutes * MINUTE_MS,
    )
    at_ms = drawn.begin_ms + _MINUTE * MINUTE_MS
    moved = Eviction(plan.pod, drawn.machines[0].name, at_ms, again)
    return Evidence(replace(drawn, demands=flat), demand, (moved,))


def flat(share: float = 0.6) -> np.ndarray:
    return np.full((180, 8), share)


@pytest.mark.parametrize(
    ("minutes_before", "is_in_time"), [(0, True), (BEFORE, True), (BEFORE + 1, False)]
)
def test_an_eviction_is_in_time_if_its_node_was_hot_shortly_before(
    minutes_before: int, is_in_time: bool
) -> None:
    demand = flat()
    demand[_MINUTE - minutes_before, 0] = 0.76
    shown = evidence(demand)
    assert shown.is_in_time(shown.evictions[0]) is is_in_time


@pytest.mark.parametrize(
    ("pod_share", "life_minutes", "hot_minute", "is_in_time"),
    [
        (0.16, 1000, _MINUTE, True),
        (0.14, 1000, _MINUTE, False),
        (0.16, 0, _MINUTE, False),
        (0.14, 1000, _MINUTE + AFTER, True),
        (0.14, 1000, _MINUTE + AFTER + 1, False),
        (0.14, 30, _MINUTE + AFTER, False),
    ],
)
def test_an_eviction_is_in_time_if_its_node_would_have_become_hot_with_the_pod(
    pod_share: float, life_minutes: int, hot_minute: int, is_in_time: bool
) -> None:
    demand = flat()
    if hot_minute > _MINUTE:
        demand[hot_minute, 0] = 0.62
    shown = evidence(demand, pod_share, life_minutes)
    assert shown.is_in_time(shown.evictions[0]) is is_in_time


@pytest.mark.parametrize(("pod_share", "mark"), [(0.2, "▼"), (0.0, "?")])
def test_the_picture_marks_each_eviction_at_its_time_and_node(pod_share: float, mark: str) -> None:
    demand = flat()
    demand[_MINUTE + 5 : _MINUTE + 20, 3] = 0.9
    shown = evidence(demand, pod_share)
    head, *rest = draw_picture(shown)
    rows, (in_time, *others) = rest[:8], rest[8:]
    assert "of 8 nodes" in head
    first = next(row for row in rows if shown.scenario.machines[0].name in row)
    fourth = next(row for row in rows if shown.scenario.machines[3].name in row)
    assert first.count(mark) == "".join(rows).count("▼") + "".join(rows).count("?") == 1
    assert "█" in fourth
    assert "█" not in first
    assert f"{int(mark == '▼')} of 1 eviction:" in in_time
    assert [line[0] for line in others] == (["F"] if mark == "▼" else ["?", "F"])
    assert "12% of all nodes were hot" in others[-1]


def test_without_evictions_there_is_no_explanation() -> None:
    shown = replace(evidence(flat()), evictions=())
    assert list(explain_move(shown, [], [])) == []
    assert "0 of 0 evictions" in list(draw_picture(shown))[-2]
