"""Wrong and missing metrics, on both stages."""

from typing import Any

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import AggregatedUsage
from schemas.messages.nodes import NodeState
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import RebalanceRound
from schemas.messages.usage import NodeUsage, PodUsage
from tests.cases.case import case, cases
from tests.cases.cluster import CPU, LOAD_AWARE, MEMORY, Cluster, make_pod, make_policy, merge
from tests.streams.builders import CLUSTER, at, container, metric, tick

_GPU = "nvidia.com/gpu"


def feed(cluster: Cluster, seconds: int, *samples: NodeUsage) -> None:
    cluster.seconds = seconds
    cluster.apply(*samples)
    cluster.apply(tick(seconds))


def list_reasons(decision: PlacementDecision) -> list[str]:
    """Return why nodes were refused, most frequent reason first."""
    return [entry.reason.removeprefix("node(s) ") for entry in decision.reasons]


@case("1", "n1 92 % at 10:00, no sample after it; filter threshold 80; a pod each minute to 10:04",
      right="cpu usage exceed threshold x2, nodeMetric expired; target of moves: none")  # fmt: skip
def keep_the_last_value_with_its_own_time() -> str:
    policy = make_policy(
        "loadAware: {usageThresholds: {cpu: 80}}\nplugins: {score: [LoadAwareScheduling]}\nwhenOverloaded: wait"
    )
    cluster = Cluster(policy, n1=92, n2=85)
    cluster.add_pod("a", "n2", 20)
    cluster.nodes["n2"] = cluster.nodes["n2"].model_copy(update={"unschedulable": True})
    cluster.apply(cluster.nodes["n2"])
    cluster.measure()
    reasons, moves = [], set()
    for minute in range(4):
        cluster.pass_minutes(measured=False)
        refusals = list_reasons(cluster.decide(make_pod(f"p{minute}", cpu="1")))
        reasons.append(refusals[0] if "unsched" not in refusals[0] else refusals[1])
        moves.add(cluster.describe_moves())
    text = f"{reasons[0]} x{reasons.count(reasons[0])}, {reasons[-1]}"
    return f"{text}; target of moves: {' '.join(moves)}"


@case("7", "n1 reports memory and no cpu, n2 the same and cpu 40 %, score by usage: n1 is not the emptiest",
      right="n2")  # fmt: skip
def treat_a_missing_resource_as_unknown() -> str:
    cluster = Cluster(LOAD_AWARE)
    cluster.add_node("n1", None)
    cluster.used["n1"] = {"memory": 12}
    cluster.add_node("n2", 40, 12)
    cluster.pass_minutes()
    return cluster.place(make_pod("p"))


@case("1.gpu", "n1 uses both GPUs and its exporter is down, n2 uses 1 of 2; score by gpu",
      right="n2")  # fmt: skip
def do_not_prefer_a_node_whose_exporter_is_down() -> str:
    cluster = Cluster(merge(
        LOAD_AWARE, f"loadAware: {{resourceWeights: {{{_GPU}: 1}}, usageThresholds: {{{_GPU}: 95}}, "
        f"estimatedScalingFactors: {{{_GPU}: 100}}}}"))  # fmt: skip
    whole = {"cpu": "10", "memory": "40Gi", "pods": "110", _GPU: "2"}
    cluster.add_node("n1", 10, allocatable=whole)
    cluster.add_node("n2", 10, allocatable=whole, used={_GPU: 1})
    cluster.pass_minutes()
    return cluster.place(make_pod("p"))


@cases(
    "12",
    ("p95 over 30m asked (65), NodeMetric has 5m p95 = 88 %", "p95 over 5m",
     "waiting: cpu aggregated usage exceed threshold; judged by p95 over 5m"),
    ("the same under compat: koordinator: estimates, as upstream", "koordinator", "n1"),
)  # fmt: skip
def fall_back_to_the_next_shorter_window(mode: str) -> str:
    policy = merge(LOAD_AWARE, "loadAware: {aggregated: {usageThresholds: {cpu: 65}, "
                          "usageAggregationType: p95, usageAggregatedDuration: 30m}}")  # fmt: skip
    cluster = Cluster(policy + ("compat: koordinator\n" if mode == "koordinator" else ""), n1=88)
    cluster.seconds += 60
    five = AggregatedUsage(duration_ms=300_000, usage={"p95": {"cpu": 8800, "memory": MEMORY}})
    cluster.apply(cluster.build_metric("n1").model_copy(update={"aggregated": (five,)}))
    cluster.pass_minutes(measured=False)
    decision = cluster.decide(make_pod("p"))
    if decision.node:
        return decision.node
    judged = "p95 over 5m" if "5m" in decision.message else decision.message
    return f"{decision.outcome}: {list_reasons(decision)[0]}; judged by {judged}"


