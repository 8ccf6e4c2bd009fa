"""What protects a pod from an eviction, and what an answer to an eviction comes to."""

import asyncio
from typing import Any

from connectors.kubernetes.sinks.eviction import IN_PROGRESS_ANNOTATION, Evictor
from connectors.kubernetes.sinks.throttle import Throttle
from schemas.messages.evictions import EvictionCommand
from schemas.messages.migrations import MigrationStatus
from tests.cases.case import case, cases
from tests.cases.cluster import Cluster, moving, pod_object
from tests.connectors.kubernetes.sinks.builders import CREATED, EVICTION, NODE, POD, POD_PATH, pod
from tests.connectors.kubernetes.sinks.played import Played, failure
from tests.connectors.ports.sink_contract import eviction
from tests.streams.cluster.builders import tick

_NOT_CARRIED = "this annotation does not protect a pod"


def hot_with(found: dict[str, Any], policy: str = "", *more: tuple[str, dict[str, Any]]) -> Cluster:
    """n1 is at 85 % by the pod, n2 at 20 %; more objects are seen before."""
    cluster = Cluster(moving(policy), n1=85, n2=20)
    for kind, other in more:
        cluster.see(kind, other)
    cluster.see("pods", found, cpu=20)
    cluster.minutes()
    return cluster


def kept(cluster: Cluster, *words: str, uid: str = "a") -> str:
    """`leaves`, or `stays` with the first of these words that its gate has."""
    gate = cluster.gate(uid)
    if gate == "leaves":
        return "leaves"
    return f"stays: {next((word for word in words if word in gate), gate)}"


@cases(
    "38.",
    *(
        (f"n1 hot; its pod has the annotation {name}: {value}", (name, value), right, *reason)
        for name, value, right, *reason in (
            ("karpenter.sh/do-not-disrupt", "true", "stays: karpenter.sh/do-not-disrupt", _NOT_CARRIED),
            ("karpenter.sh/do-not-disrupt", "false", "leaves"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false",
             "stays: cluster-autoscaler.kubernetes.io/safe-to-evict", _NOT_CARRIED),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true", "leaves"),
            ("descheduler.alpha.kubernetes.io/evict", "false",
             "stays: descheduler.alpha.kubernetes.io/evict", _NOT_CARRIED),
            ("descheduler.alpha.kubernetes.io/evict", "true", "leaves"),
            ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "",
             "stays: descheduler.alpha.kubernetes.io/prefer-no-eviction", _NOT_CARRIED),
            ("example.com/other", "true", "leaves"),
        )
    ),
)  # fmt: skip
def heed_annotations_of_others(annotation: tuple[str, str]) -> str:
    name, value = annotation
    return kept(hot_with(pod_object("a", "n1", annotations={name: value})), name)


@cases(
    "36",
    ("a Running bare pod on a hot node", {}, "stays: no owner"),
    ("the same with the annotation evict=true",
     {"annotations": {"descheduler.alpha.kubernetes.io/evict": "true"}}, "leaves"),
    ("the same with evict=false: no protection is lifted",
     {"annotations": {"descheduler.alpha.kubernetes.io/evict": "false"}},
     "stays: no owner", "any value of the annotation lifts protections"),
    ("a Failed bare pod: it runs no more", {"status": {"phase": "Failed"}}, "not looked at"),
)  # fmt: skip
def leave_bare_pods(fields: dict[str, Any]) -> str:
    cluster = hot_with(pod_object("a", "n1", owner=("", ""), **fields))
    gate = cluster.gate("a")
    return gate if gate == "not looked at" else kept(cluster, "no owner", "descheduler.alpha")


def _job(**spec: Any) -> tuple[str, dict[str, Any]]:
    return "jobs", {
        "metadata": {"namespace": "default", "name": "import", "uid": "import"},
        "spec": {"parallelism": 4, "completions": 8, "backoffLimit": 6, **spec},
        "status": {"active": 4, **spec.pop("status", {})},
    }


