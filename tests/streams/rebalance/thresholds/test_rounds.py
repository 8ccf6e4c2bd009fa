"""Invariants of rounds over random clusters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.metrics import NodeMetric, PodMetric
from streams.rebalance.outcome import RoundOutcome
from tests.streams.builders import CLUSTER, container
from tests.streams.world import PERCENT, RoundWorld, hot_world

_POLICY = """
compat: {compat}
rebalance:
  highThresholds: {{cpu: 60, memory: 70}}
  lowThresholds: {{cpu: 35, memory: 50}}
  prodHighThresholds: {{cpu: 45}}
  prodLowThresholds: {{cpu: 20}}
  nodeFit: {fit}
  useDeviationThresholds: {deviation}
  anomalyCondition: {{consecutiveAbnormalities: {rounds}, consecutiveNormalities: 2}}
  nodePools:
    - {{name: web, nodeSelector: {{matchLabels: {{pool: web}}}}, highThresholds: {{cpu: 80, memory: 80}}}}
descheduling: {{deschedulingInterval: 1m}}
"""
_MEMORY = 32 * 2**30


@dataclass(frozen=True)
class RoundInputs:
    """Nodes, pods and usage, in an order that can be changed."""

    document: str
    nodes: list[tuple[str, dict[str, Any]]]
    pods: list[tuple[str, str, dict[str, Any]]]
    loads: list[dict[str, tuple[int, int]]]
    """Per round, cpu and memory of each pod in percent of a node."""


@st.composite
def clusters(draw: st.DrawFn, compat: str = "loadstream", max_rounds: int = 4) -> RoundInputs:
    """A few nodes in two pools with pods of all classes."""
    document = _POLICY.format(
        compat=compat,
        fit=str(draw(st.booleans())).lower(),
        deviation=str(draw(st.booleans())).lower(),
        rounds=draw(st.integers(1, 2)),
    )
    names = [f"n{number}" for number in range(draw(st.integers(2, 6)))]
    nodes = [
        (
            name,
            {
                "labels": {"pool": draw(st.sampled_from(["web", "batch"]))},
                "unschedulable": draw(st.integers(0, 9)) == 0,
            },
        )
        for name in names
    ]
    pods = []
    for number in range(draw(st.integers(1, 16))):
        fields: dict[str, Any] = {
            "priority": draw(st.sampled_from([None, 5_500, 7_500, 9_500])),
            "containers": (container({"cpu": draw(st.sampled_from(["100m", "2", "6"]))}),),
            "created_at_ms": 1_750_000_000_000 + draw(st.integers(0, 1)),
        }
        if draw(st.integers(0, 5)) == 0:
            fields["node_selector"] = {"pool": "web"}
        pods.append((f"p{number:02}", draw(st.sampled_from(names)), fields))
    percent = st.integers(0, 45)
    loads = [
        {uid: (draw(percent), draw(percent)) for uid, _, _ in pods}
        for _ in range(draw(st.integers(1, max_rounds)))
    ]
    return RoundInputs(document, nodes, pods, loads)


def build_world(cluster: RoundInputs, *, backwards: bool = False) -> RoundWorld:
    world = RoundWorld(cluster.document)
    for name, fields in cluster.nodes[:: -1 if backwards else 1]:
        world.node(name, system=5, **fields)
    for uid, name, fields in cluster.pods[:: -1 if backwards else 1]:
        world.pod(uid, name, 0, **fields)
    return world


def load(world: RoundWorld, cluster: RoundInputs, number: int, *, backwards: bool = False) -> None:
    """Set the usage of the remaining pods to that of this round."""
    for uid, (cpu, memory) in list(cluster.loads[number].items())[:: -1 if backwards else 1]:
        name = world.inventory.node_of_pod[uid]
        usage = {"cpu": cpu * PERCENT, "memory": memory * _MEMORY // 100}
        world.used[name].pop(uid, None)
        world.used[name][uid] = usage


def every_third(candidate: Any) -> str | None:
    """A gate that stops some."""
    return "no" if int(candidate.held.pod.uid[1:]) % 3 == 2 else None


def content(outcome: RoundOutcome) -> list[Any]:
    """The content of a round's outcome."""
    pools: list[Any] = []
    for pool in outcome.pools:
        pools.append((pool.name, pool.thresholds, pool.classes, pool.end_reason, pool.targets))
        pools += [
            (hot.name, hot.phase, hot.rounds, hot.abnormal, hot.end_reason, hot.gates,
             [(pod.pod.uid, pod.gate, pod.message, pod.target) for pod in hot.pods])
            for hot in pool.hot
        ]  # fmt: skip
        pools += [(move.held.pod.uid, move.reason, move.target) for move in pool.moves]
    return pools