@cases(
    "13",
    ("vk-1 no metric, n2 95 % one hour old, n3 40 %: expired nodes refused", False,
     "n3; without n3: vk-1; without vk-1: nodeMetric expired; moves none"),
    ("the same with enableScheduleWhenNodeMetricsExpired", True,
     "n3; without n3: n2; without vk-1: n2; moves none"),
)  # fmt: skip
def avoid_nodes_without_fresh_metric(enabled: bool) -> str:
    policy = make_policy(f"loadAware: {{nodeMetricExpirationSeconds: 300, "
                    f"enableScheduleWhenNodeMetricsExpired: {str(enabled).lower()}}}\n"
                    "plugins: {score: [LoadAwareScheduling]}\nwhenOverloaded: wait")  # fmt: skip
    cluster = Cluster(policy, n2=95)
    cluster.add_pod("a", "n2", 30)
    cluster.measure("n2")
    cluster.seconds += 3600
    cluster.apply(tick(cluster.seconds))
    cluster.add_node("n3", 40)
    cluster.add_node("vk-1")
    cluster.measure("n3")
    cluster.pass_minutes(measured=False)
    outcomes = [cluster.place(make_pod("p"))]
    for name in ("n3", "vk-1"):
        cluster.apply(NodeState(cluster=CLUSTER, node=name, event="removed"))
        decision = cluster.decide(make_pod(f"without-{name}"))
        outcomes.append(f"without {name}: {decision.node or list_reasons(decision)[0]}")
    return f"{'; '.join(outcomes)}; moves {cluster.describe_moves()}"


@case("10", "n1, n2: 21 % by MemAvailable, n3 25 % and n4 64 % by working set; high memory 60",
      right="hot n4; notAvailable on 2, workingSet on 2; n4: it uses memory 25.6Gi of 40Gi (workingSet)")  # fmt: skip
def name_definitions_of_memory() -> str:
    thresholds = "rebalance: {lowThresholds: {memory: 30}, highThresholds: {memory: 60}}"
    cluster = Cluster(make_policy(thresholds))
    for name, memory in (("n1", 21), ("n2", 21), ("n3", 25), ("n4", 64)):
        cluster.add_node(name, 10, memory)
    cluster.seconds += 60
    for name in cluster.nodes:
        definition = "notAvailable" if name in ("n1", "n2") else "workingSet"
        cluster.metrics[name] = cluster.build_metric(name).model_copy(
            update={"memory_is": definition}
        )
        cluster.apply(cluster.metrics[name])
    cluster.pass_minutes(measured=False)
    hot = " ".join(name for name in cluster.nodes if cluster.find_hot(name))
    text = " ".join(cluster.explain_node("n4"))
    mixed = text.partition("not comparable: ")[2].partition(".")[0]
    reading = text.partition("it uses ")[2].partition(" (")[0]
    n3_text = " ".join(cluster.explain_node("n3"))
    counts = "workingSet" if "memory counts workingSet" in n3_text else "?"
    return f"hot {hot}; {mixed}; n4: it uses {reading} ({counts})"


@case("10.risk", "by risk: n1, n2 21 % by MemAvailable, n3 64 % by working set; the default resources",
      right="In pool OverutilizationRisk memory of its nodes is not comparable: notAvailable on 2, workingSet on 1.")  # fmt: skip
def name_definitions_of_memory_by_risk() -> str:
    cluster = Cluster(make_policy("plugins: {balance: [OverutilizationRisk]}"))
    cluster.seconds += 60
    for name, memory in (("n1", 21), ("n2", 21), ("n3", 64)):
        cluster.add_node(name, 10, memory)
        definition = "workingSet" if name == "n3" else "notAvailable"
        cluster.apply(cluster.build_metric(name).model_copy(update={"memory_is": definition}))
    sentences = cluster.pass_minutes(measured=False).explain_node("n3")
    return next((sentence for sentence in sentences if "not comparable" in sentence), "not named")