_IGNORE = {"podFailurePolicy": {"rules": [{
    "action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}}  # fmt: skip
_JOB = "the pod of a Job whose failure would count is evicted"


@cases(
    "3.job",
    ("a pod of a Job with backoffLimit 0, restartPolicy Never: the Job would fail",
     {"backoffLimit": 0}, "stays: Job", _JOB),
    ("backoffLimit 2 and 2 pods have failed", {"backoffLimit": 2, "status": {"active": 4, "failed": 2}},
     "stays: Job", _JOB),
    ("restartPolicy Never, backoffLimit 6: a failure counts", {}, "stays: Job", _JOB),
    ("the same with a pod failure policy that ignores disruptions", _IGNORE, "leaves"),
    ("backoffLimit 0 with that pod failure policy", {"backoffLimit": 0, **_IGNORE}, "leaves"),
)  # fmt: skip
def never_fail_a_job(spec: dict[str, Any]) -> str:
    found = pod_object("a", "n1", owner=("Job", "import"), restartPolicy="Never")
    status = spec.pop("status", {"active": 4})
    kind, job = _job(**spec)
    job["status"] = status
    return kept(hot_with(found, "", (kind, job)), "Job")


@cases(
    "37",
    ("replicas fall from 20 to 8 a minute before; a node at 85 %", 60, "stays: replicas",
     "a workload whose replicas have just fallen is a candidate"),
    ("replicas fell an hour before", 3600, "leaves"),
)  # fmt: skip
def leave_a_workload_that_scales_down(seconds: int) -> str:
    def replicas(count: int) -> dict[str, Any]:
        meta = {"namespace": "default", "name": "web", "uid": "web"}
        return {"metadata": meta, "spec": {"replicas": count}, "status": {"replicas": 20}}

    cluster = Cluster(moving(), n1=85, n2=20)
    cluster.see("replicasets", replicas(20))
    cluster.see("pods", pod_object("a", "n1", owner=("ReplicaSet", "web")), cpu=20)
    cluster.used["n1"]["cpu"] = 60
    cluster.minutes()
    cluster.see("replicasets", replicas(8))
    cluster.minutes(seconds // 60 - 1)
    cluster.used["n1"]["cpu"] = 85
    cluster.minutes()
    return kept(cluster, "replicas")


# --- budgets -------------------------------------------------------------------------------------


def _budget(allowed: int, healthy: int = 3, desired: int = 2, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "default", "name": "web", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
                   "desiredHealthy": desired, "expectedPods": 3},
    }  # fmt: skip


_UNREADY = {"phase": "Running", "conditions": [
    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-10-08T08:53:20Z"},
    {"type": "Ready", "status": "False", "lastTransitionTime": "2025-10-08T08:53:20Z"}]}  # fmt: skip


@cases(
    "3.budget",
    ("a budget that allows 0; the pod is ready", ({}, {}, 3), "stays: disruption budget"),
    ("the pod is not ready, IfHealthyBudget, 2 of 2 healthy: Kubernetes evicts it",
     ({}, {"status": _UNREADY}, 2), "leaves", "rules for unhealthy pods are not read"),
    ("the pod is Pending on its node: Kubernetes evicts it whatever the budget says",
     ({}, {"status": {"phase": "Pending"}}, 1), "leaves", "rules for pending pods are not read"),
    ("the pod is not ready, IfHealthyBudget, 1 of 2 healthy", ({}, {"status": _UNREADY}, 1),
     "stays: disruption budget"),
    ("the same with unhealthyPodEvictionPolicy AlwaysAllow",
     ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, {"status": _UNREADY}, 1), "leaves",
     "unhealthyPodEvictionPolicy is not read"),
)  # fmt: skip
def read_budgets_as_kubernetes_does(given: tuple[dict[str, Any], dict[str, Any], int]) -> str:
    spec, fields, healthy = given
    found = pod_object("a", "n1", labels={"app": "web"}, **fields)
    cluster = hot_with(found, "", ("poddisruptionbudgets", _budget(0, healthy, **spec)))
    if not cluster.commands() and cluster.gate("a") == "leaves":
        return f"stays: {cluster.last_report()}"
    return kept(cluster, "disruption budget")


@case(
    "35.10 of 1000",
    "minAvailable 990 of 1000 pods, 100 of them on a hot node: how many leave at once?",
    right="10 commands",
)
def move_as_many_as_a_budget_allows() -> str:
    cluster = Cluster(moving("migration: {evictBurst: 1000}"), n1=99)
    for number in range(2, 12):
        cluster.node(f"n{number}", 5)
    budget = _budget(10, 1000, 990)
    budget["status"]["expectedPods"] = 1000
    cluster.see("poddisruptionbudgets", budget)
    for number in range(100):
        found = pod_object(
            f"p{number}", "n1", "10m", labels={"app": "web"}, owner=("ReplicaSet", "web")
        )
        cluster.see("pods", found, cpu=0.9)
    cluster.minutes(2)
    return f"{len(cluster.commands())} commands"


# --- answers of the API server -------------------------------------------------------------------

_BUDGET_REFUSAL = failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's "
                          "disruption budget.", "The disruption budget web needs 3 healthy pods")  # fmt: skip


def _evict(*answers: Any, annotations: dict[str, str] | None = None, times: int = 1) -> list[Any]:
    async def run() -> list[Any]:
        played = Played()
        played.says("GET", POD_PATH, pod(NODE, phase="Running", annotations=annotations))
        played.says("POST", EVICTION, *answers)
        async with played.served() as server:
            evictor = Evictor(Throttle(server))
            attempts = [(await evictor.evict(eviction(POD, NODE)))[0] for _ in range(times)]
        return [*attempts, len(played.of("POST"))]

    return asyncio.run(run())


@cases(
    "35.answer",
    ("429 by a budget: refused, tried again later", (_BUDGET_REFUSAL, {}), "refused, again: True, 1 request"),
    ("a KubeVirt pod with eviction-in-progress: its move goes on, nothing is asked",
     (CREATED, {IN_PROGRESS_ANNOTATION: "true"}), "done, again: False, 0 request"),
    ("201", (CREATED, {}), "done, again: False, 1 request"),
)  # fmt: skip
def understand_an_answer(given: tuple[Any, dict[str, str]]) -> str:
    answer, annotations = given
    attempt, requests = _evict(answer, annotations=annotations)
    return f"{attempt.result}, again: {attempt.again_in_s is not None}, {requests} request"


@case(
    "35",
    "n1 hot by 20 virtual machines, at most 2 at once per node; both evictions go on in the background",
    right="2 commands in 5 rounds",
)
def count_evictions_in_the_background() -> str:
    cluster = Cluster(moving("migration: {maxMigratingPerNode: 2}"), n1=99, n2=5, n3=5)
    for number in range(20):
        found = pod_object(f"vm-{number}", "n1", owner=("VirtualMachineInstance", f"vm-{number}"))
        cluster.see("pods", found, cpu=4)
    answered: set[str] = set()
    for _ in range(5):
        cluster.minutes()
        for command in cluster.commands():
            if command.command_id not in answered:
                answered.add(command.command_id)
                cluster.answer(command, "done", "the eviction goes on in the background")
    return f"{len(cluster.commands())} commands in 5 rounds"


@case(
    "35.retry",
    "a budget refuses the eviction of the only pod: attempts in 5 minutes, with back-off",
    right="between 3 and 12 commands, of 1 migration",
)
def try_again_after_a_refusal() -> str:
    cluster = Cluster(moving(), n1=85, n2=20)
    cluster.see("pods", pod_object("a", "n1"), cpu=20)
    answered = 0
    for second in range(300):
        if second % 60 == 0:
            cluster.measure()
        cluster.seconds += 1
        cluster.apply(tick(cluster.seconds))
        for command in cluster.commands()[answered:]:
            answered += 1
            cluster.answer(command, "refused", "by the disruption budget web")
    commands: list[EvictionCommand] = cluster.commands()
    migrations = {each.migration_id for each in cluster.of(MigrationStatus)}
    text = f"of {len(migrations)} migration"
    return (
        f"between 3 and 12 commands, {text}"
        if 3 <= len(commands) <= 12
        else f"{len(commands)} {text}"
    )


@case(
    "3.terminating",
    "a pod terminates for an hour (grace 30 s) on a node at 90 %; another one of 20 % could leave",
    right="b n1->n2",
    open="a pod that terminates for ever holds back its node's relief",
)
def relieve_a_node_whose_pod_never_ends() -> str:
    cluster = Cluster(moving(), n1=90, n2=10)
    stuck = pod_object("stuck", "n1")
    stuck["metadata"]["deletionTimestamp"] = "2025-10-09T07:53:20Z"
    stuck["metadata"]["deletionGracePeriodSeconds"] = 30
    cluster.see("pods", stuck, cpu=25)
    cluster.see("pods", pod_object("b", "n1"), cpu=20)
    cluster.minutes()
    return cluster.moves()


@cases(
    "3.schedulerNames",
    ("a pod that `watch` places (schedulerName loadstream), default migration.schedulerNames",
     "loadstream", "leaves", "the default does not include the name that watch places"),
    ("a pod of default-scheduler", "default-scheduler", "stays: the pod is of scheduler"),
)  # fmt: skip
def move_the_pods_that_watch_places(scheduler: str) -> str:
    found = pod_object("a", "n1", schedulerName=scheduler)
    return kept(hot_with(found, "migration: {schedulerNames: null}"), "the pod is of scheduler")


@case(
    "3.no evictor",
    "no evictor runs: a command without an outcome, ten minutes later",
    right="the report names a missing evictor",
    open="a command without an outcome does not say that no evictor runs",
)
def say_that_no_evictor_runs() -> str:
    cluster = Cluster(moving(), n1=85, n2=20)
    cluster.see("pods", pod_object("a", "n1"), cpu=20)
    cluster.minutes(10)
    reports = [each.message for each in cluster.of(MigrationStatus)]
    named = any("evictor" in each for each in reports)
    return "the report names a missing evictor" if named else " | ".join(dict.fromkeys(reports))
