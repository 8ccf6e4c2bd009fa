"""Rounds as loadstream makes them: who is hot, who leaves, where to, and why not."""

from typing import Any

import pytest

from schemas.nodes import Taint
from schemas.pods import Toleration
from streams.cluster.kind import kind_of
from streams.cluster.node import Held
from streams.rebalance.outcome import EndOfNode, EndOfRound
from tests.streams.cluster.builders import RAW_ALLOCATABLE, container, pod
from tests.streams.rebalance.world import PERCENT, THRESHOLDS, World, targets

KOORDINATOR = "compat: koordinator\n" + THRESHOLDS


def hot_world(document: str = THRESHOLDS) -> World:
    """One hot node with a pod that just covers the excess, and one target."""
    world = World(document)
    world.node("hot", system=60)
    world.pod("a", "hot", 15)
    targets(world, ["calm"])
    return world


# --- who leaves -----------------------------------------------------------------------------------


def test_a_pod_leaves_the_hot_node_for_the_calm_one_and_says_why() -> None:
    world = hot_world()
    assert world.round() == ["a hot->calm"]
    (move,) = world.outcome.moves
    assert move.reason == "node is overutilized, node cpu usage(75.00%)>threshold(70.00%)"
    assert move.usage == {"cpu": 1_500, "memory": 0, "pods": 1}
    assert world.pool.counts() | {"high": 1, "low": 1} == world.pool.counts()
    assert world.hot("hot").ended == ""


