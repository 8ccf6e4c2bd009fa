"""A policy that estimates pods otherwise counts them anew node by node, a few at each record."""

import pytest

from streams.inventory import pod_sums, recount
from streams.inventory.estimate import Estimator
from streams.inventory.inventory import Inventory
from tests.streams.cluster.builders import (
    lifecycle,
    load_args,
    metric,
    node,
    pod,
    policy_record,
    tick,
)
from tests.streams.cluster.harness import Run

HALF = "loadAware: {estimatedScalingFactors: {cpu: 50, memory: 50}}"
FIFTH = "loadAware: {estimatedScalingFactors: {cpu: 20, memory: 20}}"
PODS = 3


def busy(nodes: int) -> Run:
    """Nodes with three pods of a core each, none of which is measured."""
    run = Run()
    run.say(tick(), policy_record("loadAware: {estimatedScalingFactors: {cpu: 100, memory: 100}}"))
    for number in range(nodes):
        name = f"n-{number}"
        run.say(node(name, cpu="10"), metric(name, cpu=1_000))
        for place in range(PODS):
            run.say(lifecycle("running", pod(f"{name}-{place}", cpu="1"), name))
    return run


def expected(run: Run) -> list[int]:
    """Millicores that the pods of each node are expected to add."""
    return [each.load.delta[0] for _, each in sorted(run.state.inventory.nodes.items())]


def test_a_small_cluster_is_counted_anew_at_once() -> None:
    run = busy(4)
    assert expected(run) == [3_000] * 4
    run.say(policy_record(HALF))
    assert expected(run) == [1_500] * 4
    assert not run.state.inventory.recounting.under_way


@pytest.mark.parametrize("restarts", [False, True])
def test_no_record_counts_more_pods_anew_than_the_limit(
    restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recount, "RECOUNTED_PER_RECORD_MAX", PODS + 1)
    run = busy(4)
    counted = 0
    count = pod_sums.PodSums._assigned

    def counting(self: pod_sums.PodSums, *given: object) -> object:
        nonlocal counted
        counted += 1
        return count(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(pod_sums.PodSums, "_assigned", counting)
    seen = []
    for number, said in enumerate([policy_record(HALF), *(tick(1 + n) for n in range(4))]):
        counted = 0
        run.say(said)
        assert counted <= PODS, number
        seen.append(expected(run))
        if restarts:
            run.restart()
            assert expected(run) == seen[-1]
    assert seen == [
        [1_500, 3_000, 3_000, 3_000],
        [1_500, 1_500, 3_000, 3_000],
        [1_500, 1_500, 1_500, 3_000],
        [1_500, 1_500, 1_500, 1_500],
        [1_500, 1_500, 1_500, 1_500],
    ]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_policy_that_comes_meanwhile_waits_until_all_are_counted_by_the_one_before(
    restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recount, "RECOUNTED_PER_RECORD_MAX", PODS + 1)
    run = busy(3)
    run.say(policy_record(HALF), policy_record(FIFTH))
    seen = [expected(run)]
    for second in range(1, 5):
        if restarts:
            run.restart()
        run.say(tick(second))
        seen.append(expected(run))
    assert seen == [
        [1_500, 1_500, 3_000],
        [1_500, 1_500, 1_500],
        [600, 1_500, 1_500],
        [600, 600, 1_500],
        [600, 600, 600],
    ]


def test_what_changes_meanwhile_counts_as_its_node_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recount, "RECOUNTED_PER_RECORD_MAX", PODS + 1)
    run = busy(2)
    run.say(policy_record(HALF))
    for name in ("n-0", "n-1"):
        run.say(lifecycle("running", pod(f"{name}-new", cpu="2"), name))
    assert expected(run) == [1_500 + 1_000, 3_000 + 2_000]
    run.say(tick(1))
    assert expected(run) == [2_500, 2_500]


def test_a_resource_that_was_not_estimated_adds_nothing_until_its_nodes_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recount, "RECOUNTED_PER_RECORD_MAX", PODS + 1)
    run = busy(2)
    wide = "loadAware: {estimatedScalingFactors: {cpu: 50, memory: 50, pods: 100}, resourceWeights: {cpu: 1, memory: 1, pods: 1}}"
    run.say(policy_record(wide))
    inventory: Inventory = run.state.inventory
    old = inventory.nodes["n-1"].load
    assert old.estimator.resources == ("cpu", "memory", "pods")
    assert old.delta == (3_000, old.delta[1], 0)
    assert len(old.expected(None, 0)) == len(old.estimator.resources)
    run.say(tick(1))
    assert sum(old.delta[:1]) == 1_500
    assert old.pods.estimator is old.estimator


def test_thresholds_alone_count_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    run = busy(3)
    monkeypatch.setattr(pod_sums.PodSums, "_assigned", None)
    run.say(
        policy_record(
            "loadAware: {estimatedScalingFactors: {cpu: 100, memory: 100}, usageThresholds: {cpu: 5}}"
        )
    )
    assert expected(run) == [3_000] * 3


def test_an_estimator_is_what_its_row_says() -> None:
    made = Estimator(
        load_args(
            estimatedScalingFactors={"cpu": 33},
            allowCustomizeEstimation=True,
            estimatedSecondsAfterPodScheduled=7,
        )
    )
    again = Estimator.of(made.counting(), made.learned)
    assert again.counts_like(made)
    assert again.counting() == made.counting()