@cases(
    "13.default",
    ("default policy: n1 without any metric, n2 at 40 %", None, "n2"),
    ("default policy: n1's metric lacks cpu, n2 at 40 %", {"memory": 12}, "n2"),
    ("default policy: n1 at 20 %, n2 at 40 %", {"cpu": 20, "memory": 10}, "n1"),
)
def prefer_measured_nodes(used: dict[str, float] | None) -> str:
    cluster = Cluster("", n1=None, n2=40)
    if used is not None:
        cluster.used["n1"] = used
    return cluster.pass_minutes(3).place(make_pod("p", cpu="1"))


@cases(
    "1.target",
    ("by thresholds: n1 hot, n2 25 %, n3's metric lacks memory, which has thresholds", (
        "rebalance: {lowThresholds: {cpu: 30, memory: 50}, highThresholds: {cpu: 70, memory: 80}}",
        {"cpu": 5}), "a n1->n2"),
    ("by risk: n3's metric lacks cpu", (
        "plugins: {balance: [OverutilizationRisk]}\nriskMoves: {minPodAgeMinutes: 0}", {"memory": 5}),
     "a n1->n2"),
    ("by risk: n3 has no metric", (
        "plugins: {balance: [OverutilizationRisk]}\nriskMoves: {minPodAgeMinutes: 0}", None), "a n1->n2"),
)  # fmt: skip
def never_move_to_unmeasured_nodes(given: tuple[str, dict[str, float] | None]) -> str:
    policy, used = given
    cluster = Cluster(make_policy(policy), n1=85, n2=25, n3=None)
    if used is not None:
        cluster.used["n3"] = used
    for uid in ("a", "b", "c", "d"):
        cluster.add_pod(uid, "n1", 20, containers=(container({"cpu": "2"}),))
    return cluster.pass_minutes().describe_moves()


@cases(
    "4.stage",
    ("any producer: n1 uses 80 %, then reports cpu 0 and memory 0; the filter's threshold is 65", "",
     "waits for cpu usage exceed threshold; refused 5: usage, memory: measured 0, but every node uses memory"),
    ("the same under compat: koordinator", "compat: koordinator\n",
     "waits for cpu usage exceed threshold; refused 5: usage, memory: measured 0, but every node uses memory"),
)  # fmt: skip
def skip_zero_points_of_nodes(compat: str) -> str:
    cluster = Cluster(LOAD_AWARE + compat, n1=None)
    for seconds in range(0, 300, 30):
        used = {"cpu": 80 * CPU, "memory": MEMORY} if seconds < 150 else {"cpu": 0, "memory": 0}
        feed(cluster, seconds, cluster.build_sample("n1", seconds, 0, usage=used))
    decision, refusals = cluster.decide(make_pod("p")), cluster.list_refusals()
    return f"waits for {list_reasons(decision)[0]}; refused {len(refusals)}: {refusals[-1]}"


@case(
    "4.pods",
    "any producer: pod a uses 60 %, then its zero points follow; its mean usage",
    right="60 %",
)
def skip_zero_points_of_pods() -> str:
    cluster = Cluster(LOAD_AWARE, n1=None)
    cluster.add_pod("a", "n1")
    for seconds in range(0, 270, 30):
        used = {"cpu": 60 * CPU, "memory": MEMORY} if seconds < 150 else {"cpu": 0, "memory": 0}
        pods = (PodUsage(namespace="default", name="a", uid="a", usage=used),)
        feed(cluster, seconds, cluster.build_sample("n1", seconds, 80, pods=pods))
    means = cluster.pipeline.aggregate.state.nodes[f"{CLUSTER}/n1"].pods.compute_means(0, ["cpu"])
    return " ".join(f"{usage['cpu'] // CPU} %" for _, usage in means)


@cases(
    "1.missing",
    ("n1 hot by cpu; a's memory is unknown and it requests 20 of 40Gi; n2 uses 30 %, high 60", "20Gi",
     "none: it is expected to use cpu 2000"),
    ("the same, and a requests 1Gi", "1Gi", "a n1->n2"),
)  # fmt: skip
def expect_unknown_memory_on_the_target(memory: str) -> str:
    cluster = Cluster(make_policy("rebalance: {lowThresholds: {cpu: 30, memory: 50}, "
                             "highThresholds: {cpu: 70, memory: 60}}"), n1=85)  # fmt: skip
    cluster.add_node("n2", 20, 30)
    cluster.add_pod("a", "n1", 20, containers=(container({"cpu": "2", "memory": memory}),))
    node, pod, _ = cluster.pods["a"]
    cluster.pods["a"] = node, pod, {"cpu": 20}
    moves = cluster.pass_minutes().describe_moves()
    text = " ".join(cluster.explain_node("n1"))
    expected = text.partition("it is expected to use ")[2].partition(",")[0]
    return f"{moves}: it is expected to use {expected}" if expected else moves