def test_the_pod_that_just_covers_the_excess_goes_first() -> None:
    # Golden vector G9 of features.md: the excess is 1000m.
    world = World()
    world.node("hot", system=20)
    for uid, cpu in (("small", 9), ("covers", 11), ("large", 40)):
        world.pod(uid, "hot", cpu)
    targets(world, ["calm"])
    assert world.round() == ["covers hot->calm"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"priority": 5_500}, {"priority": 9_500}),
        ({"priority": 9_100}, {"priority": 9_500}),
        ({"qos_class": "Burstable"}, {"qos_class": "Guaranteed"}),
        (
            {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}},
            {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "0"}},
        ),
        ({}, {"annotations": {"scheduling.koordinator.sh/eviction-cost": "7"}}),
        ({"created_at_ms": 1_750_000_000_001}, {"created_at_ms": 1_750_000_000_000}),
        ({}, {}),
    ],
)
def test_pods_leave_in_the_order_of_their_keys(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    world = World()
    world.node("hot", system=45)
    # The other one is told of first and measured first, and uses as much.
    world.pod("b", "hot", 15, **second)
    world.pod("a", "hot", 15, **first)
    targets(world, ["calm"])
    assert world.round() == ["a hot->calm"]


def test_pods_leave_until_the_node_is_below_its_threshold() -> None:
    world = World()
    world.node("hot", system=40)
    for number in range(5):
        world.pod(f"p{number}", "hot", 10)
    targets(world, ["calm"], system=0)
    assert world.round() == ["p0 hot->calm", "p1 hot->calm"]
    assert world.hot("hot").ended == ""


def test_the_most_used_node_takes_its_turn_first() -> None:
    world = World()
    for name, cpu in (("a", 72), ("b", 95), ("c", 80)):
        world.node(name, system=cpu - 30)
        world.pod(f"pod-{name}", name, 30)
    targets(world, [f"calm-{number}" for number in range(6)])
    world.round()
    assert [hot.name for hot in world.pool.hot] == ["b", "c", "a"]
    assert [move.node for move in world.outcome.moves] == ["b", "c", "a"]


def test_pods_that_cannot_help_or_are_not_known_stay() -> None:
    world = hot_world()
    world.pod("idle", "hot", usage={"cpu": 0, "memory": 5}, priority=5_500)
    world.pod("unmeasured", "hot", None, priority=5_500)
    world.pod("terminating", "hot", 0, priority=5_500, deleting_at_ms=world.now_ms)
    assert world.round() == ["a hot->calm"]
    assert world.gates("hot") == {
        "idle": "uninvolved",
        "unmeasured": "unmeasured",
        "terminating": "leaving",
        "a": "",
    }


def test_a_pod_that_leaves_already_counts_as_gone() -> None:
    world = World()
    world.node("hot", system=60)
    world.pod("a", "hot", 15)
    world.pod("b", "hot", 15)
    targets(world, ["calm"])
    assert world.round(leaving=["b"]) == ["a hot->calm"]
    world.pod("c", "hot", 0)
    world.system["hot"] = {"cpu": 50 * PERCENT, "memory": 0}
    assert world.round(leaving=["b"]) == []
    assert world.hot("hot").ended == "pods that leave already bring it below"


def test_room_that_is_only_reserved_is_no_pod_that_could_leave() -> None:
    world = hot_world()
    world.gone("a")
    world.system["hot"] = {"cpu": 80 * PERCENT, "memory": 0}
    reserved = pod("r")
    world.inventory.hold(
        "hot", Held(reserved, kind_of(reserved).demand, 0, "d" * 8, 9), first_seen=True
    )
    assert world.round() == []
    assert world.hot("hot").looked_at == 0


@pytest.mark.parametrize(
    ("more", "gate"),
    [
        ("  evictableNamespaces: {include: [other]}", "namespaces"),
        ("  evictableNamespaces: {exclude: [default]}", "namespaces"),
        ("  podSelectors: [{name: x, selector: {matchLabels: {app: web}}}]", "selectors"),
    ],
)
def test_pods_that_the_policy_leaves_alone_stay(more: str, gate: str) -> None:
    world = hot_world(THRESHOLDS + more)
    assert world.round() == []
    assert world.gates("hot") == {"a": gate}
    assert world.hot("hot").ended == "no further pod may leave"


def test_the_first_gate_that_stops_a_pod_is_told_in_its_own_words() -> None:
    world = hot_world()
    assert world.round(protect=lambda held: f"{held.pod.name} is a bare pod") == []
    (verdict,) = world.hot("hot").pods
    assert (verdict.gate, verdict.message) == ("filter", "a is a bare pod")
    assert world.round(gate=lambda candidate: f"not to {candidate.target}") == []
    (verdict,) = world.hot("hot").pods
    assert (verdict.gate, verdict.message) == ("gate", "not to calm")


def test_a_gate_may_end_the_node_or_the_round() -> None:
    world = World()
    for name in ("a", "b"):
        world.node(name, system=50)
        for number in range(3):
            world.pod(f"{name}{number}", name, 15)
    targets(world, ["calm"], system=0)
    assert world.round(gate=lambda candidate: EndOfNode("enough of it")) == []
    assert [(hot.looked_at, hot.ended) for hot in world.pool.hot] == [(1, "enough of it")] * 2
    assert world.round(gate=lambda candidate: EndOfRound("enough")) == []
    assert [(hot.looked_at, hot.ended) for hot in world.pool.hot] == [(1, "enough"), (0, "enough")]


def test_a_pod_without_a_target_is_remembered_and_not_tried_again() -> None:
    world = World()
    world.node("hot", system=10)
    world.pod("whale", "hot", 65)
    targets(world, ["calm"])
    assert world.round() == []
    (unmovable,) = world.outcome.unmovable
    assert (unmovable.pod.uid, unmovable.usage, unmovable.room) == (
        "whale", {"cpu": 6_500}, {"cpu": 6_000},
    )  # fmt: skip
    assert unmovable.reason == (
        "none of 1 targets that may run it could take it without passing a threshold or its requests' "
        "room: it uses cpu 6500"
    )
    asked: list[Any] = []

    def remembered(*about: Any) -> str:
        asked.append(about)
        return "tried in vain"

    assert world.round(remembered=remembered) == []
    assert asked == [("whale", {"cpu": 6_500}, {"cpu": 6_000})]
    assert world.gates("hot") == {"whale": "unmovable"}
    assert world.outcome.unmovable == []


# --- where to -------------------------------------------------------------------------------------


def test_the_target_with_the_most_room_is_taken_and_equal_ones_by_name() -> None:
    world = hot_world()
    world.node("better", system=5)
    world.node("as-good", system=5)
    assert world.round() == ["a hot->as-good"]


def test_moves_of_one_round_do_not_pile_up_on_a_target() -> None:
    world = World()
    for number in range(4):
        world.node(f"hot-{number}", system=50)
        world.pod(f"p{number}", f"hot-{number}", 25)
    targets(world, ["calm-a", "calm-b"], system=20)
    assert world.round() == [
        "p0 hot-0->calm-a", "p1 hot-1->calm-b", "p2 hot-2->calm-a", "p3 hot-3->calm-b",
    ]  # fmt: skip
    world.node("calm-a", system=40)
    world.node("calm-b", system=40)
    assert world.round() == ["p0 hot-0->calm-a", "p1 hot-1->calm-b"]
    assert world.gates("hot-3") == {"p3": "room"}
    assert world.outcome.unmovable == []


def test_pods_that_were_placed_lately_take_room_before_they_are_measured() -> None:
    world = hot_world()
    world.node("calm", system=35)
    requests = container({"cpu": "3"}, {"cpu": "3"})
    world.pod("new", "calm", None, containers=(requests,), scheduled_at_ms=world.now_ms + 60_000)
    assert world.round() == []
    assert world.gates("hot") == {"a": "unmovable"}


@pytest.mark.parametrize(
    ("fields", "calm"),
    [
        ({"node_selector": {"zone": "a"}}, {"labels": {"zone": "b"}}),
        ({}, {"taints": (Taint(key="k", effect="NoSchedule"),)}),
        ({"containers": (container({"cpu": "11"}),)}, {}),
        ({"containers": (container({"example.com/gpu": "1"}),)}, {}),
        ({}, {"allocatable": {"cpu": "10", "memory": "32Gi", "pods": "0"}}),
    ],
)
def test_with_node_fit_a_pod_goes_only_where_it_could_run(
    fields: dict[str, Any], calm: dict[str, Any]
) -> None:
    for node_fit in (True, False):
        world = World(THRESHOLDS + f"  nodeFit: {str(node_fit).lower()}")
        world.node("hot", system=60)
        world.pod("a", "hot", 15, **fields)
        world.node("calm", **calm)
        assert world.round() == ([] if node_fit else ["a hot->calm"])
        assert bool(world.outcome.unmovable) == node_fit


def test_planned_moves_take_the_room_of_requests() -> None:
    world = World()
    world.node("hot", system=40)
    for number in range(3):
        world.pod(f"p{number}", "hot", 20, containers=(container({"cpu": "6"}),))
    targets(world, ["calm-a", "calm-b"], system=0)
    assert world.round() == ["p0 hot->calm-a", "p1 hot->calm-b"]


def test_a_tolerated_taint_and_a_matching_label_are_no_hindrance() -> None:
    world = hot_world()
    world.gone("a")
    tolerations = (Toleration(key="k", operator="Exists"),)
    world.pod("a", "hot", 15, tolerations=tolerations, node_selector={"zone": "a"})
    world.node("fits", 20, labels={"zone": "a"}, taints=(Taint(key="k", effect="NoExecute"),))
    assert world.round() == ["a hot->fits"]


@pytest.mark.parametrize("how", ["unschedulable", "cordoned", "stale", "abnormal"])
def test_some_calm_nodes_take_no_pods(how: str) -> None:
    world = hot_world()
    if how == "unschedulable":
        world.node("calm", unschedulable=True)
    elif how == "cordoned":
        world.inventory.nodes["calm"].cordoned = True
        world.node("calm")
    elif how == "stale":
        world.stale.add("calm")
    else:
        world = hot_world(
            THRESHOLDS.replace("consecutiveNormalities: 1", "consecutiveNormalities: 3")
        )
        world.system["calm"] = {"cpu": 80 * PERCENT, "memory": 0}
        world.round()
        world.system["calm"] = {"cpu": 10 * PERCENT, "memory": 0}
    assert world.round() == []
    assert world.pool.ended == "no node is below all low thresholds"


# --- what counts ----------------------------------------------------------------------------------


def test_nothing_happens_while_paused_and_nothing_is_counted() -> None:
    world = hot_world(THRESHOLDS + "  paused: true")
    assert world.round() == []
    assert (world.outcome.paused, world.outcome.pools, world.rows) == (True, [], {})


def test_number_of_nodes_asks_for_more_targets() -> None:
    world = hot_world(THRESHOLDS + "  numberOfNodes: 1")
    assert world.round() == []
    assert world.pool.ended == (
        "1 nodes are below the low thresholds, numberOfNodes asks for more than 1"
    )
    world.node("another")
    assert world.round() != []


def test_nodes_that_the_policy_does_not_look_at_are_no_part_of_a_round() -> None:
    world = hot_world(THRESHOLDS + "descheduling: {nodeSelector: {matchLabels: {in: 'yes'}}}")
    assert world.round() == []
    assert world.pool.names == []
    world.node("hot", 60, labels={"in": "yes"})
    world.node("calm", 10, labels={"in": "yes"})
    assert world.round() == ["a hot->calm"]


def test_a_node_without_a_fresh_metric_is_skipped() -> None:
    world = hot_world()
    world.round()
    world.stale.add("hot")
    outcomes = [bool(world.round()) for _ in range(3)]
    assert outcomes == [True, True, False]
    assert world.pool.classes()["hot"] == "skipped"


@pytest.mark.parametrize(("compat", "leaves"), [(THRESHOLDS, []), (KOORDINATOR, ["a hot->None"])])
def test_usage_of_pods_that_are_gone_does_not_count(compat: str, leaves: list[str]) -> None:
    """X17."""
    world = World(compat)
    world.node("hot", system=50)
    world.pod("a", "hot", 15)
    world.pod("gone", "hot", 15)
    world.gone("gone", reported=True)
    targets(world, ["calm"])
    assert world.round() == leaves


@pytest.mark.parametrize(("compat", "leaves"), [(THRESHOLDS, ["a hot->calm"]), (KOORDINATOR, [])])
def test_usage_of_host_applications_counts(compat: str, leaves: list[str]) -> None:
    """X17."""
    world = World(compat)
    world.node("hot", system=40)
    world.hosts["hot"] = {"nginx": 20}
    world.pod("a", "hot", 15)
    targets(world, ["calm"])
    assert world.round() == leaves


@pytest.mark.parametrize(("compat", "hot"), [("", []), ("compat: koordinator\n", ["calm", "hot"])])
def test_raw_allocatable_is_merged_resource_by_resource(compat: str, hot: list[str]) -> None:
    """X21: what the annotation does not list is not nothing."""
    world = World(
        compat
        + """
rebalance:
  highThresholds: {cpu: 70, memory: 80}
  lowThresholds: {cpu: 40, memory: 60}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
    )
    for name in ("hot", "calm"):
        world.node(name, annotations={RAW_ALLOCATABLE: '{"cpu": "10"}'})
        world.pod(f"pod-{name}", name, usage={"cpu": 100, "memory": 100})
    world.round()
    assert sorted(each.name for each in world.pool.hot) == hot


@pytest.mark.parametrize(("compat", "hot"), [("", ["hot"]), ("compat: koordinator\n", [])])
def test_a_deviation_of_zero_is_a_threshold(compat: str, hot: list[str]) -> None:
    """X15: below the mean is low, ten points above it is hot."""
    world = World(
        compat
        + """
rebalance:
  useDeviationThresholds: true
  highThresholds: {cpu: 10}
  lowThresholds: {cpu: 0}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
    )
    world.node("hot", system=30)
    world.pod("a", "hot", 20)
    targets(world, ["calm-a", "calm-b"], system=20)
    world.round()
    assert [each.name for each in world.pool.hot] == hot
    if hot:
        assert world.hot("hot").over == "node cpu usage(50.00%)>threshold(40.00%)"
        assert [move.target for move in world.outcome.moves] == ["calm-a"]


_POOLS = """
rebalance:
  highThresholds: {cpu: 70}
  lowThresholds: {cpu: 40}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
  nodePools:
    - name: web
      nodeSelector: {matchLabels: {pool: web}}
      highThresholds: {cpu: 90}
      lowThresholds: {cpu: 50}
"""


@pytest.mark.parametrize(
    ("compat", "pools"),
    [
        ("", {"web": ["web"], "__default_node_pool__": ["calm"]}),
        ("compat: koordinator\n", {"__default_node_pool__": ["calm", "web"], "web": []}),
    ],
)
def test_a_node_belongs_to_the_first_pool_that_selects_it(
    compat: str, pools: dict[str, list[str]]
) -> None:
    """X18: 80 % is not hot for the pool, and nobody else judges its nodes."""
    world = World(compat + _POOLS)
    world.node("web", system=60, labels={"pool": "web"})
    world.pod("a", "web", 20)
    targets(world, ["calm"])
    moves = world.round()
    assert {pool.name: pool.names for pool in world.outcome.pools} == pools
    assert bool(moves) == bool(compat)


def test_pods_stay_within_their_pool() -> None:
    world = World(_POOLS)
    world.node("web", system=80, labels={"pool": "web"})
    world.pod("a", "web", 20)
    targets(world, ["calm"])
    assert world.round() == []
    world.node("web-calm", 45, labels={"pool": "web"})
    assert world.round() == ["a web->web-calm"]


_PROD = THRESHOLDS + "  prodHighThresholds: {cpu: 30}\n  prodLowThresholds: {cpu: 20}\n"


def test_prod_pods_leave_nodes_where_prod_pods_use_too_much() -> None:
    world = World(_PROD)
    world.node("hot", system=0)
    world.pod("batch", "hot", 10, priority=5_500)
    world.pod("prod-a", "hot", 20, priority=9_500)
    world.pod("prod-b", "hot", 15, priority=9_500)
    world.node("calm", system=10)
    assert world.round() == ["prod-b hot->calm"]
    assert world.pool.classes() == {"hot": "prodHigh", "calm": "bothLow"}
    assert world.outcome.moves[0].reason == (
        "node is overutilized, prod cpu usage(35.00%)>threshold(30.00%)"
    )


def test_no_target_passes_its_prod_threshold_by_the_plan() -> None:
    world = World(_PROD)
    world.node("hot", system=70)
    world.pod("a", "hot", 15, priority=9_500)
    world.node("calm", system=0)
    world.pod("b", "calm", 18, priority=9_500)
    assert world.round() == []
    world.node("calmer", system=30)
    assert world.round() == ["a hot->calmer"]


def test_the_number_of_pods_is_a_resource_like_any_other() -> None:
    world = World(
        """
rebalance:
  highThresholds: {pods: 2}
  lowThresholds: {pods: 1}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
    )
    world.node("hot", allocatable={"cpu": "10", "memory": "32Gi", "pods": "100"})
    world.node("calm", allocatable={"cpu": "10", "memory": "32Gi", "pods": "100"})
    for number in range(5):
        world.pod(f"p{number}", "hot", 1)
    assert world.round() == ["p0 hot->calm", "p1 hot->calm"]
    assert world.hot("hot").usage == {"pods": 5}


def test_a_pool_without_thresholds_says_so() -> None:
    world = World("mode: observe")
    world.node("n", system=99)
    assert world.round() == []
    assert world.pool.ended == "the pool has no thresholds"


def test_how_any_node_stands_can_be_read() -> None:
    world = hot_world()
    world.round()
    assert world.pool.readings is not None
    reading = world.pool.readings("calm", "node")
    assert reading is not None
    assert (reading.used, reading.limit, reading.capacity) == (
        {"cpu": 1_000}, {"cpu": 7_000}, {"cpu": 10_000},
    )  # fmt: skip
    assert world.pool.readings("nobody", "node") is None
