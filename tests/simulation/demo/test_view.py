"""The live view of the demo."""

from io import StringIO

import pytest
from rich.console import Console

from schemas.messages.pods import PodRef
from schemas.topics.codec import encode
from simulation.closed_loop.rule_contender import RuleContender
from simulation.closed_loop.world import World
from simulation.demo.view import RunState, render
from tests.connectors.ports.sink_contract import eviction
from tests.simulation.closed_loop.days import FirstWithRoom, scenario


@pytest.fixture(scope="module")
def moment() -> RunState:
    """A cluster at its end whose first nodes are full."""
    world, rule = World(scenario(nodes=12, load=0.6)), RuleContender("first", FirstWithRoom())
    rule.begin(world)
    now_ms = world.scenario.begin_ms
    while now_ms < world.scenario.end_ms:
        world.advance(now_ms)
        rule.step(now_ms)
        now_ms += 10_000
    pod = PodRef(namespace="ns", name="web-1", uid="uid-of-web-1")
    command = encode(eviction(pod, "node-001", reason="hot [red]\x1b[31m"))
    return RunState(world, now_ms, 10.0, 3, [("eviction-commands", command)], "a note")


def _draw(moment: RunState, width: int, height: int) -> str:
    console = Console(record=True, width=width, height=height, file=StringIO())
    console.print(render(moment, width, height))
    return console.export_text()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60)])
def test_the_view_fits_the_terminal_and_has_nodes_figures_and_decisions(
    moment: RunState, width: int, height: int
) -> None:
    drawn = _draw(moment, width, height)
    lines = drawn.splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    for words in ("node-001", "day 1, 01:00", "3 evicted", "a note", "ns/web-1", "12 nodes"):
        assert words in drawn


def test_foreign_text_is_not_markup_and_does_not_move_the_cursor(moment: RunState) -> None:
    drawn = _draw(moment, 200, 60)
    assert "[red]" in drawn
    assert "\x1b" not in drawn