# --- usage of prod pods, unknown pods ------------------------------------------------------------


def _make_sample(cluster: Cluster, seconds: int, priority_class: str = "") -> NodeUsage:
    web = PodUsage(namespace="default", name="web", uid="web",
                   usage={"cpu": 92 * CPU, "memory": 40 * MEMORY}, priority_class=priority_class)  # fmt: skip
    return cluster.build_sample("n1", seconds, 95, pods=(web,))


@cases(
    "1.prod",
    ("a prod pod (priority 9500) uses 92 % and no class is reported; prodUsageThresholds 50", "",
     "cpu usage exceed threshold"),
    ("the same, reported as koord-batch: the class that a metric reports counts", "koord-batch", "n1"),
    ("the same without a class under compat: koordinator: not prod", "koordinator", "n1"),
)  # fmt: skip
def measure_prod_usage(priority_class: str) -> str:
    policy = merge(LOAD_AWARE, "loadAware: {usageThresholds: {cpu: 0}, "
                          "prodUsageThresholds: {cpu: 50}}")  # fmt: skip
    koordinator = priority_class == "koordinator"
    cluster = Cluster(policy + ("compat: koordinator\n" if koordinator else ""), n1=None)
    cluster.add_pod("web", "n1", priority=9500)
    for seconds in (0, 60, 120):
        sample_class = "" if koordinator else priority_class
        feed(cluster, seconds, _make_sample(cluster, seconds, sample_class))
    decision = cluster.decide(make_pod("p", priority=9500))
    return decision.node or list_reasons(decision)[0]


@case("1.unknown pods", "n1 65 % by pods that no record names, n2 30 % by pods that are known; default policy",
      right="n2")  # fmt: skip
def count_usage_of_unknown_pods() -> str:
    cluster = Cluster("", n1=None, n2=None)
    cluster.add_pod("known", "n2", 25)
    for seconds in (0, 60, 120):
        pods = {
            name: (PodUsage(namespace="default", name=pod, uid=pod,
                            usage={"cpu": cpu * CPU, "memory": MEMORY}),)
            for name, pod, cpu in (("n1", "ghost", 60), ("n2", "known", 25))
        }  # fmt: skip
        feed(cluster, seconds, cluster.build_sample("n1", seconds, 65, pods=pods["n1"]),
             cluster.build_sample("n2", seconds, 30, pods=pods["n2"]))  # fmt: skip
    return cluster.place(make_pod("p"))


@cases(
    "1.total only",
    ("a source without pods: n1 40 % with 5 old pods that request 1 core each, n2 70 %; filter 75", "", "n1"),
    ("the same under compat: koordinator: their estimates are added", "compat: koordinator\n",
     "waiting: 2 nodes: cpu usage exceed threshold"),
)  # fmt: skip
def count_pods_of_a_total_once(compat: str) -> str:
    cluster = Cluster(f"whenOverloaded: wait\n{compat}", n1=40, n2=70)
    for number in range(5):
        cluster.add_pod(f"p{number}", "n1", containers=(container({"cpu": "1"}),))
    return cluster.pass_minutes(3).place(make_pod("p"))


@case("1.total only target", "a source without pods: n1 hot, n2 20 % with 6 old pods that request 1 core each",
      right="a n1->n2")  # fmt: skip
def move_to_a_node_whose_pods_are_in_its_total() -> str:
    cluster = Cluster(make_policy(), n1=85, n2=20)
    for number in range(6):
        cluster.add_pod(f"p{number}", "n2", containers=(container({"cpu": "1"}),))
    cluster.add_pod("a", "n1", 20)
    return cluster.pass_minutes().describe_moves()


@case("1.unknown target", "n1 85 %, n2 80 % by pods that no record names, n3 25 %; low 30: n2 is no target",
      right="a n1->n3; high 2, low 1")  # fmt: skip
def never_move_to_a_node_full_of_unknown_pods() -> str:
    cluster = Cluster(make_policy(), n1=85, n2=80, n3=25)
    cluster.add_pod("a", "n1", 20)
    cluster.pods["ghost"] = ("n2", make_pod("ghost"), {"cpu": 70, "memory": 1})
    cluster.pass_minutes()
    (pool,) = cluster.newest_round.pools
    return f"{cluster.describe_moves()}; high {pool.nodes['high']}, low {pool.nodes['low']}"


