"""Hot nodes, evicted pods, and their targets."""

from typing import Any

from schemas.messages.migrations import MigrationStatus
from schemas.messages.nodes import Taint
from schemas.messages.objects import WorkloadState
from schemas.messages.pods import PodLifecycle, Toleration
from tests.cases.case import case, cases
from tests.cases.cluster import MEMORY, Cluster, make_pod, make_policy
from tests.streams.builders import CLUSTER, RAW_ALLOCATABLE, controlled_by

_WHOLE = {"cpu": "10", "memory": "40Gi", "pods": "110"}
_GPU = "nvidia.com/gpu"
_CORDONED: dict[str, Any] = {"cpu": 5, "unschedulable": True}
_WEB = {"labels": {"pool": "web"}}


def make_cluster(policy: str, nodes: dict[str, Any], pods: dict[str, tuple[str, float]]) -> Cluster:
    """Return a cluster after a round.

    Nodes are given by their CPU usage or the arguments of `add_node`, pods by their node and CPU usage.
    """
    cluster = Cluster(policy)
    for name, node in nodes.items():
        cluster.add_node(name, **(node if isinstance(node, dict) else {"cpu": node}))
    for uid, (name, cpu) in pods.items():
        cluster.add_pod(uid, name, cpu)
    return cluster.pass_minutes()


def _make_avoided_nodes(effect: str, key: str = "karpenter.sh/disrupted") -> dict[str, Any]:
    taint = Taint.model_validate({"key": key, "effect": effect})
    return {"n1": 85, "n2": {"cpu": 5, "taints": (taint,)}, "n3": 25}


def _amplify(annotation: str) -> dict[str, Any]:
    allocatable = {**_WHOLE, "cpu": "32"}
    annotations = {RAW_ALLOCATABLE: annotation}
    return {"n1": {"cpu": 155, "allocatable": allocatable, "annotations": annotations}, "n2": 10}


_A = {"a": ("n1", 20.0)}
_BY_DEVIATION = make_policy(
    "rebalance: {useDeviationThresholds: true, lowThresholds: {cpu: 10}, highThresholds: {cpu: 10}}"
)
_POOL = make_policy(
    "rebalance: {nodePools: [{name: web, nodeSelector: {matchLabels: {pool: web}}, "
    "lowThresholds: {cpu: 30}, highThresholds: {cpu: 80}}]}"
)


@cases(
    "",
    ("n1 85 %, n2 20 %, n3 25 %, n4 without metric; low 30, high 70",
     ("5a", make_policy(), {"n1": 85, "n2": 20, "n3": 25, "n4": None}, _A), "a n1->n2; hot n1; skipped 1"),
    ("the same by deviation 10: above the mean of three nodes, 53.3 (with n4 as 0: 42.5)",
     ("5b", _BY_DEVIATION, {"n1": 50, "n2": 50, "n3": 60, "n4": None}, {"a": ("n3", 20.0)}),
     "none; hot none; skipped 1"),
    ("n1 80 %, n2 cordoned 5 %, n3 60 %", ("19a", make_policy(), {"n1": 80, "n2": _CORDONED, "n3": 60}, _A),
     "none; hot n1; skipped 0"),
    ("n1 20 %, n2 cordoned 85 %: it may be a source",
     ("19b", make_policy(), {"n1": 20, "n2": _CORDONED | {"cpu": 85}}, {"b": ("n2", 20.0)}),
     "b n2->n1; hot n2; skipped 0"),
    ('16 cores amplified to 32 (raw-allocatable {"cpu":"16"}), 15.5 used: 97 % of 16',
     ("21a", make_policy(), _amplify('{"cpu":"16"}'), _A), "a n1->n2; hot n1; skipped 0"),
    ("the annotation cannot be read: 48 % of allocatable", ("21b", make_policy(), _amplify("{cpu"), _A),
     "none; hot none; skipped 0"),
    ("anomalyCondition 1 at the top level; pool web has none and inherits it",
     ("26", _POOL, {"n1": {"cpu": 85, **_WEB}, "n2": {"cpu": 20, **_WEB}}, _A),
     "a n1->n2; hot n1; skipped 0"),
    ("node-a without cpu and memory, one pod that uses 1 core: neither hot nor a target",
     ("27", make_policy(), {"n1": 80, "n2": 20, "node-a": {"cpu": 10, "allocatable": {**_WHOLE, "cpu": "0",
      "memory": "0"}}}, {"b": ("n1", 20.0), "a": ("node-a", 10.0)}), "b n1->n2; hot n1; skipped 1"),
    ("n1 hot; n2 5 % with taint karpenter.sh/disrupted:NoSchedule; n3 25 %",
     ("38", make_policy(), _make_avoided_nodes("NoSchedule"), _A), "a n1->n3; hot n1; skipped 0"),
    ("the same with PreferNoSchedule", ("2.avoid1", make_policy(), _make_avoided_nodes("PreferNoSchedule"), _A),
     "a n1->n3; hot n1; skipped 0"),
    ("DeletionCandidateOfClusterAutoscaler:PreferNoSchedule", ("2.avoid2", make_policy(),
     _make_avoided_nodes("PreferNoSchedule", "DeletionCandidateOfClusterAutoscaler"), _A),
     "a n1->n3; hot n1; skipped 0"),
    ("example.com/slow:PreferNoSchedule", ("2.avoid3", make_policy(),
     _make_avoided_nodes("PreferNoSchedule", "example.com/slow"), _A), "a n1->n3; hot n1; skipped 0"),
)  # fmt: skip
def move(given: tuple[str, str, dict[str, Any], dict[str, tuple[str, float]]]) -> str:
    cluster = make_cluster(*given[1:])
    hot = " ".join(name for name in cluster.nodes if cluster.find_hot(name)) or "none"
    skipped = sum(pool.nodes["skipped"] for pool in cluster.newest_round.pools[:1])
    return f"{cluster.describe_moves()}; hot {hot}; skipped {skipped}"


