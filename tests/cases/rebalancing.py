"""Who is hot, which pod leaves, and where it goes."""

from schemas.messages.nodes import Taint
from schemas.messages.pods import PodLifecycle
from schemas.messages.workloads import WorkloadState
from tests.cases.case import case, cases
from tests.cases.cluster import MEMORY, Cluster, make_pod, moving
from tests.streams.cluster.builders import CLUSTER, RAW_ALLOCATABLE, controlled_by

_MEMORY = """
rebalance:
  lowThresholds: {cpu: 60, memory: 30}
  highThresholds: {cpu: 70, memory: 60}
"""


def counts(cluster: Cluster) -> str:
    """Nodes per class in the newest round."""
    (pool,) = cluster.round.pools
    return ", ".join(f"{name} {count}" for name, count in sorted(pool.nodes.items()) if count)


@cases(
    "5",
    (
        "n1 85 %, n2 20 %, n3 25 %, n4 without metric; low 30, high 70",
        moving(),
        "a n1->n2; high 1, low 2, skipped 1; cpu above 70",
    ),
    (
        "the same, thresholds by deviation 10: the mean is that of three nodes",
        moving("rebalance: {useDeviationThresholds: true, lowThresholds: {cpu: 10}, "
               "highThresholds: {cpu: 10}}"),
        "a n1->n2; high 1, low 2, skipped 1; cpu above 53.33",
    ),
)  # fmt: skip
def move_past_a_node_without_metric(policy: str) -> str:
    cluster = Cluster(policy, n1=85, n2=20, n3=25, n4=None)
    cluster.pod("a", "n1", 20)
    cluster.minutes()
    high = cluster.round.pools[0].thresholds.high["cpu"]
    return f"{cluster.moves()}; {counts(cluster)}; cpu above {high:.4g}"


@case(
    "9",
    "control plane with 2899Mi of 1.18Gi allocatable memory (capacity 3.65Gi), static pods only",
    right="245 % of allocatable; the pod stays: mirror or static pod; 6 rounds, 0 commands",
)
def accept_usage_above_allocatable() -> str:
    cluster = Cluster(moving(_MEMORY), n2=10)
    cluster.node(
        "n1", 10, 0, allocatable={"cpu": "1", "memory": "1183Mi", "pods": "110"},
        used={"memory": 2899 * 2**20 / MEMORY},
    )  # fmt: skip
    cluster.pod("kube-apiserver", "n1", 1, memory=2, owners=controlled_by("n1", kind="Node"),
                annotations={"kubernetes.io/config.mirror": "x"}, priority=2_000_001_000)  # fmt: skip
    cluster.minutes(6)
    hot = cluster.hot("n1")
    assert hot is not None
    reading = hot.readings["memory"]
    share = f"{100 * reading.used / reading.capacity:.0f} % of allocatable"
    gate = hot.pods[0].gate if hot.pods else hot.gate
    short = "mirror or static pod" if "mirror" in gate or "static" in gate else gate
    return f"{share}; the pod stays: {short}; 6 rounds, {len(cluster.commands())} commands"


@case(
    "11",
    "100 cores, high 70; pods 30+25+20, system 5; after the first eviction the mean still says 76",
    right="a n1->n2, then none",
)
def count_pods_that_are_there() -> str:
    cluster = Cluster(moving(), n1=80, n2=10)
    for uid, cpu in (("a", 30), ("b", 25), ("c", 20)):
        cluster.pod(uid, "n1", cpu, priority=0 if uid == "a" else 9)
    cluster.minutes()
    first = cluster.moves()
    _, pod, _ = cluster.pods.pop("a")
    cluster.apply(PodLifecycle(cluster=CLUSTER, event="deleted", pod=pod))
    # The node's mean lags behind: its total is 76, its pods and the system part 50.
    cluster.seconds += 60
    cluster.used["n1"] = {"cpu": 50, "memory": 10}
    metric = cluster._metric("n1")
    cluster.apply(metric.model_copy(update={"usage": {**(metric.usage or {}), "cpu": 7600}}))
    cluster.minutes(measured=False)
    return f"{first}, then {cluster.moves()}"