# --- impossible samples --------------------------------------------------------------------------


def _make_cluster_with_peak(peak: float, policy: str) -> Cluster:
    """Return a cluster whose idle node is measured every 10 s; one sample has `peak` percent."""
    cluster = Cluster(policy, n1=None, n2=None)
    for number in range(10):
        cluster.add_pod(f"p{number}", "n1")
    for seconds in range(0, 630, 10):
        share = peak if seconds == 300 else 6
        pods = tuple(
            PodUsage(namespace="default", name=f"p{number}", uid=f"p{number}",
                     usage={"cpu": round(share * CPU / 10), "memory": MEMORY})
            for number in range(10)
        )  # fmt: skip
        feed(cluster, seconds, cluster.build_sample("n1", seconds, share, pods=pods, capacity={"cpu": 10_000}),
             cluster.build_sample("n2", seconds, 5))  # fmt: skip
    return cluster


@case("1.peak", "an idle node of 10 cores reports 192 cores for one scrape (a factor of 30); high 70",
      right="0 rounds hot, 0 commands, 1 sample refused")  # fmt: skip
def refuse_an_impossible_sample() -> str:
    cluster = _make_cluster_with_peak(1920, make_policy("rebalance: {highThresholds: {cpu: 50}}"))
    rounds = cluster.list_outputs(RebalanceRound)
    hot = sum(any(pool.hot for pool in record.pools) for record in rounds)
    return f"{hot} rounds hot, {len(cluster.list_commands())} commands, {len(cluster.list_refusals())} sample refused"


@cases(
    "1.capacity metric",
    ("a NodeMetric of 3.2 million cores for a node of 10", 32_000_000, "refused; hot: False"),
    ("a NodeMetric of 10.4 cores for a node of 10 (within 5 %)", 104, "taken; hot: True"),
    ("a NodeMetric of 11 cores for a node of 10", 110, "refused; hot: False"),
)
def refuse_a_metric_beyond_capacity(cpu: float) -> str:
    cluster = Cluster(make_policy(), n2=10)
    cluster.add_node("n1", cpu, capacity={"cpu": "10", "memory": "40Gi"})
    cluster.add_pod("a", "n1", 20)
    cluster.pass_minutes()
    return f"{'refused' if cluster.list_refusals() else 'taken'}; hot: {cluster.find_hot('n1') is not None}"


@case("1.capacity pods", "a NodeMetric without cpu of a node of 10 cores has a pod of 3,200 cores",
      right="node n1: usage of a pod, cpu: measured 3200000, but the node has 10000")  # fmt: skip
def refuse_pods_beyond_capacity() -> str:
    cluster = Cluster(make_policy())
    cluster.add_node("n1", capacity={"cpu": "10", "memory": "40Gi"})
    cluster.used["n1"] = {"memory": 10}
    cluster.add_pod("a", "n1", 32_000)
    cluster.pass_minutes()
    return (*cluster.list_refusals(), "taken")[0].partition(";")[0]


@cases(
    "1.capacity later",
    ("a NodeMetric of 3.2 million cores comes before the node's state", False, "hot: False, placed on n2"),
    ("n1 of 10 cores at 90 % is made again with 2 cores", True, "hot: False, placed on n2"),
)  # fmt: skip
def judge_a_metric_when_the_capacity_is_known(known: bool) -> str:
    cluster = Cluster(make_policy(), n2=40)
    whole, small = ({"cpu": cpu, "memory": "40Gi", "pods": "110"} for cpu in ("10", "2"))
    if known:
        cluster.add_node("n1", 90, capacity=whole)
        cluster.pass_minutes()
    else:
        cluster.apply(tick(1), metric("n1", cpu=3_200_000_000))
    cluster.used.pop("n1", None)
    allocatable: dict[str, Any] = {"allocatable": small} if known else {}
    cluster.add_node("n1", capacity=small, **allocatable)
    cluster.add_pod("a", "n1")
    cluster.pass_minutes()
    return f"hot: {cluster.find_hot('n1') is not None}, placed on {cluster.place(make_pod('p'))}"