@given(clusters())
def test_the_order_of_nodes_and_pods_does_not_matter(cluster: RoundInputs) -> None:
    forwards, backwards = build_world(cluster), build_world(cluster, backwards=True)
    for number in range(len(cluster.loads)):
        load(forwards, cluster, number)
        load(backwards, cluster, number, backwards=True)
        assert forwards.round(gate=every_third) == backwards.round(gate=every_third)
        assert content(forwards.outcome) == content(backwards.outcome)
        assert forwards.rows == backwards.rows


@given(clusters())
def test_no_target_passes_a_high_threshold_by_the_plan(cluster: RoundInputs) -> None:
    world = build_world(cluster)
    for number in range(len(cluster.loads)):
        load(world, cluster, number)
        world.round(gate=every_third)
        for pool in world.outcome.pools:
            assert pool.readings is not None
            for phase in ("node", "prod"):
                for move in pool.moves:
                    assert move.target is not None
                    reading = pool.readings.find_readings(move.target, phase)
                    assert reading is not None
                    arriving = [
                        other
                        for other in pool.moves
                        if other.target == move.target
                        and (phase == "node" or other.held.pod.priority in (None, 9_500))
                    ]
                    for resource, limit in reading.limit.items():
                        planned = sum(other.usage.get(resource, 0) for other in arriving)
                        assert reading.used[resource] + planned <= limit or not planned


@given(clusters())
def test_pods_leave_only_while_their_node_is_over(cluster: RoundInputs) -> None:
    world = build_world(cluster)
    for number in range(len(cluster.loads)):
        load(world, cluster, number)
        world.round()
        departed: dict[str, dict[str, int]] = {}
        for pool in world.outcome.pools:
            assert pool.readings is not None
            for move in pool.moves:
                reading = pool.readings.find_readings(move.node, move.phase)
                assert reading is not None
                gone = departed.setdefault(move.node, {})
                assert any(
                    used - gone.get(resource, 0) > reading.limit[resource]
                    for resource, used in reading.used.items()
                )
                for resource, amount in move.usage.items():
                    gone[resource] = gone.get(resource, 0) + amount


@pytest.mark.slow
@given(clusters(max_rounds=3), st.integers(1, 3))
def test_refreshing_a_few_nodes_at_a_time_gives_the_same_round(
    cluster: RoundInputs, most: int
) -> None:
    at_once, bit_by_bit = build_world(cluster), build_world(cluster)
    for number in range(len(cluster.loads)):
        load(at_once, cluster, number)
        load(bit_by_bit, cluster, number)
        bit_by_bit.measure()
        while bit_by_bit.balancer.refresh(most):
            pass
        assert at_once.round() == bit_by_bit.round()
        assert content(at_once.outcome) == content(bit_by_bit.outcome)


@pytest.mark.slow
@given(clusters(max_rounds=3), st.data())
def test_updated_columns_equal_new_ones(cluster: RoundInputs, data: st.DataObject) -> None:
    world = build_world(cluster)
    for number in range(len(cluster.loads)):
        name, fields = data.draw(st.sampled_from(cluster.nodes))
        state = world.inventory.nodes[name].state
        if state is not None and data.draw(st.booleans()):
            world.inventory.apply_node(state.model_copy(update={"event": "removed"}))
        else:
            world.node(name, system=5, **fields)
        load(world, cluster, number)
        world.round()
        fresh = RoundWorld(cluster.document)
        fresh.inventory = world.inventory
        world.inventory.touched.update(dict.fromkeys(world.inventory.nodes))
        columns = fresh.balancer.columns
        columns.refresh(world.inventory)
        for name, mine in vars(world.balancer.columns).items():
            if isinstance(mine, np.ndarray):
                assert mine.tolist() == getattr(columns, name).tolist()


