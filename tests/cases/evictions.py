"""Protections of pods from evictions, and answers to evictions."""

import asyncio
from typing import Any

from connectors.kubernetes.sinks.eviction import IN_PROGRESS_ANNOTATION, Evictor
from schemas.messages.migrations import MigrationStatus
from tests.cases.case import case, cases
from tests.cases.cluster import Cluster, make_object, make_policy
from tests.connectors.kubernetes.sinks.builders import CREATED, EVICTION, NODE, POD, POD_PATH, pod
from tests.connectors.kubernetes.sinks.fake_server import FakeServer, failure
from tests.connectors.ports.sink_contract import eviction
from tests.streams.builders import tick

#: Words of gates that replace the whole text of the gate in an outcome.
_GATE_WORDS = (
    *(
        "do-not-disrupt",
        "safe-to-evict",
        "prefer-no-eviction",
        "kubernetes.io/evict",
        "karpenter.sh/do-not-evict",
    ),
    *("no owner", "Job", "disruption budget", "replicas", "scheduler"),
)
_Object = tuple[str, dict[str, Any]]


def run_round(document: dict[str, Any], policy: str = "", *more: _Object) -> str:
    """Return whether pod a leaves n1 at 85 % for n2 at 20 %, with further objects in the cluster."""
    cluster = Cluster(make_policy(policy), n1=85, n2=20)
    for kind, other in more:
        cluster.report(kind, other)
    cluster.report("pods", document, cpu=20)
    return describe_stay(cluster.pass_minutes())


def describe_stay(cluster: Cluster) -> str:
    """Return `leaves`, or why pod a stays."""
    gate = cluster.find_gate("a")
    if gate in ("leaves", "not looked at"):
        return gate if cluster.list_commands() or gate != "leaves" else cluster.read_status()
    return f"stays: {next((word for word in _GATE_WORDS if word in gate), gate)}"


def _job(pod_restarts: str = "Never", failed: int = 0, **spec: Any) -> _Object:
    template = {"spec": {"restartPolicy": pod_restarts}}
    meta = {"namespace": "default", "name": "import", "uid": "import"}
    spec = {"parallelism": 4, "completions": 8, "backoffLimit": 6, "template": template, **spec}
    return "jobs", {"metadata": meta, "spec": spec, "status": {"active": 4, "failed": failed}}


def _replicas(count: int) -> dict[str, Any]:
    meta = {"namespace": "default", "name": "web", "uid": "web"}
    return {"metadata": meta, "spec": {"replicas": count}, "status": {"replicas": 20}}


def _budget(allowed: int, healthy: int, desired: int = 2, pods: int = 3, **spec: Any) -> _Object:
    return "poddisruptionbudgets", {
        "metadata": {"namespace": "default", "name": "web", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
                   "desiredHealthy": desired, "expectedPods": pods},
    }  # fmt: skip


