"""One run of a trace: the cluster lives, things go wrong, and after each step all must hold.

When the time of the trace is over nothing fails any more and no further pods come; when it has been
quiet for longer than a migration may take, the cluster stands still for a moment: then everything
that should have been done must have been done. The same trace is the same run.
"""

import logging
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

from schemas.messages.policies import PolicyRecord
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.scenario import CLUSTER, Scenario, draw_scenario
from simulation.closed_loop.traces import model_traces
from simulation.closed_loop.usage import work_of
from simulation.closed_loop.world import World
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan
from tests.faults.invariants import Invariants
from tests.faults.log import Log
from tests.faults.observers import Agents, Watch
from tests.faults.policies import DOCUMENTS, QUIET
from tests.faults.schedule import Schedule
from tests.faults.sinks import Sinks
from tests.faults.trace import PARTITIONS, STEP_S, Trace
from tests.faults.workers import AggregateWorker, ClusterWorker
from tests.fuzz.failure import Failure, raised

#: No further pods come, and nothing fails: longer than a migration and its command live.
QUIET_S = 420
#: Nothing changes at all: longer than the longest back-off.
STILL_S = 60
_PRIORITIES = (9500, 9500, 0, 5500)
#: Share of the steps at which state is compared with the fold of the journal.
_FOLDS = 0.04

_model = cache(model_traces)


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run."""

    trace: Trace
    failure: Failure | None = None
    second: int = 0
    """When it failed."""
    counts: dict[str, int] = field(default_factory=dict)
    """How often each outcome was reached, and records that the stages have applied."""


def live(trace: Trace) -> Report:
    """Run a trace to its end, or to the first thing that does not hold."""
    life = Life(trace)
    failure: Failure | None = None
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # stages log defects, which are reported here
    try:
        life.run()
    except Failure as found:
        failure = found
    except Exception as error:
        failure = raised(error, "a run")
    finally:
        logging.disable(disabled)
    return Report(trace, failure, life.schedule.second, life.counts())


def scenario(trace: Trace) -> Scenario:
    """The scenario of a trace: pods come often and live for a short time."""
    parameters = Parameters(
        nodes=trace.nodes,
        hours=trace.length_s / 3600,
        filling_hours=0.25,
        load=trace.load,
        fill_share=trace.fill,
        life_median_hours=0.2,
        owners_per_node=1.5,
        step_s=STEP_S,
    )
    drawn = draw_scenario(parameters, trace.seed, _model())
    return replace(drawn, plans=tuple(map(_varied, drawn.plans)))


def _varied(plan: PodPlan) -> PodPlan:
    """Some pods run to their end, and some come before others."""
    number = work_of(plan.pod.uid)
    pod = plan.pod.model_copy(update={"priority": _PRIORITIES[number % len(_PRIORITIES)]})
    return replace(plan, pod=pod, job=number % 3 == 0)


class Life:
    """Everything of one run."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.log = Log()
        self.schedule = Schedule(trace)
        self.world = World(scenario(trace))
        self.watch = Watch(self.world, self.log, self.schedule)
        self.agents = Agents(self.world, self.log, self.schedule)
        self.sinks = Sinks(self.world, self.log, self.schedule)
        parts = (trace.seed, self.log, self.schedule)
        self.deciders = [ClusterWorker(*parts, partition) for partition in range(PARTITIONS)]
        self.aggregates = [AggregateWorker(*parts, partition) for partition in range(PARTITIONS)]
        self.invariants = Invariants(
            self.world, self.log, self.sinks.sink, self.deciders, self.aggregates
        )
        self._random = Random(f"{trace.seed} folds")
        self._dead: dict[str, Machine] = {}
        self._document = DOCUMENTS[trace.policy]
        self._asked = 0

    def run(self) -> None:
        """Live through it all; raises Failure."""
        trace = self.trace
        self._apply_policy(paused=False)
        self.watch.list_all(self.schedule.now_ms)
        for second in range(0, trace.length_s, STEP_S):
            self._step(second)
        if not trace.quiet:
            return
        self.schedule.advance(trace.length_s)
        self._put_in_order()
        still_s = trace.length_s + QUIET_S
        for second in range(trace.length_s, still_s + STILL_S, STEP_S):
            self._step(second, still=second >= still_s)
        self.invariants.fold(rest=False)
        self.invariants.end()

    def _step(self, second: int, *, still: bool = False) -> None:
        self.schedule.advance(second)
        now_ms = self.schedule.now_ms
        if not still:
            self._live(now_ms)
        self.watch.step(now_ms)
        if not still:
            self.agents.step(now_ms)
        for worker in (*self.aggregates, *self.deciders):
            worker.step(now_ms)
        self.sinks.step(now_ms)
        self.invariants.step()
        if self._random.random() < _FOLDS:
            self.invariants.fold(rest=self._random.random() < 0.5)

    # --- what happens ---------------------------------------------------------------------------

    def _live(self, now_ms: int) -> None:
        cluster, schedule = self.world.cluster, self.schedule
        cluster.advance(now_ms)
        plans = self.world.scenario.plans[: self.trace.pods]
        while (
            schedule.second < self.trace.length_s
            and self._asked < len(plans)
            and plans[self._asked].at_ms <= now_ms
        ):
            cluster.ask(plans[self._asked])
            self._asked += 1
        for fault in schedule.begins("node dies"):
            if len(cluster.machines) > 2:
                machine = cluster.machines[fault.which % len(cluster.machines)]
                self._dead[machine.name] = machine
                cluster.remove_machine(machine.name)
        if any(schedule.ends("node dies")):
            self._revive()
        for fault in schedule.begins("node is cordoned"):
            machine = cluster.machines[fault.which % len(cluster.machines)]
            cluster.cordon(machine.name, cordoned=True)
        if any(schedule.ends("node is cordoned")):
            self._uncordon()
        for fault in schedule.begins("pod is withdrawn"):
            if cluster.asking:
                uids = list(cluster.asking)
                cluster.give_up(uids[fault.which % len(uids)], withdrawn=True)
        self._change_policy()

    def _change_policy(self) -> None:
        schedule = self.schedule
        for fault in schedule.begins("policy changes"):
            self._document = DOCUMENTS[fault.name]
            self._apply_policy(paused=any(schedule.active("cluster is paused")))
        if any(schedule.begins("cluster is paused")) or any(schedule.ends("cluster is paused")):
            self._apply_policy(paused=any(schedule.active("cluster is paused")))

    def _apply_policy(self, *, paused: bool) -> None:
        now_ms = self.schedule.now_ms
        record = PolicyRecord(
            cluster=CLUSTER, document=self._document, applied_at_ms=now_ms, paused=paused
        )
        self.log.say("policies", record, now_ms)

    def _revive(self) -> None:
        for machine in self._dead.values():
            self.world.cluster.add_machine(machine)
        self._dead.clear()

    def _uncordon(self) -> None:
        for name in sorted(self.world.cluster.cordoned):
            self.world.cluster.cordon(name, cordoned=False)

    def _put_in_order(self) -> None:
        """Nothing fails any more, and the watch lists everything once more."""
        self._revive()
        self._uncordon()
        self._document = QUIET
        self._apply_policy(paused=False)
        self.watch.list_all(self.schedule.now_ms)

    # --- what came of it ------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """How deep the run went."""
        workers = (*self.aggregates, *self.deciders)
        return {
            "records": sum(worker.applied for worker in workers),
            "restarts": sum(worker.restarts for worker in workers),
            **self.invariants.watching.counts,
        }
