"""A simulation without end: everything that connects one cluster, at the pace of a real clock.

    begin(now)       policy, all nodes, the pods that run on them
    advance(now)     samples, lifecycles, requests, withdrawals
    receive(answer)  a placed pod is bound, an evicted one goes and its replacement asks for a node

The load is the seeded model, drawn anew for each span of a few hours, so it jumps a little in
between. Nothing is kept of pods that are gone. A simulation that is started again lists all its
nodes and pods anew; those of the one before are thereby removed.
"""

from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.ports.at_once import all_at_once
from connectors.ports.command_rules import Command
from schemas.messages.clock import ClockTick
from schemas.messages.outcomes import CommandOutcome
from simulation.cluster.cluster import Observer, SimulatedCluster
from simulation.cluster.connected import ConnectedCluster, Send
from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.load import LoadModel
from simulation.cluster.machines import BASE_SHARE, cores_of_pods, make_machines
from simulation.cluster.pods import PodPlan
from simulation.cluster.readings import model_readings
from simulation.cluster.usage import SimulatedUsage
from simulation.cluster.workload import make_pods

#: Load and pods are drawn for this time at once.
SPAN_MS = 6 * 3_600_000
#: Samples that are older when they are due, because the process was asleep, are left out.
BACKLOG_MAX_MS = 5 * 60_000
#: A pod that has no node after this time is given up.
PATIENCE_MS = 30 * 60_000


@dataclass(slots=True)
class Totals:
    """What was done so far."""

    samples: int = 0
    requests: int = 0
    bound: int = 0
    failed: int = 0
    """Placements that were not carried out: none, if the worker counts reservations correctly."""
    withdrawn: int = 0
    evicted: int = 0
    dry: int = 0
    """Evictions that were dry runs."""

    def outcome(self, outcome: CommandOutcome) -> None:
        """A command was carried out, or not."""
        if outcome.command == "bind":
            self.bound += outcome.result == "done"
            self.failed += outcome.result != "done"
        else:
            self.evicted += outcome.result == "done"
            self.dry += outcome.result == "dry"


class ContinuousSimulation(Observer):
    """A cluster and its producers; time only goes forward."""

    def __init__(
        self,
        name: str,
        nodes: int,
        seed: int,
        churn: float,
        period_s: float,
        send: Send,
        partition: int = 0,
    ) -> None:
        """Pods come and go `churn` times as fast as in the traces; a sample every `period_s`.

        `partition` is the one that the cluster's name hashes to: its clock is the log's.
        """
        self.name = name
        self.totals = Totals()
        self._nodes, self._seed, self._churn, self._period_s = nodes, seed, churn, period_s
        self._send = send
        self._partition = partition
        self._plans: deque[PodPlan] = deque()
        """Pods of this span that have not asked yet."""
        self._patience: deque[tuple[int, str]] = deque()
        """When each pod that has asked is given up."""

    @property
    def waiting(self) -> int:
        """Pods that have asked for a node and have none."""
        return len(self._cluster.asking)

    def begin(self, now_ms: int, *, with_policy: bool = True) -> None:
        """Send what there is; a policy only where the cluster has none yet."""
        self._begin_ms = now_ms
        machines = make_machines(self._nodes, self._seed, ALIBABA_2018, now_ms)
        self._cluster = SimulatedCluster(self.name, machines, now_ms)
        self._connected = ConnectedCluster(self._cluster, self._send)
        self._cluster.observers.append(self)
        self._draw(0)
        if with_policy:
            policy = (Path(__file__).parent / "policy.yaml").read_text(encoding="utf-8")
            self._connected.apply_policy(policy, "the simulated cluster's policy")
        self._connected.begin(f"begun-{now_ms}")

    def advance(self, now_ms: int) -> None:
        """Send everything that is due until now."""
        self._cluster.advance(now_ms)
        while (now_ms - self._begin_ms) // SPAN_MS > self._span:
            self._send_due()
            self._draw(self._span + 1)
        self._send_due()
        while self._patience and self._patience[0][0] <= now_ms:
            self._cluster.give_up(self._patience.popleft()[1], withdrawn=True)
        self._connected.publish()

    def receive(self, message: Command | ClockTick, now_ms: int) -> None:
        """Take in what a worker has written; what is about other clusters means nothing here."""
        if isinstance(message, ClockTick):
            if message.partition == self._partition:
                self._connected.rules.clock(message.now_ms)
            return
        self._cluster.advance(now_ms)
        outcome = self._connected.carry_out(message)
        if outcome is not None:
            self.totals.outcome(outcome)

    def asked(self, plan: PodPlan, *, withdrawn: bool = False) -> None:
        """A pod asks for a node, with patience, or asks no more."""
        self.totals.withdrawn += withdrawn
        self.totals.requests += not withdrawn
        if not withdrawn:
            self._patience.append((plan.at_ms + PATIENCE_MS, plan.pod.uid))

    def _draw(self, span: int) -> None:
        """Draw load and pods of a span."""
        begin_ms = self._begin_ms + span * SPAN_MS
        self._span = span
        machines = self._cluster.machines
        # Another seed for each span: the model begins anew with the same numbers otherwise.
        model = LoadModel(ALIBABA_2018, self._seed + 1_000_003 * span, self._period_s)
        readings = model_readings(model, machines, begin_ms, begin_ms + SPAN_MS, BASE_SHARE)
        self._usage = SimulatedUsage(self._cluster, readings, backlog_max_ms=BACKLOG_MAX_MS)
        drawn = make_pods(
            self._seed + span,
            begin_ms,
            begin_ms + round(SPAN_MS * self._churn),
            cores_of_pods(machines, ALIBABA_2018),
        )
        self._plans = deque(self._hurried(plan, begin_ms) for plan in drawn)

    def _hurried(self, plan: PodPlan, begin_ms: int) -> PodPlan:
        """The pod `churn` times as fast, under a name of its own in this simulation and span."""
        at_ms = begin_ms + round((plan.at_ms - begin_ms) / self._churn)
        name = f"{plan.pod.name}-{begin_ms // 1000:x}"
        pod = plan.pod.model_copy(
            update={"name": name, "uid": f"{self.name}-{name}", "created_at_ms": at_ms}
        )
        return replace(plan, pod=pod, at_ms=at_ms, life_ms=round(plan.life_ms / self._churn))

    def _send_due(self) -> None:
        """Send samples of this span that are due, and let its pods ask."""
        for sample in all_at_once(self._usage.read()):
            self._send(self._usage.topic, sample)
            self.totals.samples += 1
        while self._plans and self._plans[0].at_ms <= self._cluster.now_ms:
            self._cluster.ask(self._plans.popleft())