@cases(
    "2.tolerated target",
    *(
        (f"the same, and the pod tolerates everything; n2 has {key}:{effect}", (key, effect), "a n1->n3")
        for key, effect in (
            ("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"),
            ("ToBeDeletedByClusterAutoscaler", "NoSchedule"),
            ("karpenter.sh/disrupted", "NoSchedule"),
        )
    ),
)  # fmt: skip
def never_move_to_leaving_nodes(taint: tuple[str, str]) -> str:
    key, effect = taint
    cluster = make_cluster(make_policy(), _make_avoided_nodes(effect, key), {})
    cluster.add_pod("a", "n1", 20, tolerations=(Toleration(operator="Exists"),))
    return cluster.pass_minutes().describe_moves()


_BY_RISK = "plugins: {balance: [OverutilizationRisk]}\nriskMoves: {minSavedMinutes: 0.1}"
_TAINTS = (Taint(key="example.com/x", effect="NoSchedule"),)


@cases(
    "2.closed target",
    ("a moves from n1 to n2, and its eviction was refused once; n2 stays as it is", ("", {}), "n2, n2"),
    ("n2 is cordoned before the next attempt", ("", {"unschedulable": True}), "n2, n3"),
    ("n2 gets a taint NoSchedule", ("", {"taints": _TAINTS}), "n2, n3"),
    ("n2 is cordoned, and the move is by risk: another plan is needed", (_BY_RISK, {"unschedulable": True}), "n2"),
)  # fmt: skip
def close_the_target(value: tuple[str, dict[str, Any]]) -> str:
    """Return the node on which room is reserved at each eviction command."""
    policy, change = value
    cluster = make_cluster(make_policy(policy), {"n1": 85, "n2": 20, "n3": 25}, {"a": ("n1", 20)})
    cluster.report_outcome(cluster.list_commands()[-1], "refused")
    cluster.apply(cluster.nodes["n2"].model_copy(update=change))
    cluster.pass_minutes()
    statuses = cluster.list_outputs(MigrationStatus)
    targets = {
        status.command_id: status.target_node for status in reversed(statuses) if status.command_id
    }
    return ", ".join(str(targets[command.command_id]) for command in cluster.list_commands())