@cases(
    "19",
    ("n1 80 %, n2 cordoned 5 %, n3 60 %", {"n1": 80, "n2": 5, "n3": 60}, "none; hot n1"),
    ("n1 20 %, n2 cordoned 85 %: a cordoned node may be a source",
     {"n1": 20, "n2": 85, "n3": 60}, "b n2->n1; hot n2"),
)  # fmt: skip
def keep_cordoned_nodes_from_being_targets(used: dict[str, float]) -> str:
    cluster = Cluster(moving())
    for name, cpu in used.items():
        cluster.node(name, cpu, unschedulable=name == "n2")
    cluster.pod("a", "n1", 20)
    if used["n2"] > 70:
        cluster.pod("b", "n2", 20)
    cluster.minutes()
    hot = [name for name in used if cluster.hot(name)]
    return f"{cluster.moves()}; hot {' '.join(hot)}"


@cases(
    "21",
    ('16 cores amplified to 32 (raw-allocatable {"cpu":"16"}), 15.5 used, high 70',
     '{"cpu":"16"}', "97 % of 16000"),
    ("the same, the annotation cannot be read: allocatable counts", "{cpu", "not hot"),
)  # fmt: skip
def divide_by_the_raw_allocatable(raw: str) -> str:
    cluster = Cluster(moving(), n2=10)
    cluster.node("n1", 155, allocatable={"cpu": "32", "memory": "40Gi", "pods": "110"},
                 annotations={RAW_ALLOCATABLE: raw})  # fmt: skip
    cluster.pod("a", "n1", 20)
    cluster.minutes()
    hot = cluster.hot("n1")
    if hot is None:
        return "not hot"
    reading = hot.readings["cpu"]
    return f"{100 * reading.used / reading.capacity:.0f} % of {reading.capacity}"


@case(
    "21c",
    "the same node in the filter: a pod of 100m, threshold 75",
    right="waiting: 1 node: cpu usage exceed threshold",
)
def divide_by_the_raw_allocatable_in_the_filter() -> str:
    cluster = Cluster("")
    cluster.node("n1", 155, allocatable={"cpu": "32", "memory": "40Gi", "pods": "110"},
                 annotations={RAW_ALLOCATABLE: '{"cpu":"16"}'})  # fmt: skip
    cluster.minutes()
    return cluster.place(make_pod("p"))


@case(
    "25",
    "all nodes between 50 and 90 %, low 30: no target",
    right="no node is below all low thresholds: the lowest is n4 at cpu 50.0 %",
)
def name_the_lowest_node_without_a_target() -> str:
    cluster = Cluster(moving(), n1=90, n2=60, n3=55, n4=50)
    cluster.pod("a", "n1", 20)
    cluster.minutes()
    return cluster.gate()


@case(
    "26",
    "top level: anomalyCondition 1; pool web without one, low 30, high 80",
    right="pool web needs 1 round: a n1->n2",
)
def inherit_the_anomaly_condition() -> str:
    cluster = Cluster(moving("rebalance: {nodePools: [{name: web, nodeSelector: {matchLabels: "
                             "{pool: web}}, lowThresholds: {cpu: 30}, highThresholds: {cpu: 80}}]}"))  # fmt: skip
    for name, cpu in (("n1", 85), ("n2", 20)):
        cluster.node(name, cpu, labels={"pool": "web"})
    cluster.pod("a", "n1", 20)
    cluster.minutes()
    pool = next(each for each in cluster.round.pools if each.pool == "web")
    return f"pool web needs {pool.rounds_needed} round: {cluster.moves()}"


@case(
    "27",
    "node-a with allocatable cpu 0 and memory 0, one evictable pod that uses 1 core",
    right="b n1->n2; hot n1",
)
def never_judge_a_node_without_capacity() -> str:
    cluster = Cluster(moving(), n1=80, n2=20)
    cluster.node("node-a", 10, allocatable={"cpu": "0", "memory": "0", "pods": "110"})
    cluster.pod("a", "node-a", 10)
    cluster.pod("b", "n1", 20)
    cluster.minutes()
    hot = [name for name in ("node-a", "n1", "n2") if cluster.hot(name)]
    return f"{cluster.moves()}; hot {' '.join(hot)}"


@case(
    "28",
    "memory low 25, high 70; a pod of 80 % of a node, others at 20 %: it would overheat any node",
    right="0 moves in 10 rounds; big: no target",
)
def leave_a_pod_that_no_node_can_take() -> str:
    cluster = Cluster(moving("rebalance: {lowThresholds: {cpu: null, memory: 25}, "
                             "highThresholds: {cpu: null, memory: 70}}"))  # fmt: skip
    for name, memory in (("n1", 85), ("n2", 20), ("n3", 20)):
        cluster.node(name, 10, memory)
    cluster.pod("big", "n1", 5, memory=80)
    cluster.minutes(10)
    stays = "no target" if "target" in cluster.gate("big") else cluster.gate("big")
    return f"{len(cluster.commands())} moves in 10 rounds; big: {stays}"