@cases(
    "1.metric",
    ("n1 at 90 %; a metric of 10 % from two minutes before arrives late", ({"cpu": 1_000}, -120),
     "waiting; taken"),
    ("a metric with memory 0", ({"cpu": 1_000, "memory": 0}, 0), "waiting; limit"),
    ("a metric of 10 %", ({"cpu": 1_000, "memory": MEMORY}, 0), "n1; taken"),
)  # fmt: skip
def refuse_metrics_that_cannot_be_true(given: tuple[dict[str, int], float]) -> str:
    cluster = Cluster("whenOverloaded: wait", n1=90).pass_minutes(3)
    usage, seconds = given
    cluster.apply(metric("n1", usage=usage, seconds=cluster.seconds + seconds))
    letters = cluster.list_outputs(DeadLetter)
    placed = cluster.place(make_pod("p")).partition(":")[0]
    return f"{placed}; {letters[0].category if letters else 'taken'}"


@cases(
    "1.minSamples",
    ("a node is known by two samples of 90 %; minSamples is 3 by default", 2, "not hot"),
    ("the same by three samples", 3, "hot"),
)
def judge_by_enough_samples(count: int) -> str:
    cluster = Cluster(make_policy(), n1=None, n2=None)
    cluster.add_pod("a", "n1")
    for number in range(count):
        seconds = 60 + 60 * number // max(1, count - 1)
        a = PodUsage(namespace="default", name="a", uid="a", usage={"cpu": 2000, "memory": MEMORY})
        feed(cluster, seconds, cluster.build_sample("n1", seconds, 90, pods=(a,)),
             cluster.build_sample("n2", seconds, 10))  # fmt: skip
    cluster.pass_minutes(measured=False)
    return "hot" if cluster.find_hot("n1") else "not hot"


@cases(
    "1.re-added",
    ("n1 90 % is removed and added again under its name without a metric; filter 75", True,
     "waiting before, n1 after; unknown"),
    ("its removal was not seen, and the full list has it with a later time of creation", False,
     "waiting before, n1 after; unknown"),
)  # fmt: skip
def start_unknown_after_a_removal(seen: bool) -> str:
    cluster = Cluster(LOAD_AWARE)
    cluster.add_node("n1", 90, created_at_ms=at(-3_600))
    cluster.pass_minutes()
    before = cluster.decide(make_pod("p"))
    if seen:
        cluster.apply(NodeState(cluster=CLUSTER, node="n1", event="removed"))
    cluster.add_node("n1", created_at_ms=at(61))
    feed(cluster, 62)
    after = cluster.list_outputs(PlacementDecision)[-1]
    known = "unknown" if after.stale_nodes else "known"
    return f"{before.outcome} before, {after.node} after; {known}"


@case("1.window 60", "the average window becomes 60 s instead of 300 s: 10 nodes with known lives of pods",
      right="10 of 10 nodes report lives of pods after it")  # fmt: skip
def keep_lives_when_the_window_gets_shorter() -> str:
    cluster = Cluster("", **{f"n{number}": None for number in range(10)})
    for number in range(10):
        cluster.add_pod(f"p{number}", f"n{number}")

    def run(start: int, end: int) -> None:
        for seconds in range(start, end, 30):
            feed(cluster, seconds, *(
                cluster.build_sample(f"n{number}", seconds, 30, pods=(
                    PodUsage(namespace="default", name=f"p{number}", uid=f"p{number}",
                             usage={"cpu": 1000, "memory": MEMORY}),))
                for number in range(10)
            ))  # fmt: skip

    run(0, 1100)
    document = "collect: {metricAggregateDurationSeconds: 60, metricReportIntervalSeconds: 60}"
    cluster.apply(PolicyRecord(cluster=CLUSTER, document=document, applied_at_ms=at(1080)))
    run(1110, 1300)
    nodes = cluster.pipeline.cluster.clusters[CLUSTER].inventory.nodes
    known = 0
    for number in range(10):
        statistics = nodes[f"n{number}"].statistics
        assert statistics is not None
        known += statistics.lifetimes[f"p{number}"].minutes > 10
    return f"{known} of 10 nodes report lives of pods after it"


@case("1.pod", "n1 is hot by cpu; the metric of its only pod lacks cpu: unknown is not none",
      right="the pod's usage of an exceeded resource is unknown")  # fmt: skip
def name_a_pod_whose_usage_is_unknown() -> str:
    cluster = Cluster(make_policy(), n1=85, n2=20)
    cluster.add_pod("a", "n1", 20)
    del cluster.pods["a"][2]["cpu"]
    return cluster.pass_minutes().find_gate("a")
