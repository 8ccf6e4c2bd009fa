"""A run of the demo: what is sent at each moment, and what the answers cause.

    advance(now)     clock, samples, lifecycles, requests; once, the policy of the second act
    receive(answer)  a placed pod is bound, an evicted one goes and its replacement asks for a node

Pods follow decisions and usage follows pods, so the loop is closed. The session knows the
scenario's time; it sends through a function and starts nothing itself.
"""

from collections import Counter
from typing import Any

import numpy as np

from connectors.ports.at_once import all_at_once
from schemas.messages.clock import ClockTick
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.metrics import NodeMetric
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.rounds import RebalanceRound
from schemas.messages.usage import NodeUsage
from simulation.cluster.baseline import Arrival
from simulation.cluster.cluster import Eviction, Observer, SimulatedCluster
from simulation.cluster.connected import ConnectedCluster, Send
from simulation.cluster.kubelet import PodEvent
from simulation.cluster.pods import PodPlan
from simulation.cluster.usage import SimulatedUsage
from simulation.demo.grid import UsageGrid
from simulation.demo.observed import Observed
from simulation.demo.relief import Relief, hot_above
from simulation.demo.scenario import CLUSTER, Scenario

#: Topics that the session reads.
READ_TOPICS = (
    "node-metrics", "placement-decisions", "dead-letters", "status", "eviction-commands",
)  # fmt: skip