@cases(
    "1.capacity",
    (
        "a device plugin restarts: allocatable 0, 2 GPUs used, high 70",
        {_GPU: "0"},
        "none: capacity of nvidia.com/gpu is 0 or unknown",
    ),
    ("the node does not say its GPUs", {}, "none: capacity of nvidia.com/gpu is 0 or unknown"),
    ("2 GPUs, both used: hot", {_GPU: "2"}, "a n1->n2: judged"),
)
def do_not_judge_by_unknown_capacity(gpus: dict[str, str]) -> str:
    policy = f"rebalance: {{lowThresholds: {{{_GPU}: 60}}, highThresholds: {{{_GPU}: 70}}}}"
    cluster = Cluster(make_policy(policy))
    cluster.add_node("n1", 20, allocatable=_WHOLE | gpus, used={_GPU: 2})
    cluster.add_node("n2", 10, allocatable=_WHOLE | {_GPU: "2"}, used={_GPU: 0})
    cluster.add_pod("a", "n1", 10)
    cluster.pods["a"][2][_GPU] = 1
    moves, text = cluster.pass_minutes().describe_moves(), " ".join(cluster.explain_node("n1"))
    skipped = "capacity of nvidia.com/gpu is 0 or unknown"
    return f"{moves}: {skipped if f'Its {skipped}' in text else 'judged'}"


@case("9", "control plane with 2899Mi of 1.18Gi allocatable memory (capacity 3.65Gi), static pods only",
      right="245 % of allocatable; mirror or static pod: True; 0 commands in 6 rounds")  # fmt: skip
def accept_usage_above_allocatable() -> str:
    thresholds = "rebalance: {lowThresholds: {memory: 30}, highThresholds: {memory: 60}}"
    cluster = Cluster(make_policy(thresholds), n2=10)
    allocatable = {"cpu": "1", "memory": "1183Mi", "pods": "110"}
    used = {"memory": 2899 * 2**20 / MEMORY}
    cluster.add_node("n1", 10, 0, allocatable=allocatable, used=used)
    cluster.add_pod("kube-apiserver", "n1", 1, memory=2, owners=controlled_by("n1", kind="Node"),
                annotations={"kubernetes.io/config.mirror": "x"}, priority=2_000_001_000)  # fmt: skip
    cluster.pass_minutes(6)
    hot = cluster.find_hot("n1")
    assert hot is not None
    reading = hot.readings["memory"]
    share = f"{100 * reading.used / reading.capacity:.0f} % of allocatable"
    mirror = "mirror" in (hot.pods[0].gate if hot.pods else hot.gate)
    commands = len(cluster.list_commands())
    return f"{share}; mirror or static pod: {mirror}; {commands} commands in 6 rounds"


@case("11", "100 cores, high 70; pods 30+25+20, system 5; after the first eviction the mean still says 76",
      right="a n1->n2, then none")  # fmt: skip
def count_existing_pods() -> str:
    cluster = Cluster(make_policy(), n1=80, n2=10)
    for uid, cpu in (("a", 30), ("b", 25), ("c", 20)):
        cluster.add_pod(uid, "n1", cpu, priority=0 if uid == "a" else 9)
    first = cluster.pass_minutes().describe_moves()
    _, pod, _ = cluster.pods.pop("a")
    cluster.apply(PodLifecycle(cluster=CLUSTER, event="deleted", pod=pod))
    # The mean of the node is outdated: it is 76 %, but the pods and the system part use only 50 %.
    cluster.seconds += 60
    cluster.used["n1"] = {"cpu": 50, "memory": 10}
    metric = cluster.build_metric("n1")
    cluster.apply(metric.model_copy(update={"usage": {**(metric.usage or {}), "cpu": 7600}}))
    return f"{first}, then {cluster.pass_minutes(measured=False).describe_moves()}"


@case("21c", "the amplified node of 21a in the filter: a pod of 100m", right="waiting: 1 node: cpu usage exceed threshold")  # fmt: skip
def divide_by_the_raw_allocatable_in_the_filter() -> str:
    node = _amplify('{"cpu":"16"}')["n1"]
    return make_cluster("whenOverloaded: wait", {"n1": node}, {}).place(make_pod("p"))


@case("25", "all nodes between 50 and 90 %, low 30: no target", right="no node is below all low thresholds: the lowest is n4 at cpu 50.0 %")  # fmt: skip
def name_the_lowest_node_without_a_target() -> str:
    nodes = {"n1": 90, "n2": 60, "n3": 55, "n4": 50}
    return make_cluster(make_policy(), nodes, _A).find_gate()