def _used(name: str, cpu: int) -> PodMetric:
    return PodMetric(namespace="default", name=name, usage={"cpu": cpu})


_PARTS: list[tuple[dict[str, Any], str]] = [
    ({"usage": {"cpu": 9_000}, "system_usage": {}}, "high"),
    ({"usage": {"cpu": 5_000}, "system_usage": {}}, "normal"),
    ({"usage": {"cpu": 9_000}, "system_usage": {"cpu": 100}}, "high"),
    ({"usage": {"memory": 9_000}, "system_usage": {"cpu": 100}}, "skipped"),
    ({"usage": {"memory": 9_000}, "system_usage": {"memory": 100}}, "skipped"),
    ({"usage": {}, "system_usage": {}}, "skipped"),
    # Of a pod without a record.
    ({"usage": {"cpu": 8_000}, "system_usage": {"cpu": 100}, "pods": (_used("x", 6_900),)}, "high"),
    # The usage belongs to pods that the metric does not name.
    ({"usage": {"cpu": 8_000}, "system_usage": {"cpu": 100}, "pods": (_used("a", 100),)}, "high"),
]


@pytest.mark.parametrize(("metric", "expected"), _PARTS)
def test_a_metric_that_lacks_parts_of_a_node_does_not_make_it_a_target(
    metric: dict[str, Any], expected: str
) -> None:
    world = hot_world()
    world.node("n")
    world.pod("a", "n", None)
    world.stale.add("n")
    sent = NodeMetric(cluster=CLUSTER, node="n", updated_at_ms=world.now_ms, **metric)
    world.inventory.apply_metric(sent)
    world.round()
    assert world.pool.get_class("n") == expected


def test_a_pod_that_has_left_is_subtracted_from_the_mean_of_the_whole_node_while_that_contains_it() -> (
    None
):
    world = hot_world()
    world.node("n")
    world.stale.add("n")

    def send(cpu: int, *pods: PodMetric) -> None:
        sent = NodeMetric(
            cluster=CLUSTER, node="n", updated_at_ms=world.now_ms, usage={"cpu": cpu},
            system_usage={"cpu": 500}, pods=pods,
        )  # fmt: skip
        world.inventory.apply_metric(sent)

    for name in "abc":
        world.pod(name, "n", None)
    send(8_000, _used("a", 3_000), _used("b", 2_500), _used("c", 2_000))
    world.round()
    assert world.pool.get_class("n") == "high"
    world.gone("a")
    send(7_600, _used("b", 2_500), _used("c", 2_000))
    world.round()
    assert world.pool.get_class("n") == "normal"
    world.now_ms += 300_000
    # Now an unknown pod has this usage.
    send(8_000, _used("b", 2_500), _used("c", 2_000))
    world.round()
    assert world.pool.get_class("n") == "high"


def test_a_metric_without_pods_does_not_make_its_node_calm_for_prod_pods() -> None:
    world = RoundWorld(
        """
rebalance:
  highThresholds: {cpu: 90}
  lowThresholds: {cpu: 80}
  prodHighThresholds: {cpu: 30}
  prodLowThresholds: {cpu: 20}
"""
    )
    world.node("n")
    world.pod("a", "n", None, priority=9_500)
    world.stale.add("n")
    usage = {"usage": {"cpu": 5_000}, "system_usage": {"cpu": 500}}
    metric = NodeMetric.model_validate(
        {"cluster": CLUSTER, "node": "n", "updated_at_ms": world.now_ms, **usage}
    )
    world.inventory.apply_metric(metric)
    world.round()
    assert world.pool.classes == {"n": "prodHigh"}