class Session(Observer):
    """One run."""

    def __init__(
        self,
        scenario: Scenario,
        send: Send,
        partition: int,
    ) -> None:
        """Prepare a run.

        Args:
            scenario: what is run.
            send: sends a message to a topic.
            partition: the partition of the demo's cluster.
        """
        self.scenario = scenario
        self.observed = Observed(scenario.machines, scenario.policy)
        self.relief = Relief(hot_above(scenario.policy))
        self.cluster = SimulatedCluster(CLUSTER, scenario.machines, scenario.begin_ms)
        self.grid = UsageGrid(len(scenario.machines), scenario.begin_ms, scenario.end_ms)
        self.evictions: list[Eviction] = []
        self.eviction_results: Counter[str] = Counter()
        """Outcomes of eviction commands, by result."""
        self.repeated: list[EvictionCommand] = []
        """Commands that came twice, or for a pod evicted before: none, if none is duplicated."""
        self.placed_at_ms: list[int] = []
        self.placements: list[Arrival] = []
        """Where the scenario's pods were placed first; not the replacements of evicted ones."""
        self.replaced: dict[str, str] = {}
        """Replacements of evicted pods, by uid, and the node that the evicted one left."""
        self.enforced_ms: int | None = None
        """When the second act began."""
        self.waiting: list[tuple[int, int]] = []
        """Time, and how many pods wait for a node then."""
        self.samples = 0
        self.arrived = 0
        """How many of the scenario's pods have asked for a node."""
        self.failures: list[CommandOutcome] = []
        """Placements that were not carried out: none, if the worker counts reservations right."""
        self._plans: dict[str, PodPlan] = {}
        """Pods that have asked, by uid."""
        self._waiting: set[str] = set()
        self._evicted: set[str] = set()
        """Evicted pods, by uid."""
        self._bins_over = 0
        """Bins of the grid that all samples are in."""
        self._send = send
        self._partition = partition
        self._connected = ConnectedCluster(self.cluster, send)
        self._usage = SimulatedUsage(self.cluster, scenario.readings)
        self._index = {machine.name: i for i, machine in enumerate(scenario.machines)}
        self.cluster.observers.append(self)

    @property
    def now_ms(self) -> int:
        """The scenario's time."""
        return self.cluster.now_ms

    # --- what is sent ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Send what there is: the policy, the time, all nodes, and the pods that run on them."""
        self._connected.apply_policy(self.scenario.policy_text, "the demo's policy")
        self._tick()
        self._connected.begin("demo-begins")

    def advance(self, now_ms: int) -> None:
        """Send everything that is due from the last time to this one."""
        self.cluster.advance(now_ms)
        # The clock goes first: a sample must never look as if it came from the future.
        self._tick()
        if self.enforced_ms is None and now_ms >= self.scenario.enforce_ms:
            self.enforced_ms = now_ms
            text, comment = self.scenario.enforcing_text, "evictions are carried out from now on"
            self._connected.apply_policy(text, comment)
        for sample in all_at_once(self._usage.read()):
            self._sample(sample)
        self._end_bins()
        plans = self.scenario.plans
        while self.arrived < len(plans) and plans[self.arrived].at_ms <= now_ms:
            self.cluster.ask(plans[self.arrived])
            self.arrived += 1
        self._connected.publish()
        self.waiting.append((now_ms, len(self._waiting)))

    @property
    def requests(self) -> int:
        """How many pods have asked for a node, replacements of evicted ones included."""
        return self.arrived + len(self.replaced)

    @property
    def over(self) -> bool:
        """The scenario has come to its end."""
        return self.now_ms >= self.scenario.end_ms

    def _tick(self) -> None:
        self._connected.rules.clock(self.now_ms)
        self._send("clock", ClockTick(partition=self._partition, now_ms=self.now_ms))

    def _sample(self, sample: NodeUsage) -> None:
        self._send(self._usage.topic, sample)
        self.samples += 1
        index = self._index[sample.node]
        self.grid.add(sample.sampled_at_ms, index, self.scenario.machines[index], sample.usage)

    def _end_bins(self) -> None:
        """Say what nodes used in the bins that are over."""
        grid = self.grid
        over = len(grid.counts) if self.over else grid.bin_of(self.now_ms)
        for number in range(self._bins_over, over):
            begin_ms, end_ms = (
                int(grid.begin_ms + each * grid.bin_ms) for each in (number, number + 1)
            )
            for index, share in enumerate(grid.cpu_in(number)):
                name = self.scenario.machines[index].name
                self.relief.used(name, float(share), begin_ms, end_ms)
        self._bins_over = over

    # --- what happens in the cluster ------------------------------------------------------------

    def asked(self, plan: PodPlan, *, withdrawn: bool = False) -> None:
        """A pod asks for a node."""
        self._plans[plan.pod.uid] = plan
        self.observed.asked(plan.pod.uid)

    def happened(self, event: PodEvent) -> None:
        """Something happened to a pod on its node."""
        if event.event != "bound" or event.pod.node is None:
            return
        self.placed_at_ms.append(event.at_ms)
        plan, node = self._plans[event.pod.uid], event.pod.node
        if (source := self.replaced.get(event.pod.uid)) is not None:
            self.relief.arrived(plan.pod.name, source, node, event.at_ms)
        else:
            self.placements.append(Arrival(event.at_ms, plan, node))

    def evicted(self, eviction: Eviction) -> None:
        """A pod begins to terminate."""
        self.evictions.append(eviction)
        self.relief.evicted(eviction)
        if eviction.replacement is not None:
            self.replaced[eviction.replacement.pod.uid] = eviction.node

    # --- what is read ---------------------------------------------------------------------------

    def receive(self, message: Any) -> None:
        """Take in one answer of the stages."""
        match message:
            case NodeMetric():
                self.observed.metric(message)
            case PlacementDecision():
                self.observed.decision(message)
                self._decided(message)
            case DeadLetter():
                self.observed.dead_letter(message)
            case RebalanceRound():
                self.relief.round(message)
            case EvictionCommand():
                self._commanded(message)

    def _commanded(self, command: EvictionCommand) -> None:
        self.relief.command(command)
        uid = command.pod.uid
        before = uid in self._evicted and not command.dry_run
        outcome = self._connected.carry_out(command)
        if outcome is None or before:
            self.repeated.append(command)
        if outcome is not None:
            self.eviction_results[outcome.result] += 1
            if outcome.result == "done":
                self._evicted.add(uid)

    def _decided(self, decision: PlacementDecision) -> None:
        if decision.waits:
            self._waiting.add(decision.pod.uid)
        else:
            self._waiting.discard(decision.pod.uid)
        outcome = self._connected.carry_out(decision)
        if outcome is not None and outcome.result != "done":
            self.failures.append(outcome)

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
