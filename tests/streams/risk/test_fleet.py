"""Mean and variance of usage under policies that use them, and the figures of the fleet."""

import pytest

from schemas.messages.metrics import PodMetric
from tests.streams.cluster.builders import lifecycle, metric, node, pod, policy_record, tick
from tests.streams.cluster.harness import Run

BY_LOAD = "plugins: {score: [LoadAwareScheduling], balance: [LowNodeLoad]}"
_ARGS = "overutilizationRisk: {resources: [{name: cpu}], meanPriorMinutes: %d}"
BY_RISK = f"plugins: {{score: [OverutilizationRisk], balance: [OverutilizationRisk]}}\n{_ARGS}" % 3
OTHERWISE = BY_RISK.replace("Minutes: 3", "Minutes: 30")
PODS = 3
USED = 100
#: Shares that the policy expects pods to use of their requests, as long as none is measured.
_EXPECTED = 0.85


def renewed_at_ms(run: Run) -> int | None:
    fleet = run.state.inventory.fleet
    return None if fleet is None else fleet.renewed_at_ms


def busy(nodes: int, document: str = BY_LOAD) -> Run:
    """Nodes with three pods of a core each, which use a tenth of it."""
    run = Run()
    run.say(tick(), policy_record(document))
    for number in range(nodes):
        name = f"n-{number}"
        run.say(node(name, cpu="10"))
        for place in range(PODS):
            run.say(lifecycle("running", pod(f"{name}-{place}", cpu="1"), name))
    run.say(tick(240))
    for number in range(nodes):
        said = [
            PodMetric(namespace="default", name=f"n-{number}-{place}", usage={"cpu": USED})
            for place in range(PODS)
        ]
        run.say(metric(f"n-{number}", cpu=PODS * USED, seconds=240, pods=tuple(said)))
    return run


def means(run: Run) -> list[int]:
    """Millicores that each node is going to use."""
    result = []
    for _, each in sorted(run.state.inventory.nodes.items()):
        assert each.statistics is not None
        result.append(round(each.statistics.figures()[0][0]))
    return result


def test_a_policy_that_asks_later_finds_the_same_as_one_that_asked_from_the_start() -> None:
    run = busy(4)
    assert [each.statistics for each in run.state.inventory.nodes.values()] == [None] * 4
    run.say(policy_record(BY_RISK))
    assert means(run) == means(busy(4, BY_RISK))


@pytest.mark.parametrize("restarts", [False, True])
def test_until_figures_are_worked_out_the_priors_of_the_policy_hold(restarts: bool) -> None:
    run = Run()
    run.say(tick(), *(node(f"n-{number}", cpu="10") for number in range(3)))
    run.say(lifecycle("running", pod("p", cpu="1"), "n-0"))
    for percent in (30, 60):
        # The first one comes to a cluster that went by the defaults, of the same resources.
        priors = f"overutilizationRisk: {{usagePriorPercent: {percent}}}"
        run.say(policy_record(f"plugins: {{score: [OverutilizationRisk]}}\n{priors}"))
        if restarts:
            run.restart()
        assert means(run) == [10 * percent, 0, 0]
    for second in range(1, 5):
        run.say(tick(second))
    before = renewed_at_ms(run)
    assert before is not None
    # Once they are worked out, those in force hold until it is time again.
    run.say(policy_record("plugins: {score: [OverutilizationRisk]}"))
    if restarts:
        run.restart()
    assert renewed_at_ms(run) == before
    assert means(run) == [600, 0, 0]


def test_the_order_in_which_a_policy_names_resources_is_no_matter() -> None:
    policies = [
        BY_RISK.replace("{name: cpu}", each)
        for each in (
            "{name: memory}, {name: cpu, weight: 2}",
            "{name: cpu, weight: 2}, {name: memory}",
        )
    ]
    run = busy(2, policies[0])
    before = run.state.policy.digest
    (lifetime,) = {
        each.statistics.lifetimes["n-0-0"]
        for each in run.state.inventory.nodes.values()
        if each.statistics is not None and "n-0-0" in each.statistics.lifetimes
    }
    run.say(policy_record(policies[1]))
    statistics = run.state.inventory.nodes["n-0"].statistics
    assert statistics is not None
    assert statistics.lifetimes["n-0-0"] == lifetime
    assert run.state.policy.digest == before
