"""Whole runs: what all contenders have in common, and that the same seed is the same run."""

from simulation.closed_loop.rule_contender import RuleContender
from simulation.closed_loop.rules import least_allocated, random_choice
from simulation.closed_loop.rules.view import Rule
from simulation.closed_loop.scenario import BEGIN_MS, Scenario
from simulation.closed_loop.world import Contender, World, run
from simulation.cluster.cluster import Observer
from simulation.cluster.pods import PodPlan
from tests.simulation.closed_loop.days import FirstWithRoom, quiet, scenario, streamed


class Asked(Observer):
    """Who asked, and when; what comes in an evicted pod's place is its contender's own."""

    def __init__(self) -> None:
        self.pods: list[tuple[int, str]] = []

    def on_request(self, plan: PodPlan) -> None:
        if "." not in plan.pod.uid:
            self.pods.append((plan.at_ms, plan.pod.uid))


def arrivals(drawn: Scenario, contender: Contender) -> list[tuple[int, str]]:
    world, asked = World(drawn), Asked()
    world.cluster.observers.append(asked)
    contender.begin(world)
    for now_ms in range(BEGIN_MS, drawn.end_ms, 10_000):
        world.advance(now_ms)
        contender.step(now_ms)
    return asked.pods


def test_all_contenders_meet_the_same_pods_at_the_same_times() -> None:
    drawn = scenario()
    ours = arrivals(drawn, streamed())
    rules = arrivals(drawn, RuleContender("first", FirstWithRoom()))
    assert ours == rules
    assert len(ours) > 50


def test_nodes_are_sampled_in_turns_and_each_once_in_an_interval() -> None:
    drawn = scenario()
    world = World(drawn)
    turns = [list(world.list_sampled_nodes(BEGIN_MS + 10_000 * step)) for step in range(6)]
    assert sorted(node for turn in turns for node in turn) == list(range(len(drawn.machines)))
    assert max(map(len, turns)) == 2


def test_who_knows_more_keeps_nodes_cooler() -> None:
    """Requests say more than nothing."""
    drawn = scenario(nodes=24, hours=4, load=0.5)
    rules: tuple[Rule, ...] = (least_allocated.choose, random_choice.choose)
    results = [run(drawn, RuleContender("rule", rule), quiet) for rule in rules]
    hot = [each.figures["hot_cpu_minutes"] for each in results]
    assert hot[0] < hot[1]
