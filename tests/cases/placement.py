"""Demand of pods, choice of nodes, and order of waiting pods."""

from typing import Any

import orjson

from connectors.kubernetes.watch.pods import convert_pod as read_pod
from connectors.kubernetes.watch.volumes import Claims
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import AggregatedUsage
from schemas.messages.migrations import MigrationStatus
from schemas.messages.nodes import Taint
from schemas.messages.pods import Pod, Toleration
from schemas.topics.codec import decode_as
from streams.pods.kind import compute_demand
from tests.cases.case import case, cases
from tests.cases.cluster import LOAD_AWARE, Cluster, make_object, make_pod, make_policy, merge
from tests.streams.builders import container, controlled_by, policy_record, tick, user_request

# --- demand of a pod -----------------------------------------------------------------------------


@case("16", "32 cores at 60 %, threshold 65, 10 pods of 2 CPU in a second; compat: koordinator: 65.3 rounds to 65",
      right="1 placed, 9 refused: cpu usage exceed threshold")  # fmt: skip
def count_a_burst() -> str:
    more = "compat: koordinator\nloadAware: {usageThresholds: {cpu: 65}}"
    cluster = Cluster(merge(LOAD_AWARE, more))
    cluster.add_node("n1", 192, allocatable={"cpu": "32", "memory": "40Gi", "pods": "110"})
    cluster.pass_minutes()
    decisions = [cluster.decide(make_pod(f"p{number}", cpu="2")) for number in range(10)]
    placed = sum(decision.node is not None for decision in decisions)
    reasons = {
        reason.reason.removeprefix("node(s) ")
        for decision in decisions
        for reason in decision.reasons
    }
    return f"{placed} placed, {10 - placed} refused: {', '.join(reasons)}"


def _make_container(name: str, cpu: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}


@cases(
    "17",
    ("init [s1 sidecar 500m, i1 2000m], containers [1000m], overhead 100m", False, "2600m"),
    ("init [i1 2000m, s1 sidecar 500m]: i1 runs before s1", True, "2100m"),
)
def count_native_sidecars(reverse: bool) -> str:
    init = [_make_container("s1", "500m", restartPolicy="Always"), _make_container("i1", "2000m")]
    document = make_object("a", containers=[_make_container("app", "1000m")], overhead={"cpu": "100m"},
                       initContainers=init[::-1] if reverse else init)  # fmt: skip
    return f"{compute_demand(_convert_pod(document)).requests['cpu']}m"


def _convert_pod(document: dict[str, Any]) -> Pod:
    read = decode_as(Pod, orjson.dumps(read_pod(document, Claims())))
    assert isinstance(read, Pod), read
    return read


@cases(
    "18",
    ("spec 4 CPU, allocated 2, in use 2; the resize is Deferred", ("4", "Deferred"), "4000m"),
    ("the same, Infeasible", ("4", "Infeasible"), "2000m"),
    ("spec 1, allocated 2, in use 2: a smaller size is under way", ("1", ""), "2000m"),
)
def count_a_resize(given: tuple[str, str]) -> str:
    spec, reason = given
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "2"},
                               "resources": {"requests": {"cpu": "2"}}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
    }  # fmt: skip
    document = make_object("a", "n1", containers=[_make_container("app", spec)], status=status)
    return f"{compute_demand(_convert_pod(document)).requests['cpu']}m"


# --- large pods, full clusters -------------------------------------------------------------------


@cases(
    "2.large",
    ("default policy, idle nodes of 8 cores: a pod of 7.1 cores", ({"cpu": "7100m"}, {}), "n1"),
    ("a pod of 100m with a limit of 8 cores", ({"cpu": "100m"}, {"cpu": "8"}), "n1"),
    ("a pod of 9 cores: no node has room", ({"cpu": "9"}, {}), "waiting: 2 nodes: Insufficient cpu"),
)  # fmt: skip
def place_large_pods(asked: tuple[dict[str, str], dict[str, str]]) -> str:
    cluster = Cluster("")
    for name in ("n1", "n2"):
        cluster.add_node(name, 2, allocatable={"cpu": "8", "memory": "40Gi", "pods": "110"})
    cluster.pass_minutes()
    requests, limits = asked
    return cluster.place(make_pod("p", containers=(container(requests, limits),)))