_IGNORE: dict[str, Any] = {"podFailurePolicy": {"rules": [{
    "action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}}  # fmt: skip
_UNREADY: dict[str, Any] = {"phase": "Running", "conditions": [
    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-10-08T08:53:20Z"},
    {"type": "Ready", "status": "False", "lastTransitionTime": "2025-10-08T08:53:20Z"}]}  # fmt: skip
_EVICT = "descheduler.alpha.kubernetes.io/evict"
_JOB = {"owner": ("Job", "import"), "restartPolicy": "Never"}
_WEB = {"labels": {"app": "web"}}


@cases(
    "38.annotation",
    ("karpenter.sh/do-not-disrupt: true", {"karpenter.sh/do-not-disrupt": "true"}, "stays: do-not-disrupt"),
    ("karpenter.sh/do-not-evict: true, its name before", {"karpenter.sh/do-not-evict": "true"}, "stays: karpenter.sh/do-not-evict"),
    ("karpenter.sh/do-not-disrupt: false", {"karpenter.sh/do-not-disrupt": "false"}, "leaves"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict: false",
     {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, "stays: safe-to-evict"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict: true",
     {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, "leaves"),
    ("descheduler.alpha.kubernetes.io/evict: false", {_EVICT: "false"}, "stays: kubernetes.io/evict"),
    ("descheduler.alpha.kubernetes.io/evict: true", {_EVICT: "true"}, "leaves"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction",
     {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}, "stays: prefer-no-eviction"),
    ("example.com/other: true", {"example.com/other": "true"}, "leaves"),
)  # fmt: skip
def heed_annotations(annotations: dict[str, str]) -> str:
    return run_round(make_object("a", "n1", annotations=annotations))


@cases(
    "36",
    ("a Running bare pod on a hot node", {}, "stays: no owner"),
    ("the same with evict=true", {"annotations": {_EVICT: "true"}}, "leaves"),
    ("the same with evict=false", {"annotations": {_EVICT: "false"}}, "stays: kubernetes.io/evict"),
    ("a Failed bare pod: it runs no more", {"status": {"phase": "Failed"}}, "not looked at"),
)
def leave_bare_pods(fields: dict[str, Any]) -> str:
    return run_round(make_object("a", "n1", owner=("", ""), **fields))


@cases(
    "3.",
    ("a pod of a Job with backoffLimit 0: the Job would fail", (_JOB, "", _job(backoffLimit=0)), "stays: Job"),
    ("backoffLimit 2 and 2 pods have failed", (_JOB, "", _job(failed=2, backoffLimit=2)), "stays: Job"),
    ("backoffLimit 6, restartPolicy Never: its work is lost", (_JOB, "", _job()), "stays: Job"),
    ("backoffLimit 6, restartPolicy OnFailure", (_JOB, "", _job("OnFailure")), "leaves"),
    ("restartPolicy Never, a pod failure policy ignores disruptions", (_JOB, "", _job(**_IGNORE)), "leaves"),
    ("the same with backoffLimit 0", (_JOB, "", _job(backoffLimit=0, **_IGNORE)), "leaves"),
    ("a pod of a Job that no record describes", (_JOB, ""), "stays: Job"),
    ("a rule FailJob for exit codes comes before the one that ignores disruptions",
     (_JOB, "", _job(podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"operator": "NotIn",
      "values": [0]}}, *_IGNORE["podFailurePolicy"]["rules"]]})), "stays: Job"),
    ("a budget allows 0; the pod is ready", (_WEB, "", _budget(0, 3)), "stays: disruption budget"),
    ("the pod is not ready, 2 of 2 healthy: Kubernetes evicts it",
     ({**_WEB, "status": _UNREADY}, "", _budget(0, 2)), "leaves"),
    ("the pod is Pending on its node: Kubernetes evicts it whatever the budget says",
     ({**_WEB, "status": {"phase": "Pending"}}, "", _budget(0, 1)), "leaves"),
    ("the pod is not ready, 1 of 2 healthy", ({**_WEB, "status": _UNREADY}, "", _budget(0, 1)),
     "stays: disruption budget"),
    ("the same with unhealthyPodEvictionPolicy AlwaysAllow", ({**_WEB, "status": _UNREADY}, "",
     _budget(0, 1, unhealthyPodEvictionPolicy="AlwaysAllow")), "leaves"),
    ("a pod that `watch` places (loadstream), default migration.schedulerNames",
     ({}, "migration: {schedulerNames: null}"), "leaves"),
    ("a pod of default-scheduler",
     ({"schedulerName": "default-scheduler"}, "migration: {schedulerNames: null}"), "stays: scheduler"),
)  # fmt: skip
def protect(given: tuple[Any, ...]) -> str:
    fields, policy, *more = given
    return run_round(make_object("a", "n1", **fields), policy, *more)


@cases(
    "37",
    ("replicas fall from 20 to 8 a minute before; a node at 85 %", 60, "stays: replicas"),
    ("replicas fell an hour before", 3600, "leaves"),
)
def leave_a_workload_that_scales_down(seconds: int) -> str:
    cluster = Cluster(make_policy(), n1=60, n2=20)
    cluster.report("replicasets", _replicas(20))
    cluster.report("pods", make_object("a", "n1", owner=("ReplicaSet", "web")), cpu=20)
    cluster.pass_minutes().report("replicasets", _replicas(8))
    cluster.pass_minutes(seconds // 60 - 1)
    cluster.used["n1"]["cpu"] = 85
    return describe_stay(cluster.pass_minutes())


@case("35.10 of 1000", "minAvailable 990 of 1000 pods, 100 of them on a hot node: how many leave at once?",
      right="10 commands")  # fmt: skip
def move_as_many_as_a_budget_allows() -> str:
    cluster = Cluster(make_policy("migration: {evictBurst: 1000}"), n1=99)
    for number in range(2, 12):
        cluster.add_node(f"n{number}", 5)
    cluster.report(*_budget(10, 1000, 990, 1000))
    for number in range(100):
        pod_object = make_object(
            f"p{number}", "n1", "10m", labels={"app": "web"}, owner=("ReplicaSet", "web")
        )
        cluster.report("pods", pod_object, cpu=0.9)
    cluster.pass_minutes(2)
    return f"{len(cluster.list_commands())} commands"


# --- answers of the API server -------------------------------------------------------------------

_BUDGET_REFUSAL = failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's "
                          "disruption budget.", "The disruption budget web needs 3 healthy pods")  # fmt: skip


@cases(
    "35.answer",
    ("429 by a budget: refused, tried again later", (_BUDGET_REFUSAL, {}), "refused, again: True, 1 request"),
    ("a KubeVirt pod with eviction-in-progress: its move goes on, nothing is asked",
     (CREATED, {IN_PROGRESS_ANNOTATION: "true"}), "done, again: False, 0 request"),
    ("201", (CREATED, {}), "done, again: False, 1 request"),
)  # fmt: skip
def understand_an_answer(given: tuple[Any, dict[str, str]]) -> str:
    async def run() -> str:
        fake_server = FakeServer()
        fake_server.set_answers("GET", POD_PATH, pod(NODE, phase="Running", annotations=given[1]))
        fake_server.set_answers("POST", EVICTION, given[0])
        async with fake_server.serve() as server:
            attempt, _ = await Evictor(server).evict(eviction(POD, NODE))
        requests = len(fake_server.list_requests("POST"))
        return f"{attempt.result}, again: {attempt.again_in_s is not None}, {requests} request"

    return asyncio.run(run())


@case("35", "n1 hot by 20 virtual machines, at most 2 at once per node; both evictions go on in the background",
      right="2 commands in 5 rounds")  # fmt: skip
def count_evictions_in_the_background() -> str:
    cluster = Cluster(make_policy("migration: {maxMigratingPerNode: 2}"), n1=99, n2=5, n3=5)
    for number in range(20):
        owner = ("VirtualMachineInstance", f"vm-{number}")
        cluster.report("pods", make_object(f"vm-{number}", "n1", owner=owner), cpu=4)
    answered: set[str] = set()
    for _ in range(5):
        cluster.pass_minutes()
        for command in cluster.list_commands():
            if command.command_id not in answered:
                answered.add(command.command_id)
                cluster.report_outcome(command, "done", "the eviction goes on in the background")
    return f"{len(cluster.list_commands())} commands in 5 rounds"


@case("35.retry", "a budget refuses the eviction of the only pod: attempts in 5 minutes, with back-off",
      right="3 to 12 commands, of 1 migration")  # fmt: skip
def try_again_after_a_refusal() -> str:
    cluster = Cluster(make_policy(), n1=85, n2=20)
    cluster.report("pods", make_object("a", "n1"), cpu=20)
    answered = 0
    for second in range(300):
        if second % 60 == 0:
            cluster.measure()
        cluster.seconds += 1
        cluster.apply(tick(cluster.seconds))
        for command in cluster.list_commands()[answered:]:
            answered += 1
            cluster.report_outcome(command, "refused", "by the disruption budget web")
    migrations = {status.migration_id for status in cluster.list_outputs(MigrationStatus)}
    count = len(cluster.list_commands())
    commands = "3 to 12" if 3 <= count <= 12 else str(count)
    return f"{commands} commands, of {len(migrations)} migration"


@case("3.terminating", "a pod terminates for an hour (grace 30 s) on a node at 90 %; another one of 20 % could leave",
      right="b n1->n2")  # fmt: skip
def relieve_a_node_whose_pod_never_ends() -> str:
    cluster = Cluster(make_policy(), n1=90, n2=10)
    stuck = make_object("stuck", "n1")
    stuck["metadata"]["deletionTimestamp"] = "2025-10-09T07:53:20Z"
    stuck["metadata"]["deletionGracePeriodSeconds"] = 30
    cluster.report("pods", stuck, cpu=25)
    cluster.report("pods", make_object("b", "n1"), cpu=20)
    cluster.pass_minutes()
    return cluster.describe_moves()


@case("3.no evictor", "no evictor runs: a command without an outcome, ten minutes later",
      right="the report names a missing evictor")  # fmt: skip
def say_that_no_evictor_runs() -> str:
    cluster = Cluster(make_policy(), n1=85, n2=20)
    cluster.report("pods", make_object("a", "n1"), cpu=20)
    cluster.pass_minutes(10)
    reports = [status.message for status in cluster.list_outputs(MigrationStatus)]
    named = any("evictor" in text for text in reports)
    return "the report names a missing evictor" if named else " | ".join(dict.fromkeys(reports))
