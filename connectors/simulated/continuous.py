"""A simulated cluster that lasts: everything its producers send, at the pace of a real clock, without end.

    begin(now)    ──▶ policy, all nodes, the pods that run on them
    advance(now)  ──▶ samples, lifecycles, requests, withdrawals
    hear(answer)  ──▶ a placed pod is bound (or refused), an evicted one goes and another one asks for a
                      node, which is told at once

The load is the seeded model, drawn anew for each span of a few hours, so it jumps a little in between.
Nothing is kept of pods that are gone. A run that is started again names all its nodes and pods anew,
whereby those of the run before are removed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from connectors.simulated.machines import BASE_SHARE, make_machines
from connectors.simulated.sink import Evictor
from connectors.simulated.fitted import ALIBABA_2018
from connectors.simulated.kubelet import Kubelets, PodEvent
from connectors.simulated.load import LoadModel
from connectors.simulated.owners import Owners
from connectors.simulated.pods import PodPlan
from connectors.simulated.readings import Readings, model_readings
from connectors.simulated.workload import make_pods
from schemas.decisions import PlacementDecision
from schemas.evictions import EvictionCommand
from schemas.lists import ListBegin, ListEnd
from schemas.outcomes import CommandOutcome
from schemas.pods import PodLifecycle, PodRef
from schemas.policies import PolicyRecord
from schemas.requests import SchedulingRequest

#: Load and pods are drawn for so long at once.
SPAN_MS = 6 * 3_600_000
#: Samples that are older when their turn comes, because the process was asleep, are left out.
BACKLOG_MAX_MS = 5 * 60_000
#: A pod that has no node after this time is given up.
PATIENCE_MS = 30 * 60_000
#: Namespaces whose workloads have disruption budgets.
BUDGETED = frozenset({"residents"})

#: Sends a message to a topic.
Send = Callable[[str, Any], None]


@dataclass(slots=True)
class Totals:
    """What was done so far."""

    samples: int = 0
    requests: int = 0
    bound: int = 0
    refused: int = 0
    """Placements that nodes did not take: none, if the worker keeps its books right."""
    withdrawn: int = 0
    evicted: int = 0
    dry: int = 0
    """Evictions that were only said."""


class LastingCluster:
    """The cluster and its producers; time only goes forward."""

    def __init__(
        self, name: str, nodes: int, seed: int, churn: float, period_s: float, send: Send
    ) -> None:
        """Pods come and go `churn` times as fast as in the traces; a sample every `period_s`."""
        self.name = name
        self.totals = Totals()
        self._nodes, self._seed, self._churn, self._period_s = nodes, seed, churn, period_s
        self._send = send
        self._span = -1
        self._read = 0
        self._plans: deque[PodPlan] = deque()
        """Pods of this span that have not asked yet."""
        self._asked: dict[str, PodPlan] = {}
        """Pods that have asked and are not bound, by uid."""
        self._patience: deque[tuple[int, str]] = deque()

    @property
    def waiting(self) -> int:
        """Pods that have asked for a node and have none."""
        return len(self._asked)

    def begin(self, now_ms: int, *, with_policy: bool = True) -> None:
        """Send what there is; a policy only where the cluster has none yet."""
        self._begin_ms = now_ms
        self._machines = make_machines(self._nodes, self._seed, ALIBABA_2018, now_ms)
        self._kubelets = Kubelets(self._machines)
        self._owners = Owners(self.name, BUDGETED)
        self._evictor = Evictor(self.name, self._kubelets, self._owners, self._send)
        self._draw(0)
        if with_policy:
            self._send_policy(now_ms)
        list_id = f"begun-{now_ms}"
        nodes = [machine.node_state(self.name, list_id) for machine in self._machines]
        pods: list[Any] = []
        for machine in self._machines:
            for resident in machine.residents:
                self._owners.wanted(resident.pod, ready=True)
                seen = PodLifecycle(
                    cluster=self.name, event="seen", list_id=list_id, pod=resident.pod
                )
                pods.append(seen)
        pods += self._owners.changes(list_id)
        lists: tuple[tuple[str, list[Any]], ...] = (("node-state", nodes), ("pod-lifecycle", pods))
        for topic, messages in lists:
            self._send(topic, ListBegin(cluster=self.name, list_id=list_id))
            for message in messages:
                self._send(topic, message)
            self._send(topic, ListEnd(cluster=self.name, list_id=list_id))

    def _send_policy(self, now_ms: int) -> None:
        policy = (Path(__file__).parent / "policy.yaml").read_text(encoding="utf-8")
        self._send(
            "policies",
            PolicyRecord(
                cluster=self.name,
                document=policy,
                applied_at_ms=now_ms,
                comment="the simulated cluster's policy",
            ),
        )

    def advance(self, now_ms: int) -> None:
        """Send everything that is due until now."""
        for event in self._kubelets.advance(now_ms):
            self._lifecycle(event)
        while (now_ms - self._begin_ms) // SPAN_MS > self._span:
            self._send_due((self._span + 1) * SPAN_MS + self._begin_ms - 1, now_ms)
            self._draw(self._span + 1)
        self._send_due(now_ms, now_ms)
        while self._patience and self._patience[0][0] <= now_ms:
            _, uid = self._patience.popleft()
            if (plan := self._asked.pop(uid, None)) is not None:
                self._request(plan, now_ms, withdrawn=True)
                self._owners.gone(plan.pod)
                self.totals.withdrawn += 1
        self._tell_workloads()

    def hear(self, message: PlacementDecision | EvictionCommand, now_ms: int) -> None:
        """Take in an answer; those about other clusters, or pods of a run before, mean nothing here."""
        if message.cluster != self.name:
            return
        if isinstance(message, EvictionCommand):
            self._commanded(message, now_ms)
        else:
            self._decided(message, now_ms)
        self._tell_workloads()

    def _commanded(self, command: EvictionCommand, now_ms: int) -> None:
        replacement = self._evictor.hear(command, now_ms)
        self.totals.evicted = len(self._evictor.evictions)
        self.totals.dry = self._evictor.results["dry"]
        if replacement is not None:
            self._ask(replacement)

    def _decided(self, decision: PlacementDecision, now_ms: int) -> None:
        plan = self._asked.get(decision.pod.uid)
        if plan is None:
            return
        if decision.outcome == "refused":
            del self._asked[decision.pod.uid]
            self._owners.gone(plan.pod)
        elif decision.outcome == "placed" and decision.node is not None:
            answer = self._kubelets.admit(plan, decision.node, now_ms)
            if isinstance(answer, str):
                self.totals.refused += 1
                self._outcome(decision, "failed", answer, now_ms)
                return
            del self._asked[decision.pod.uid]
            self.totals.bound += 1
            self._outcome(decision, "done", "", now_ms)
            self._lifecycle(answer)

    def _draw(self, span: int) -> None:
        """Draw load and pods of a span."""
        begin_ms = self._begin_ms + span * SPAN_MS
        self._span, self._read = span, 0
        # Another seed for each span: the model begins anew with the same numbers otherwise.
        model = LoadModel(ALIBABA_2018, self._seed + 1_000_003 * span, self._period_s)
        self._readings: Readings = model_readings(
            model, self._machines, begin_ms, begin_ms + SPAN_MS, BASE_SHARE
        )
        busy = sum(machine.millicores for machine in self._machines if machine.temper == "busy")
        mean_cores = (1.0 - BASE_SHARE) * ALIBABA_2018.cpu_busy_mean * busy / 1000
        drawn = make_pods(
            self._seed + span, begin_ms, begin_ms + round(SPAN_MS * self._churn), mean_cores
        )
        self._plans = deque(self._hurried(plan, begin_ms) for plan in drawn)

    def _hurried(self, plan: PodPlan, begin_ms: int) -> PodPlan:
        """A pod that comes and goes so much faster, under a name of its own in this run and span."""
        at_ms = begin_ms + round((plan.at_ms - begin_ms) / self._churn)
        name = f"{plan.pod.name}-{begin_ms // 1000:x}"
        pod = plan.pod.model_copy(
            update={"name": name, "uid": f"{self.name}-{name}", "created_at_ms": at_ms}
        )
        return replace(plan, pod=pod, at_ms=at_ms, life_ms=round(plan.life_ms / self._churn))

    def _send_due(self, until_ms: int, now_ms: int) -> None:
        """Send samples and requests of this span that are due."""
        end = self._readings.until(until_ms)
        first = max(self._read, self._readings.until(now_ms - BACKLOG_MAX_MS))
        for index in range(first, end):
            self._sample(index)
        self._read = max(first, end)
        while self._plans and self._plans[0].at_ms <= until_ms:
            plan = self._plans.popleft()
            self._owners.wanted(plan.pod)
            self._ask(plan)

    def _ask(self, plan: PodPlan) -> None:
        """A pod wants a node."""
        self._asked[plan.pod.uid] = plan
        self._patience.append((plan.at_ms + PATIENCE_MS, plan.pod.uid))
        self._request(plan, plan.at_ms)
        self.totals.requests += 1

    def _sample(self, index: int) -> None:
        readings = self._readings
        machine = self._machines[int(readings.machine[index])]
        base = {
            "cpu": int(readings.millicores[index]),
            "memory": int(readings.memory_bytes[index]),
        }
        at_ms = int(readings.at_ms[index])
        self._send("node-usage", self._kubelets.sample(self.name, machine.name, base, at_ms))
        self.totals.samples += 1

    def _request(self, plan: PodPlan, at_ms: int, *, withdrawn: bool = False) -> None:
        self._send(
            "scheduling-requests",
            SchedulingRequest(
                cluster=self.name, pod=plan.pod, requested_at_ms=at_ms, withdrawn=withdrawn
            ),
        )

    def _tell_workloads(self) -> None:
        for message in self._owners.changes():
            self._send("pod-lifecycle", message)

    def _lifecycle(self, event: PodEvent) -> None:
        self._owners.happened(event)
        self._send(
            "pod-lifecycle", PodLifecycle(cluster=self.name, event=event.event, pod=event.pod)
        )

    def _outcome(self, decision: PlacementDecision, result: Any, reason: str, now_ms: int) -> None:
        pod = decision.pod
        self._send(
            "command-outcomes",
            CommandOutcome(
                command_id=decision.decision_id,
                cluster=self.name,
                command="bind",
                pod=PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
                node=decision.node,
                result=result,
                reason=reason,
                happened_at_ms=now_ms,
            ),
        )