@cases(
    "43.",
    ("n1 78 % and n2 85 % used, requests leave room; default policy: kube-scheduler would place", "", "n1"),
    ("the same under compat: koordinator: waits, and says why", "compat: koordinator\n",
     "waiting: 2 nodes: cpu usage exceed threshold"),
)  # fmt: skip
def place_on_the_least_used_node(policy: str) -> str:
    cluster = Cluster(policy, n1=78, n2=85)
    cluster.pass_minutes()
    return cluster.place(make_pod("p"))


@case("44", "a healthy node with a fresh metric: the decision warns of nothing",
      right="n1, 0 stale, judged by estimates: no")  # fmt: skip
def place_without_warnings_on_a_healthy_node() -> str:
    policy = merge(LOAD_AWARE, "loadAware: {aggregated: {usageThresholds: {cpu: 65}, "
                          "usageAggregationType: p95, usageAggregatedDuration: 10m}}")  # fmt: skip
    cluster = Cluster(policy, n1=20)
    cluster.seconds += 60
    p95 = AggregatedUsage(duration_ms=600_000, usage={"p95": {"cpu": 2000, "memory": 4 * 2**30}})
    cluster.apply(cluster.build_metric("n1").model_copy(update={"aggregated": (p95,)}))
    cluster.pass_minutes(measured=False)
    decision = cluster.decide(make_pod("p"))
    judged = "yes" if decision.judged_by_estimates else "no"
    return f"{decision.node}, {decision.stale_nodes} stale, judged by estimates: {judged}"


# --- waiting -------------------------------------------------------------------------------------


def _make_full_cluster(policy: str = "") -> Cluster:
    """Return a cluster of one node without room: a pod requests the whole node."""
    cluster = Cluster(policy, n1=5)
    cluster.add_pod("tenant", "n1", 5, containers=(container({"cpu": "9500m"}),))
    cluster.pass_minutes()
    return cluster


def _pass_seconds(cluster: Cluster, count: int) -> None:
    """Advance the clock by seconds. Every fifth second the usage changes, which frees no room."""
    for _ in range(count):
        cluster.seconds += 1
        if cluster.seconds % 5 == 0:
            cluster.used["n1"]["cpu"] = 5 + cluster.seconds % 2
            cluster.measure()
        cluster.apply(tick(cluster.seconds))


def _find_first_placed(cluster: Cluster, known: int) -> str:
    """Return which pod gets a node within a minute, and whether within a second.

    `known` is the number of decisions before room was freed.
    """
    for second in range(1, 61):
        _pass_seconds(cluster, 1)
        decisions: list[PlacementDecision] = cluster.list_outputs(PlacementDecision)[known:]
        if placed := [decision.pod.name for decision in decisions if decision.node]:
            return f"{placed[0]} {'at once' if second == 1 else f'after {second} s'}"
    return "none in 60 s"


@case("2.priority", "priority 1,000,000 waits 150 s; its room is freed; a second later a pod of priority 0 asks",
      right="urgent at once")  # fmt: skip
def give_freed_room_to_the_highest_priority() -> str:
    cluster = _make_full_cluster()
    cluster.decide(make_pod("urgent", cpu="9", priority=1_000_000))
    _pass_seconds(cluster, 150)
    known = len(cluster.list_outputs(PlacementDecision))
    cluster.delete_pod("tenant")
    _pass_seconds(cluster, 1)
    cluster.decide(make_pod("small", cpu="8"))
    return _find_first_placed(cluster, known)


@case("2.oldest", "two pods of one priority and other sizes wait 100 and 50 s; room for one of them is freed",
      right="old at once")  # fmt: skip
def give_freed_room_to_the_oldest() -> str:
    cluster = _make_full_cluster()
    cluster.decide(make_pod("old", cpu="8"))
    _pass_seconds(cluster, 50)
    cluster.decide(make_pod("young", cpu="7"))
    _pass_seconds(cluster, 50)
    known = len(cluster.list_outputs(PlacementDecision))
    cluster.delete_pod("tenant")
    return _find_first_placed(cluster, known)


def _make_nominated_pod(cpu: str) -> dict[str, Any]:
    return make_object("theirs", cpu=cpu, schedulerName="default-scheduler", priority=1_000,
                      status={"nominatedNodeName": "n1"})  # fmt: skip


