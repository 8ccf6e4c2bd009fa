"""A run of the demo: what is sent at each moment, and what the answers cause.

    advance(now) ──▶ clock, samples, lifecycles, requests; once, the policy of the second act
    hear(answer) ──▶ a placed pod is bound (or refused), an evicted one goes and another one asks for a
                     node, which is told at once

Pods follow decisions and usage follows pods, so the loop is closed. The session knows the scenario's
time and is told the real one; it sends through a function and starts nothing itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from connectors.demo.grid import UsageGrid
from connectors.demo.observed import Observed
from connectors.demo.relief import Relief
from connectors.demo.scenario import CLUSTER, Scenario
from connectors.simulated.baseline_no_eviction import Placed
from connectors.simulated.sink import Evictor
from connectors.simulated.kubelet import Kubelets, PodEvent
from connectors.simulated.this_machine import LiveReading
from connectors.simulated.owners import Owners
from connectors.simulated.pods import PodPlan
from schemas.clock import ClockTick
from schemas.deadletters import DeadLetter
from schemas.decisions import PlacementDecision
from schemas.evictions import EvictionCommand
from schemas.lists import ListBegin, ListEnd
from schemas.metrics import NodeMetric
from schemas.moves import MoveOutcome
from schemas.outcomes import CommandOutcome
from schemas.pods import PodLifecycle, PodRef
from schemas.policies import PolicyRecord
from schemas.requests import SchedulingRequest
from schemas.rounds import RebalanceRound

#: Topics whose records the session wants to hear.
HEARD = (
    "node-metrics", "placement-decisions", "dead-letters", "rebalance-rounds", "eviction-commands",
    "move-outcomes",
)  # fmt: skip
#: Namespaces whose workloads have disruption budgets.
_BUDGETED = frozenset({"residents"})

#: Sends a message to a topic.
Send = Callable[[str, Any], None]

_LIST_ID = "demo-begins"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decision that a node did not carry out."""

    decision: PlacementDecision
    reason: str