@case(
    "32",
    "one replica, maxMigratingPerWorkload and maxUnavailablePerWorkload 100 %",
    right="ExpectedReplicas named, with skipCheckExpectedReplicas as the way out",
)
def name_the_gate_of_single_replicas() -> str:
    cluster = Cluster(moving("migration: {maxMigratingPerWorkload: 100%, skipEvictionGates: [], "
                             "maxUnavailablePerWorkload: 100%, skipCheckExpectedReplicas: false}"),
                      n1=85, n2=20)  # fmt: skip
    cluster.pod("a", "n1", 20)
    cluster.apply(WorkloadState(cluster=CLUSTER, uid="a", owner_kind="ReplicaSet",
                                namespace="default", name="a", replicas=1))  # fmt: skip
    cluster.minutes()
    gate = cluster.gate("a")
    named = "ExpectedReplicas" in gate and "skipCheckExpectedReplicas" in gate
    return (
        "ExpectedReplicas named, with skipCheckExpectedReplicas as the way out" if named else gate
    )


@case(
    "38",
    "n1 hot; n2 5 % with taint karpenter.sh/disrupted:NoSchedule; n3 25 %",
    right="a n1->n3",
)
def keep_off_nodes_that_are_taken_down() -> str:
    cluster = Cluster(moving(), n1=85, n3=25)
    cluster.node("n2", 5, taints=(Taint(key="karpenter.sh/disrupted", effect="NoSchedule"),))
    cluster.pod("a", "n1", 20)
    cluster.minutes()
    return cluster.moves()


@cases(
    "2.taint",
    *(
        (
            f"n1 hot; n2 5 % with taint {key}:{effect}; n3 25 %",
            (key, effect),
            "a n1->n3",
            "PreferNoSchedule does not keep moves away",
        )
        for key, effect in (
            ("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"),
            ("karpenter.sh/disrupted", "PreferNoSchedule"),
            ("example.com/slow", "PreferNoSchedule"),
        )
    ),
)
def never_move_to_a_node_that_others_avoid(taint: tuple[str, str]) -> str:
    key, effect = taint
    cluster = Cluster(moving(), n1=85, n3=25)
    cluster.node("n2", 5, taints=(Taint.model_validate({"key": key, "effect": effect}),))
    cluster.pod("a", "n1", 20)
    cluster.minutes()
    return cluster.moves()


@cases(
    "1.capacity",
    (
        "a GPU node whose device plugin restarts (allocatable 0, 2 GPUs used), high gpu 70",
        "0",
        "none",
    ),
    ("the same node does not say its GPUs", None, "none"),
    ("the same node with 2 GPUs, both used: hot", "2", "a n1->n2"),
)
def do_not_judge_by_unknown_capacity(gpus: str | None) -> str:
    gpu = "nvidia.com/gpu"
    cluster = Cluster(moving(f"rebalance: {{lowThresholds: {{{gpu}: 60}}, "
                             f"highThresholds: {{{gpu}: 70}}}}"))  # fmt: skip
    whole = {"cpu": "10", "memory": "40Gi", "pods": "110"}
    cluster.node("n1", 20, allocatable=whole | ({} if gpus is None else {gpu: gpus}),
                 used={gpu: 2})  # fmt: skip
    cluster.node("n2", 10, allocatable=whole | {gpu: "2"}, used={gpu: 0})
    cluster.pod("a", "n1", 10)
    cluster.pods["a"][2][gpu] = 1
    cluster.minutes()
    return cluster.moves()


@case(
    "29",
    "the replacement of a moved pod comes back to its node: its owner is left alone",
    right="a n1->n2; then a-2: frozen",
)
def leave_an_owner_alone_whose_pod_came_back() -> str:
    cluster = Cluster(moving(), n1=85, n2=20)
    cluster.pod("a", "n1", 20, owners=controlled_by("web"))
    cluster.minutes()
    first = cluster.moves()
    cluster.end("a")
    cluster.answer(cluster.commands()[0], "done")
    cluster.seconds += 30
    cluster.used["n1"]["cpu"] = 85
    cluster.pod("a-2", "n1", 20, owners=controlled_by("web"))
    cluster.minutes(2)
    gate = cluster.gate("a-2")
    return f"{first}; then a-2: {'frozen' if 'frozen' in gate else gate}"