@case("28", "memory low 25, high 70; a pod of 80 % of a node, others at 20 %: it would overheat any node",
      right="0 commands in 10 rounds; big: no target")  # fmt: skip
def leave_a_pod_that_no_node_can_take() -> str:
    thresholds = "lowThresholds: {cpu: null, memory: 25}, highThresholds: {cpu: null, memory: 70}"
    cluster = Cluster(make_policy(f"rebalance: {{{thresholds}}}"))
    for name, memory in (("n1", 85), ("n2", 20), ("n3", 20)):
        cluster.add_node(name, 10, memory)
    cluster.add_pod("big", "n1", 5, memory=80)
    gate = cluster.pass_minutes(10).find_gate("big")
    commands = len(cluster.list_commands())
    return f"{commands} commands in 10 rounds; big: {'no target' if 'target' in gate else gate}"


@case("29", "the replacement of a moved pod comes back to its node", right="a n1->n2; then a-2: frozen")  # fmt: skip
def freeze_an_owner_whose_pod_returned() -> str:
    cluster = Cluster(make_policy(), n1=85, n2=20)
    cluster.add_pod("a", "n1", 20, owners=controlled_by("web"))
    first = cluster.pass_minutes().describe_moves()
    cluster.delete_pod("a")
    cluster.report_outcome(cluster.list_commands()[0], "done")
    cluster.seconds += 30
    cluster.used["n1"]["cpu"] = 85
    cluster.add_pod("a-2", "n1", 20, owners=controlled_by("web"))
    gate = cluster.pass_minutes(2).find_gate("a-2")
    return f"{first}; then a-2: {'frozen' if 'frozen' in gate else gate}"


@case("2.left hot", "a pod left n1, which stays at 90 %; the other node is cordoned: kube-scheduler would place "
      "its replacement on n1", right="n1")  # fmt: skip
def place_on_a_node_that_was_left_hot() -> str:
    cluster = make_cluster(make_policy(), {"n1": 85, "n2": 20}, _A)
    cluster.delete_pod("a")
    cluster.report_outcome(cluster.list_commands()[0], "done")
    cluster.used["n1"]["cpu"] = 90
    cluster.add_node("n2", 20, unschedulable=True)
    return cluster.place(make_pod("a-2", owners=controlled_by("a")))


@case("32", "one replica, maxMigratingPerWorkload and maxUnavailablePerWorkload 100 %", right="ExpectedReplicas, skipCheckExpectedReplicas")  # fmt: skip
def name_the_gate_of_single_replicas() -> str:
    limits = "maxMigratingPerWorkload: 100%, maxUnavailablePerWorkload: 100%, skipEvictionGates: []"
    policy = make_policy(f"migration: {{{limits}, skipCheckExpectedReplicas: false}}")
    cluster = Cluster(policy, n1=85, n2=20)
    cluster.add_pod("a", "n1", 20)
    cluster.apply(WorkloadState(cluster=CLUSTER, uid="a", owner_kind="ReplicaSet",
                                namespace="default", name="a", replicas=1))  # fmt: skip
    gate = cluster.pass_minutes().find_gate("a")
    named = [name for name in ("ExpectedReplicas", "skipCheckExpectedReplicas") if name in gate]
    return ", ".join(named) or gate


@case("32.kin", "maxMigratingPerNode 2: what has moved does not count, so there is no deadlock", right="2 commands, then 4")  # fmt: skip
def count_only_current_moves() -> str:
    cluster = Cluster(make_policy("migration: {maxMigratingPerNode: 2}"), n1=99, n2=5)
    for number in range(10):
        cluster.add_pod(f"p{number}", "n1", 9)
    first = cluster.pass_minutes().list_commands()
    for command in first:
        cluster.report_outcome(command, "done")
        _, pod, _ = cluster.pods[command.pod.uid]
        cluster.delete_pod(pod.uid)
        new = pod.model_copy(update={"uid": f"{pod.uid}-2", "name": f"{pod.uid}-2", "node": "n2"})
        cluster.decide(new.model_copy(update={"node": None, "phase": "Pending", "ready": False}))
        cluster.apply(PodLifecycle(cluster=CLUSTER, event="running", pod=new))
    return f"{len(first)} commands, then {len(cluster.pass_minutes(2).list_commands())}"