class Session:
    """One run."""

    def __init__(
        self,
        scenario: Scenario,
        send: Send,
        partitions: int,
        live: Callable[[], LiveReading] | None = None,
    ) -> None:
        """`live` reads this very machine, where the scenario has it for a node."""
        self.scenario = scenario
        self.now_ms = scenario.begin_ms
        self.observed = Observed(scenario.machines, scenario.policy)
        # What this very machine uses is real, and no eviction of the demo takes it away.
        number = scenario.live
        left_out = None if number is None else scenario.machines[number].name
        self.relief = Relief(left_out)
        self.kubelets = Kubelets(scenario.machines)
        self.owners = Owners(CLUSTER, _BUDGETED)
        self.evictor = Evictor(CLUSTER, self.kubelets, self.owners, send)
        self.grid = UsageGrid(len(scenario.machines), scenario.begin_ms, scenario.end_ms)
        self.placed_at_ms: list[int] = []
        self.placements: list[Placed] = []
        """Where the scenario's pods were placed first; not those that came in place of evicted ones."""
        self.replaced: dict[str, str] = {}
        """Pods that came in place of evicted ones, by uid, and the node that those left."""
        self.enforced_ms: int | None = None
        """When the second act began."""
        self.waiting: list[tuple[int, int]] = []
        """Time, and how many pods wait for a node then."""
        self.samples = 0
        self.arrived = 0
        """How many of the scenario's pods have asked for a node."""
        self.refusals: list[Refusal] = []
        """Placements that nodes did not take: none, if the worker keeps its books right."""
        self._read = 0
        """How many readings have been sent."""
        self._plans: dict[str, PodPlan] = {}
        self._waiting: set[str] = set()
        self._evicted_by: set[str] = set()
        """Commands that were carried out."""
        self._send = send
        self._partitions = partitions
        self._live = live

    # --- what is sent ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Send what there is: the policy, the time, all nodes, and the pods that run on them."""
        self._send("policies", self._policy_record(self.scenario.policy_text, "the demo's policy"))
        self._tick()
        for topic, messages in (
            ("node-state", self._nodes()),
            ("pod-lifecycle", self._residents()),
        ):
            self._send(topic, ListBegin(cluster=CLUSTER, list_id=_LIST_ID))
            for message in messages:
                self._send(topic, message)
            self._send(topic, ListEnd(cluster=CLUSTER, list_id=_LIST_ID))

    def advance(self, now_ms: int, real_s: float) -> None:
        """Send everything that is due from the last time to this one."""
        first, self._read = self._read, self.scenario.readings.until(now_ms)
        self.now_ms = now_ms
        # The clock goes first: a sample must never look as if it came from the future.
        self._tick()
        if self.enforced_ms is None and now_ms >= self.scenario.enforce_ms:
            self.enforced_ms = now_ms
            text, comment = self.scenario.enforcing_text, "evictions are carried out from now on"
            self._send("policies", self._policy_record(text, comment))
        for event in self.kubelets.advance(now_ms):
            self._lifecycle(event)
        for index in range(first, self._read):
            self._sample(index)
        plans = self.scenario.plans
        while self.arrived < len(plans) and plans[self.arrived].at_ms <= now_ms:
            self.owners.wanted(plans[self.arrived].pod)
            self._request(plans[self.arrived], real_s)
            self.arrived += 1
        self._tell_workloads()
        self.waiting.append((now_ms, len(self._waiting)))

    @property
    def requests(self) -> int:
        """How many pods have asked for a node, those in place of evicted ones included."""
        return self.arrived + len(self.replaced)

    @property
    def over(self) -> bool:
        """The scenario has come to its end."""
        return self.now_ms >= self.scenario.end_ms

    def _policy_record(self, document: str, comment: str) -> PolicyRecord:
        return PolicyRecord(
            cluster=CLUSTER, document=document, applied_at_ms=self.now_ms, comment=comment
        )

    def _nodes(self) -> Iterator[Any]:
        for machine in self.scenario.machines:
            yield machine.node_state(CLUSTER, _LIST_ID)

    def _residents(self) -> Iterator[Any]:
        for machine in self.scenario.machines:
            for resident in machine.residents:
                self.owners.wanted(resident.pod, ready=True)
                yield PodLifecycle(
                    cluster=CLUSTER, event="seen", list_id=_LIST_ID, pod=resident.pod
                )
        yield from self.owners.changes(_LIST_ID)

    def _tick(self) -> None:
        for partition in range(self._partitions):
            self._send("clock", ClockTick(partition=partition, now_ms=self.now_ms))

    def _lifecycle(self, event: PodEvent) -> None:
        self.owners.happened(event)
        self._send("pod-lifecycle", PodLifecycle(cluster=CLUSTER, event=event.event, pod=event.pod))

    def _tell_workloads(self) -> None:
        for message in self.owners.changes():
            self._send("pod-lifecycle", message)

    def _sample(self, index: int) -> None:
        readings = self.scenario.readings
        at_ms, number = int(readings.at_ms[index]), int(readings.machine[index])
        machine = self.scenario.machines[number]
        reading = self._live() if self._live is not None and number == self.scenario.live else None
        if reading is not None:
            # Kept, so that the comparison afterwards has the same load.
            readings.millicores[index] = reading.base["cpu"]
            readings.memory_bytes[index] = reading.base["memory"]
        base = {
            "cpu": int(readings.millicores[index]),
            "memory": int(readings.memory_bytes[index]),
        }
        sample = self.kubelets.sample(CLUSTER, machine.name, base, at_ms)
        self._send("node-usage", sample if reading is None else reading.told_in(sample))
        self.samples += 1
        self.grid.add(
            at_ms,
            number,
            sample.usage["cpu"] / machine.millicores,
            sample.usage["memory"] / machine.memory_bytes,
        )

    def _request(self, plan: PodPlan, real_s: float) -> None:
        self._plans[plan.pod.uid] = plan
        self._send(
            "scheduling-requests",
            SchedulingRequest(cluster=CLUSTER, pod=plan.pod, requested_at_ms=plan.at_ms),
        )
        self.observed.asked(plan.pod.uid, real_s)

    # --- what is heard --------------------------------------------------------------------------

    def hear(self, message: Any, offset: int, real_s: float) -> None:
        """Take in one answer of the worker, and the offset that it has in its partition."""
        match message:
            case NodeMetric():
                self.observed.metric(message, offset)
            case PlacementDecision():
                self.observed.decision(message, real_s)
                self._decided(message)
            case DeadLetter():
                self.observed.dead_letter(message)
            case RebalanceRound():
                self.relief.round(message)
            case EvictionCommand():
                self._commanded(message, real_s)
            case MoveOutcome():
                # A pod may end by itself before its eviction; that is no move of ours.
                if message.dry_run or message.command_id in self._evicted_by:
                    self.relief.outcome(message)

    def _commanded(self, command: EvictionCommand, real_s: float) -> None:
        self.relief.command(command)
        evicted = len(self.evictor.evictions)
        replacement = self.evictor.hear(command, self.now_ms)
        if len(self.evictor.evictions) > evicted:
            self._evicted_by.add(command.command_id)
            self.relief.evicted(command, self.now_ms)
        self._tell_workloads()
        if replacement is not None:
            self.replaced[replacement.pod.uid] = command.node
            self._request(replacement, real_s)

    def _decided(self, decision: PlacementDecision) -> None:
        uid = decision.pod.uid
        if decision.outcome == "placed":
            self._waiting.discard(uid)
            self._bind(decision)
        elif decision.outcome in ("waiting", "expired"):
            self._waiting.add(uid)
        else:
            self._waiting.discard(uid)
            if (plan := self._plans.get(uid)) is not None:
                self.owners.gone(plan.pod)
                self._tell_workloads()

    def _bind(self, decision: PlacementDecision) -> None:
        plan = self._plans.get(decision.pod.uid)
        if plan is None or decision.node is None:
            self.refusals.append(Refusal(decision, "nobody has asked for a node for this pod"))
            return
        answer = self.kubelets.admit(plan, decision.node, self.now_ms)
        if isinstance(answer, str):
            self.refusals.append(Refusal(decision, answer))
            self._outcome(decision, "failed", answer)
            return
        self.placed_at_ms.append(self.now_ms)
        if (source := self.replaced.get(plan.pod.uid)) is not None:
            self.relief.arrived(plan.pod.name, source, decision.node, self.now_ms)
        else:
            self.placements.append(Placed(self.now_ms, plan, decision.node))
        self._outcome(decision, "done", "")
        self._lifecycle(answer)

    def _outcome(self, decision: PlacementDecision, result: Any, reason: str) -> None:
        pod = decision.pod
        self._send(
            "command-outcomes",
            CommandOutcome(
                command_id=decision.decision_id,
                cluster=CLUSTER,
                command="bind",
                pod=PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
                node=decision.node,
                result=result,
                reason=reason,
                happened_at_ms=self.now_ms,
            ),
        )

    def placements_per_bin(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Pods placed in each bin of the grid, and most pods that waited in it."""
        bins = len(self.grid.cpu)
        placed, waiting = np.zeros(bins), np.zeros(bins)
        for at_ms in self.placed_at_ms:
            placed[self.grid.bin_of(at_ms)] += 1
        for at_ms, count in self.waiting:
            index = self.grid.bin_of(at_ms)
            waiting[index] = max(waiting[index], count)
        return placed, waiting