@cases(
    "2.event",
    ("a taint goes from the only node", "taint", "p at once"),
    ("the only node is uncordoned", "cordon", "p at once"),
    ("a node is added", "node", "p at once"),
    ("a pod ends", "pod", "p at once"),
    ("the label that the pod selects is set", "label", "p at once"),
    ("a running pod is resized in place from 9.5 cores to 1", "resize", "p at once"),
    ("a pod that another scheduler has nominated requests 1 core instead of 9.5", "nominated", "p at once"),
)  # fmt: skip
def end_the_back_off_by_an_event(event: str) -> str:
    cluster = _make_full_cluster() if event in ("pod", "node", "resize") else Cluster("", n1=5)
    changes: dict[str, dict[str, Any]] = {
        "taint": {"taints": (Taint(key="k", effect="NoSchedule"),)},
        "cordon": {"unschedulable": True},
        "label": {"labels": {"disk": "hdd"}},
    }
    before = changes.get(event)
    if before:
        cluster.add_node("n1", 5, **before)
    if event == "nominated":
        cluster.pass_minutes().report("pods", _make_nominated_pod("9500m"))
    selector = {"disk": "ssd"} if event == "label" else {}
    assert cluster.decide(make_pod("p", cpu="8", node_selector=selector)).node is None
    _pass_seconds(cluster, 100)
    known = len(cluster.list_outputs(PlacementDecision))
    if event == "pod":
        cluster.delete_pod("tenant")
    elif event == "resize":
        cluster.add_pod("tenant", "n1", 5, containers=(container({"cpu": "1"}),))
    elif event == "nominated":
        cluster.report("pods", _make_nominated_pod("1"))
    else:
        labels: dict[str, Any] = {"labels": {"disk": "ssd"}} if event == "label" else {}
        cluster.add_node("n2" if event == "node" else "n1", 5, **labels)
    return _find_first_placed(cluster, known)


# --- room of others ------------------------------------------------------------------------------


@case("2.nominated", "a pod of default-scheduler, 9 cores, is nominated to n1 of 10 cores; 9 pods of 1 core ask",
      right="placed 1 of 9")  # fmt: skip
def keep_the_room_of_a_nominated_pod() -> str:
    cluster = Cluster("", n1=5)
    cluster.pass_minutes()
    cluster.report("pods", _make_nominated_pod("9"))
    placed = [cluster.schedule(make_object(f"p{number}", cpu="1")) for number in range(9)]
    return f"placed {placed.count('n1')} of 9"


_ANTI_AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}  # fmt: skip


@cases(
    "2.anti-affinity",
    ("a pod on n1 requires no pod app=web beside it; a pod app=web asks", {"app": "web"}, "n2"),
    ("a pod app=db asks", {"app": "db"}, "n1"),
)  # fmt: skip
def keep_away_from_pods_that_require_it(labels: dict[str, str]) -> str:
    cluster = Cluster("", n1=5, n2=30)
    for name in ("n1", "n2"):
        cluster.add_node(name, 5 if name == "n1" else 30, labels={"kubernetes.io/hostname": name})
    cluster.pass_minutes()
    cluster.report("pods", make_object("alone", "n1", affinity=_ANTI_AFFINITY))
    return cluster.schedule(make_object("p", labels=labels))


@cases(
    "2.anti-affinity target",
    ("by thresholds: n1 hot by a pod app=web; on n2 (10 %) a pod requires none beside it; n3 20 %",
     "", "room is reserved on n3"),
    ("the same by risk",
     "plugins: {balance: [OverutilizationRisk]}\nriskMoves: {minPodAgeMinutes: 0, maxMovesPerRound: 1}",
     "room is reserved on n3"),
)  # fmt: skip
def never_move_beside_pods_that_forbid_it(policy: str) -> str:
    cluster = Cluster(make_policy(policy), n1=85)
    for name, cpu in (("n2", 10), ("n3", 20)):
        cluster.add_node(name, cpu, labels={"kubernetes.io/hostname": name})
    cluster.report("pods", make_object("alone", "n2", affinity=_ANTI_AFFINITY), cpu=1)
    for name in ("a", "b", "c", "d"):
        cluster.report("pods", make_object(name, "n1", cpu="2", labels={"app": "web"}), cpu=20)
    cluster.pass_minutes()
    reports = cluster.list_outputs(MigrationStatus)
    return str([status.message for status in reports if status.phase != "Pending"][1])


