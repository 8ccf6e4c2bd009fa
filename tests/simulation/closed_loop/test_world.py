"""Whole runs: all contenders meet the same pods, and equal seeds give equal runs."""

from simulation.closed_loop.rule_contender import RuleContender
from simulation.closed_loop.rules import least_allocated, random_choice
from simulation.closed_loop.rules.view import Rule
from simulation.closed_loop.scenario import BEGIN_MS, Scenario
from simulation.closed_loop.world import Contender, World, run
from simulation.cluster.cluster import Observer
from simulation.cluster.pods import PodPlan
from tests.simulation.closed_loop.days import FirstWithRoom, ignore, scenario, stages


class Asked(Observer):
    """Records requests with their times, except for replacements of evicted pods."""

    def __init__(self) -> None:
        self.pods: list[tuple[int, str]] = []

    def on_request(self, plan: PodPlan) -> None:
        if "." not in plan.pod.uid:
            self.pods.append((plan.at_ms, plan.pod.uid))


def arrivals(drawn: Scenario, contender: Contender) -> list[tuple[int, str]]:
    world, observer = World(drawn), Asked()
    world.cluster.observers.append(observer)
    contender.begin(world)
    for now_ms in range(BEGIN_MS, drawn.end_ms, 10_000):
        world.advance(now_ms)
        contender.step(now_ms)
    return observer.pods


def test_all_contenders_meet_the_same_pods_at_the_same_times() -> None:
    drawn = scenario()
    ours = arrivals(drawn, stages())
    rules = arrivals(drawn, RuleContender("first", FirstWithRoom()))
    assert ours == rules
    assert len(ours) > 50


def test_each_node_is_sampled_once_per_interval() -> None:
    drawn = scenario()
    world = World(drawn)
    turns = [list(world.list_sampled_nodes(BEGIN_MS + 10_000 * step)) for step in range(6)]
    assert sorted(node for turn in turns for node in turn) == list(range(len(drawn.machines)))
    assert max(map(len, turns)) == 2


def test_a_contender_with_more_information_keeps_nodes_cooler() -> None:
    """Scores by requests give cooler nodes than a random choice."""
    drawn = scenario(nodes=24, hours=4, load=0.5)
    rules: tuple[Rule, ...] = (least_allocated.choose, random_choice.choose)
    results = [run(drawn, RuleContender("rule", rule), ignore) for rule in rules]
    hot = [result.figures["hot_cpu_minutes"] for result in results]
    assert hot[0] < hot[1]
