"""Mean and variance of usage under policies that use them, and the figures of the fleet."""

from schemas.messages.metrics import PodMetric
from tests.streams.builders import lifecycle, metric, node, pod, policy_record, tick
from tests.streams.world import World

BY_LOAD = "plugins: {score: [LoadAwareScheduling], balance: [LowNodeLoad]}"
BY_RISK = (
    "plugins: {score: [OverutilizationRisk], balance: [OverutilizationRisk]}\n"
    "overutilizationRisk: {resources: [{name: cpu}]}"
)
PODS = 3
USED = 100


def renewed_at_ms(world: World) -> int | None:
    fleet = world.state.inventory.fleet
    return None if fleet is None else fleet.renewed_at_ms


def busy(nodes: int, document: str = BY_LOAD) -> World:
    """Nodes with three pods of a core each, which use a tenth of it."""
    world = World(tick(), policy_record(document))
    for number in range(nodes):
        name = f"n-{number}"
        world.send(node(name, cpu="10"))
        for index in range(PODS):
            world.send(lifecycle("running", pod(f"{name}-{index}", cpu="1"), name))
    world.send(tick(240))
    for number in range(nodes):
        metrics = [
            PodMetric(namespace="default", name=f"n-{number}-{index}", usage={"cpu": USED})
            for index in range(PODS)
        ]
        world.send(metric(f"n-{number}", cpu=PODS * USED, seconds=240, pods=tuple(metrics)))
    return world


def means(world: World) -> list[int]:
    """Expected millicores of each node."""
    result = []
    for _, host in sorted(world.state.inventory.nodes.items()):
        assert host.statistics is not None
        result.append(round(host.statistics.get_figures()[0][0]))
    return result


def test_enabling_the_score_later_gives_the_statistics_of_enabling_it_from_the_start() -> None:
    world = busy(4)
    assert [node.statistics for node in world.state.inventory.nodes.values()] == [None] * 4
    world.send(policy_record(BY_RISK))
    assert means(world) == means(busy(4, BY_RISK))


def test_the_order_of_resources_in_a_policy_does_not_matter() -> None:
    policies = [
        BY_RISK.replace("{name: cpu}", resources)
        for resources in (
            "{name: memory}, {name: cpu, hotPercent: 70}",
            "{name: cpu, hotPercent: 70}, {name: memory}",
        )
    ]
    world = busy(2, policies[0])
    before = world.state.policy.digest
    (lifetime,) = {
        node.statistics.lifetimes["n-0-0"]
        for node in world.state.inventory.nodes.values()
        if node.statistics is not None and "n-0-0" in node.statistics.lifetimes
    }
    world.send(policy_record(policies[1]))
    statistics = world.state.inventory.nodes["n-0"].statistics
    assert statistics is not None
    assert statistics.lifetimes["n-0-0"] == lifetime
    assert world.state.policy.digest == before