@cases(
    "2.koordinator",
    *(
        (f"a pod with {kind} {name}: refused by name", (kind, name, value), "refused by name")
        for kind, name, value in (
            ("label", "pod-group.scheduling.sigs.k8s.io", "gang-a"),
            ("annotation", "gang.scheduling.koordinator.sh/name", "gang-a"),
            ("label", "quota.scheduling.koordinator.sh/name", "team-a"),
            ("annotation", "scheduling.koordinator.sh/reservation-affinity", "{}"),
            ("annotation", "scheduling.koordinator.sh/resource-spec",
             '{"preferredCPUBindPolicy": "FullPCPUs"}'),
        )
    ),
)  # fmt: skip
def refuse_unsupported_features(given: tuple[str, str, str]) -> str:
    kind, name, value = given
    cluster = Cluster("", n1=5)
    cluster.pass_minutes()
    named: dict[str, Any] = {f"{kind}s": {name: value}}
    outcome = cluster.schedule(make_object("p", **named))
    return "refused by name" if outcome.startswith("refused") else outcome


@cases(
    "2.avoided",
    *(
        (f"n1 idle with taint {key}:PreferNoSchedule, n2 at 60 %", key, "n2")
        for key in ("DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted", "example.com/x")
    ),
)  # fmt: skip
def place_on_avoided_nodes_last(key: str) -> str:
    return _place_with_taint(Taint(key=key, effect="PreferNoSchedule"))


def _place_with_taint(taint: Taint, **fields: Any) -> str:
    """Place a pod if n1 is idle with the taint, and n2 is at 60 %."""
    cluster = Cluster("", n2=60)
    cluster.add_node("n1", 5, taints=(taint,))
    cluster.pass_minutes()
    return cluster.place(make_pod("p", **fields))


@cases(
    "2.tolerated",
    ("the pod tolerates everything; n1 has DeletionCandidateOfClusterAutoscaler:PreferNoSchedule",
     ("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"), "n2"),
    ("n1 has ToBeDeletedByClusterAutoscaler:NoSchedule",
     ("ToBeDeletedByClusterAutoscaler", "NoSchedule"), "n2"),
    ("n1 has karpenter.sh/disrupted:NoSchedule", ("karpenter.sh/disrupted", "NoSchedule"), "n2"),
    ("n1 has example.com/x:PreferNoSchedule", ("example.com/x", "PreferNoSchedule"), "n1"),
)  # fmt: skip
def place_on_leaving_nodes_last(taint: tuple[str, str]) -> str:
    key, effect = taint
    return _place_with_taint(
        Taint.model_validate({"key": key, "effect": effect}),
        tolerations=(Toleration(operator="Exists"),),
    )


@cases(
    "2.drained",
    ("n1 is drained, n2 at 60 %; a pod of a ReplicaSet tolerates everything", "ReplicaSet", "n2"),
    ("a pod of a DaemonSet, which no drain evicts", "DaemonSet", "n1"),
)
def place_on_a_drained_node(kind: str) -> str:
    cluster = Cluster("", n1=5, n2=60)
    cluster.pass_minutes()
    cluster.apply(policy_record("mode: enforce"), user_request("drain", node="n1"))
    return cluster.place(
        make_pod(
            "p",
            owners=controlled_by("web", kind),
            tolerations=(Toleration(operator="Exists"),),
        )
    )


@cases(
    "2.rejection",
    *(
        (f"the rejection ({reason}) is seen before anything confirms the binding", reason,
         f"rejected by the kubelet: {reason}")
        for reason in ("OutOfmemory", "OutOfnvidia.com/gpu", "NodeShutdown")
    ),
)  # fmt: skip
def report_a_rejection_before_the_binding_is_confirmed(reason: str) -> str:
    cluster = Cluster("", n1=5)
    cluster.pass_minutes()
    cluster.schedule(make_object("p", cpu="7"))
    failed = {"phase": "Failed", "reason": reason}
    cluster.report("pods", make_object("p", "n1", cpu="7", status=failed))
    newest: PlacementDecision = cluster.list_outputs(PlacementDecision)[-1]
    return f"rejected by the kubelet: {newest.rejected}" if newest.rejected else newest.message


@case("2.OutOfcpu", "our pod is rejected by the kubelet (OutOfcpu) after its binding: its room is free again",
      right="first on n1, second on n1")  # fmt: skip
def release_the_room_of_a_rejected_pod() -> str:
    cluster = Cluster("", n1=5)
    cluster.pass_minutes()
    first = cluster.schedule(make_object("p", cpu="7"))
    cluster.report(
        "pods",
        make_object("p", "n1", cpu="7", status={"phase": "Failed", "reason": "OutOfcpu"}),
    )
    return f"first on {first}, second on {cluster.schedule(make_object('q', cpu='7'))}"
