"""Random histories of all inputs of the cluster stage, from a seed.

A small cluster with few names, so that things meet: nodes come, change and go, pods change their
controllers, metrics are hot, stale, missing or huge, full lists lack what there was, requests wait and are
withdrawn, commands are carried out, refused or never answered, users migrate and drain, policies change
with pools, modes and compatibility, and time stands still or jumps. A history listens to what the stage
says (`hear`), so that outcomes belong to real commands.
"""

import random
from collections.abc import Callable
from typing import Any

from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import PodLifetimes
from schemas.messages.migrations import MigrationRequest
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.pods import OwnerReference, Pod
from schemas.messages.workloads import DisruptionBudget, WorkloadState
from schemas.topics.catalog import CLUSTER_INPUTS
from schemas.topics.codec import decode
from streams.stage.records import InputRecord, OutputRecord
from tests.streams.cluster.builders import (
    AFTER_SCHEDULED,
    CLUSTER,
    RAW_ALLOCATABLE,
    THRESHOLDS,
    aggregated,
    at,
    controlled_by,
    lifecycle,
    metric,
    node,
    node_gone,
    outcome,
    pod,
    pod_metric,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Log
from tests.streams.migration.builders import ask, budget, evicted, policy_text, workload

NODES = tuple(f"node-{n}" for n in range(5))
UIDS = tuple(f"pod-{n}" for n in range(12))
OWNERS = ("web", "db", "job")
OTHER_CLUSTER = "other"

_ROUNDS = """
rebalance:
  highThresholds: {cpu: 60}
  lowThresholds: {cpu: 40}
  prodHighThresholds: {cpu: 55}
  prodLowThresholds: {cpu: 30}
  anomalyCondition: {consecutiveAbnormalities: 2, consecutiveNormalities: 2}
descheduling: {deschedulingInterval: 2s}
"""
_POOLS = """
rebalance:
  highThresholds: {cpu: 60}
  lowThresholds: {cpu: 40}
  anomalyCondition: {consecutiveAbnormalities: 1}
  nodePools:
    - name: b
      nodeSelector: {matchLabels: {pool: b}}
      highThresholds: {cpu: 50, memory: 50}
      lowThresholds: {cpu: 30, memory: 30}
descheduling: {deschedulingInterval: 2s, maxNoOfPodsToEvictPerNode: 1}
"""
_RECENT = """
movingThresholds:
  filter: {recentPast: {deviations: 1, rounds: 4, atLeast: {cpu: 20}, atMost: {cpu: 80}}}
  hotspots: [{recentPast: {deviations: 2, rounds: 4, atLeast: {cpu: 20}, atMost: {cpu: 80}}}]
"""
_LIMITS: dict[str, Any] = {
    "evictQPS": 0.5,
    "evictBurst": 2,
    "objectLimiters": {"workload": {"duration": "30s", "burst": 2}},
    "skipEvictionGates": [],
    "skipCheckExpectedReplicas": False,
}
POLICIES = (
    "",
    policy_text(_ROUNDS),
    policy_text(_ROUNDS, **_LIMITS),
    policy_text(_ROUNDS, defaultJobMode="EvictDirectly", maxMigratingPerWorkload="50%"),
    policy_text(_ROUNDS + _RECENT, defaultJobMode="EvictDirectly"),
    policy_text(_POOLS),
    policy_text(_POOLS + _RECENT, maxMigratingPerNode=1),
    policy_text(_POOLS + "mode: observe\n", defaultJobTTL="20s"),
    policy_text(
        _ROUNDS + "moves: {coolingSeconds: 20, followSeconds: 30, loopWindowSeconds: 60}\n",
        defaultJobMode="EvictDirectly",
    ),
    "compat: koordinator\nmode: enforce\n" + _ROUNDS,
    policy_text(
        _ROUNDS + "evictor: {namespaceLabelSelector: {matchLabels: {evictable: 'yes'}}, priorityThreshold: {name: high}}\n",
        defaultJobMode="EvictDirectly",
    ),
    "maxBackoffSeconds: 4\nreservationSeconds: 20\nmaxPendingRequests: 3\n",
    "loadAware: {usageThresholds: {cpu: 50}, nodeMetricExpirationSeconds: 30}\n"
    "plugins: {score: [NodeResourceLimitsAware, NodeResourcesFit, "
    "NodeResourcesBalancedAllocation]}\n",
    policy_text(_ROUNDS + "loadAware: {estimatedScalingFactors: {cpu: 20, memory: 150}}\n"),
    policy_text(_ROUNDS + "plugins: {score: [LoadAwareScheduling, OverutilizationRisk]}\n"),
    policy_text(
        _ROUNDS + "plugins: {score: [OverutilizationRisk]}\n"
        "overutilizationRisk: {meanPriorMinutes: 9, usagePriorPods: 1, recentMinutes: 0}\n",
        defaultJobMode="EvictDirectly",
    ),
    "plugins: {score: [OverutilizationRisk]}\n"
    "overutilizationRisk: {resources: [{name: memory, weight: 2, hotPercent: 50}]}\n",
    policy_text(
        _ROUNDS + "loadAware: {estimatedScalingFactors: {cpu: 99, pods: 5}, allowCustomizeEstimation: true}\n",
        maxMigratingPerNode=1,
    ),
    policy_text(
        _ROUNDS + "loadAware: {estimatedScalingFactors: {cpu: 40}}\n"
        "plugins: {score: [LoadAwareScheduling]}\noverutilizationRisk: {usagePriorPods: 1}\n",
        defaultJobMode="EvictDirectly",
    ),
    policy_text(
        _ROUNDS + "loadAware: {allowCustomizeEstimation: true}\n"
        "overutilizationRisk: {resources: [{name: cpu}]}\n"
    ),
)  # fmt: skip
#: Times that a record takes, in seconds: mostly none or little.
_STEPS_S = (0, 1, 1, 1, 2, 2, 2, 5, 31, 61, 301)
_HUGE = (2**42, 2**50, 2**50 + 1, 2**63 - 1)


class History:
    """Makes the records of one history; `hear` what a stage says of them before asking for more."""

    def __init__(self, seed: int) -> None:
        self.log = Log()
        self._random = random.Random(seed)
        self._now_s = 0
        self._pods: dict[str, Pod] = {}
        """Pods as Kubernetes has them, by uid."""
        self._decisions: list[PlacementDecision] = []
        self._commands: list[EvictionCommand] = []
        self._lists = 0
        self._kinds: tuple[tuple[int, Callable[[], list[InputRecord]]], ...] = (
            (9, self._tick), (3, self._usage), (2, self._hot), (5, self._pod), (3, self._node),
            (3, self._request), (4, self._outcome), (2, self._policy), (2, self._migration),
            (1, self._workload), (1, self._budget), (1, self._named), (1, self._node_list), (1, self._pod_list),
            (1, self._garbage), (1, self._elsewhere),
        )  # fmt: skip
        self._weights = [weight for weight, _ in self._kinds]

    def begin(self) -> list[InputRecord]:
        """A cluster with nodes and pods, mostly."""
        records = []
        if self._random.random() < 0.9:
            records += self._policy()
            records += [self._record(node(name, labels=self._labels())) for name in NODES[:3]]
        if self._random.random() < 0.9:
            records += self._tick()
        for _ in range(self._random.randint(0, 8)):
            records += self._pod()
        return records

    def more(self) -> list[InputRecord]:
        """What happens next: one record, or a few that belong together."""
        (_, kind) = self._random.choices(self._kinds, self._weights)[0]
        return kind()

    def hear(self, outputs: list[OutputRecord]) -> None:
        """What the stage has said."""
        for output in outputs:
            said = decode(output.topic, output.value)
            if isinstance(said, PlacementDecision) and said.outcome == "placed":
                self._decisions.append(said)
            elif isinstance(said, EvictionCommand):
                self._commands.append(said)

    # --- time and nodes -----------------------------------------------------------------------------

    def _tick(self) -> list[InputRecord]:
        self._now_s += self._pick(_STEPS_S)
        return [self._record(tick(self._now_s))]

    def _node(self) -> list[InputRecord]:
        name = self._pick(NODES)
        if self._random.random() < 0.2:
            return [self._record(node_gone(name))]
        annotations = {}
        if self._random.random() < 0.1:
            annotations[THRESHOLDS] = '{"usageThresholds": {"cpu": 30}}'
        if self._random.random() < 0.1:
            annotations[RAW_ALLOCATABLE] = '{"cpu": "16"}'
        state = node(
            name,
            cpu=self._pick(("8", "8", "4", "0", "9223372036854775807")),
            event=self._pick(("added", "changed")),
            labels=self._labels(),
            annotations=annotations,
            unschedulable=self._random.random() < 0.1,
        )
        return [self._record(state)]

    def _labels(self) -> dict[str, str]:
        return {"pool": "b"} if self._random.random() < 0.5 else {}

    def _usage(self) -> list[InputRecord]:
        name = self._pick(NODES)
        if self._random.random() < 0.1:
            return [self._record(metric(name, removed=True))]
        amount = self._pick((100, 500, 1_500, 3_000))
        return [self._measured(name, amount if self._random.random() < 0.95 else self._pick(_HUGE))]

    def _hot(self) -> list[InputRecord]:
        """All nodes report, one or none of them is hot, and rounds look at it."""
        hot = self._pick((*NODES, None))
        records = [self._measured(name, 2_500 if name == hot else 100) for name in NODES[:4]]
        for _ in range(self._random.randint(1, 3)):
            self._now_s += 2
            records.append(self._record(tick(self._now_s)))
        return records

    def _measured(self, name: str, each: int) -> InputRecord:
        here = [uid for uid, pod in self._pods.items() if pod.node == name]
        most = 2**63 - 1
        made = metric(
            name,
            cpu=min(most, each * (len(here) + 1)),
            seconds=self._now_s - self._pick((0, 0, 0, 1, 90)),
            system_usage={"cpu": each},
            report_interval_ms=self._pick((None, 0, 60_000)),
            pods=tuple(pod_metric(uid, cpu=each, memory=each) for uid in here),
            aggregated=(aggregated(300, p95={"cpu": each}),),
        )
        if self._random.random() < 0.05:
            made = made.model_copy(update={"updated_at_ms": None})
        if self._random.random() < 0.2:
            made = made.model_copy(update={"lifetimes": self._lifetimes(len(here), each)})
        return self._record(made)

    def _lifetimes(self, pods: int, each: int) -> PodLifetimes:
        """Lifetimes of pods, now and then with a column of another length."""
        entries = max(0, pods + self._pick((0, 0, 0, 0, 0, 0, 0, 0, 0, 1, -1)))
        minutes = tuple(self._pick((0, 1, 3, 2**63 - 1)) for _ in range(entries))
        mean = {
            name: tuple(self._pick((each, -1)) for _ in range(pods)) for name in ("cpu", "memory")
        }
        return PodLifetimes(minutes=minutes, mean=mean, deviation={**mean, "cpu": (1,) * pods})

    # --- pods ---------------------------------------------------------------------------------------

    def _any_pod(self, uid: str) -> Pod:
        """A pod as it was, or with other labels, readiness or another controller."""
        known = self._pods.get(uid)
        owner = self._pick(OWNERS)
        if known is None:
            known = pod(
                uid,
                cpu=self._pick(("500m", "1", "3")),
                scheduler=self._pick(("koord-scheduler", "koord-scheduler", "other")),
                labels={"app": owner},
                owners=self._owners(owner),
                priority=self._pick((None, 100, 9_500)),
                phase="Running",
                created_at_ms=at(self._now_s),
            )
        changes: dict[str, Any] = {}
        if self._random.random() < 0.2:
            changes["owners"] = self._pick((self._owners(owner), self._owners(owner), ()))
        if self._random.random() < 0.1:
            changes["labels"] = {"app": owner}
        if self._random.random() < 0.05:
            changes["annotations"] = {AFTER_SCHEDULED: "30"}
        if self._random.random() < 0.1:
            changes["initialized_at_ms"] = at(self._now_s)
        changes["ready"] = self._random.random() < 0.8
        return known.model_copy(update=changes)

    def _owners(self, owner: str) -> tuple[OwnerReference, ...]:
        kind = "Job" if owner == "job" else "ReplicaSet"
        return controlled_by(owner, kind=kind)

    def _pod(self) -> list[InputRecord]:
        uid = self._pick(UIDS)
        if self._random.random() < 0.15:
            return [self._ended(uid)]
        made = self._any_pod(uid)
        if made.node is None or self._random.random() < 0.1:
            made = made.model_copy(update={"node": self._pick(NODES)})
        self._pods[uid] = made
        return [self._record(lifecycle(self._pick(("seen", "bound", "running", "changed")), made))]

    def _ended(self, uid: str) -> InputRecord:
        made = self._pods.pop(uid, None) or self._any_pod(uid)
        return self._record(lifecycle(self._pick(("deleted", "deleted", "finished")), made))

    def _request(self) -> list[InputRecord]:
        made = self._any_pod(self._pick(UIDS))
        wanting = made.model_copy(update={"node": None, "phase": "Pending", "ready": False})
        if self._random.random() < 0.05:
            wanting = wanting.model_copy(update={"unsupported": ("pod affinity",)})
        return [self._record(request(wanting, withdrawn=self._random.random() < 0.15))]

    def _outcome(self) -> list[InputRecord]:
        """A command is carried out, fails, or is reported on once more."""
        if self._decisions and self._random.random() < 0.5:
            decision = self._decisions[-1 - self._random.randrange(min(3, len(self._decisions)))]
            result = self._pick(("done", "done", "done", "failed", "refused", "expired", "dry"))
            records = [self._record(outcome(decision, result))]
            if result == "done" and self._random.random() < 0.7:
                made = self._any_pod(decision.pod.uid).model_copy(update={"node": decision.node})
                self._pods[made.uid] = made
                records.append(self._record(lifecycle("running", made)))
            return records
        if not self._commands:
            return self._tick()
        command = self._commands[-1 - self._random.randrange(min(3, len(self._commands)))]
        result = self._pick(("done", "done", "done", "failed", "refused", "expired", "dry"))
        records = [self._record(evicted(command, result))]
        gone = self._pods.get(command.pod.uid)
        if result == "done" and gone is not None and self._random.random() < 0.8:
            records.append(self._ended(gone.uid))
            free = [uid for uid in UIDS if uid not in self._pods]
            new = self._any_pod(self._pick(free)).model_copy(
                update={"owners": gone.owners, "node": None, "phase": "Pending"}
            )
            records.append(self._record(request(new)))
        return records

    # --- what users and owners want -----------------------------------------------------------------

    def _policy(self) -> list[InputRecord]:
        paused = self._random.random() < 0.1
        document = self._pick((*POLICIES, *POLICIES[1:], "no: such: yaml"))
        return [self._record(policy_record(document, paused=paused))]

    def _migration(self) -> list[InputRecord]:
        action = self._pick(
            ("migrate",) * 4 + ("pause", "resume", "abort", "drain", "drain", "undrain")
        )
        if action in ("drain", "undrain"):
            return [self._record(ask(action, node=self._pick(NODES)))]
        known = self._pods.get(self._pick(UIDS)) or self._any_pod(self._pick(UIDS))
        made = ask(action, pod=known, ignore_windows=self._random.random() < 0.5)
        return [self._record(made)]

    def _workload(self) -> list[InputRecord]:
        gone = self._random.random() < 0.3
        return [
            self._record(workload(self._pick(OWNERS), self._random.randint(0, 6), removed=gone))
        ]

    def _budget(self) -> list[InputRecord]:
        app, gone = self._pick(OWNERS), self._random.random() < 0.3
        return [self._record(budget(self._random.randint(0, 3), app, app, removed=gone))]

    def _named(self) -> list[InputRecord]:
        return [self._record(self._namespace_or_class(removed=self._random.random() < 0.3))]

    def _namespace_or_class(self, **fields: Any) -> NamespaceState | PriorityClassState:
        """A namespace or a priority class that the policies go by."""
        if self._random.random() < 0.5:
            labels = self._pick(({}, {"evictable": "yes"}))
            return NamespaceState(cluster=CLUSTER, name="default", labels=labels, **fields)
        value = self._pick((0, 5, 10_000))
        return PriorityClassState(cluster=CLUSTER, name="high", value=value, **fields)

    # --- full lists ---------------------------------------------------------------------------------

    def _node_list(self) -> list[InputRecord]:
        names = self._random.sample(NODES, self._random.randint(1, len(NODES)))
        return self._listed("node-state", [node(name, labels=self._labels()) for name in names])

    def _pod_list(self) -> list[InputRecord]:
        if self._random.random() < 0.5:
            self._pods = {
                uid: each for uid, each in self._pods.items() if self._random.random() < 0.8
            }
        messages: list[Any] = [lifecycle("seen", each) for each in self._pods.values()]
        if self._random.random() < 0.3:
            messages.append(workload(self._pick(OWNERS), 3))
        if self._random.random() < 0.3:
            messages.append(budget(1))
        if self._random.random() < 0.3:
            messages.append(self._namespace_or_class())
        return self._listed("pod-lifecycle", messages)

    def _listed(self, topic: str, messages: list[Any]) -> list[InputRecord]:
        self._lists += 1
        list_id = f"list-{self._lists}"
        records = [self._record(ListBegin(cluster=CLUSTER, list_id=list_id), topic)]
        for each in messages:
            records.append(self._record(each.model_copy(update={"list_id": list_id}), topic))
        if self._random.random() < 0.9:
            records.append(self._record(ListEnd(cluster=CLUSTER, list_id=list_id), topic))
        return records

    # --- what does not belong here ------------------------------------------------------------------

    def _garbage(self) -> list[InputRecord]:
        topic = self._pick(CLUSTER_INPUTS)
        value = self._pick((b"", b"{", b"null", b'{"cluster": "test"}', None))
        return [self.log.raw(topic, value, self._pick((b"test", b"", None, b"0")))]

    def _elsewhere(self) -> list[InputRecord]:
        """Another cluster of the partition, which comes and goes."""
        message = self._pick(
            (node("far"), node_gone("far"), request("far"), lifecycle("deleted", pod("far")))
        )
        return [self._record(message.model_copy(update={"cluster": OTHER_CLUSTER}))]

    # --- records ------------------------------------------------------------------------------------

    def _record(self, message: Any, topic: str | None = None) -> InputRecord:
        return self.log.message(message, topic or _TOPICS.get(type(message)))

    def _pick(self, among: Any) -> Any:
        return self._random.choice(among)


_TOPICS: dict[type, str] = {
    MigrationRequest: "migration-requests",
    WorkloadState: "pod-lifecycle",
    DisruptionBudget: "pod-lifecycle",
    NamespaceState: "pod-lifecycle",
    PriorityClassState: "pod-lifecycle",
}
