"""Runs a history: applies its events one after the other, and checks all invariants after each.

    event ──▶ worlds ──▶ log ──▶ aggregate worker ──▶ log ──▶ cluster worker ──▶ log ──▶ binder, evictor
                                      │                            │
                                      └── reference stages, model and invariants follow

A history that is not hostile ends quietly: faults end, the watch lists everything, and time passes
until everything that should have been done must have been done.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.messages.migrations import MigrationStatus
from schemas.messages.rounds import RebalanceRound
from streams.stage.records import InputRecord
from tests.histories import (
    decision_invariants,
    hostile_events,
    stage_invariants,
    valid_events,
)
from tests.histories.failure import Failure, describe_exception, require
from tests.histories.history import Event, History
from tests.histories.log import Log
from tests.histories.model import Model
from tests.histories.outside import FAULTS, Agents, BinderAndEvictor, Faults, Watch
from tests.histories.policies import QUIET_POLICY
from tests.histories.references import AggregateReference, Applied, ClusterReference
from tests.histories.workers import AggregateWorker, ClusterWorker
from tests.histories.world import START_MS, World, draw_cluster_name

_EVENTS = valid_events.EVENTS | hostile_events.EVENTS
#: Seconds by which time advances.
_STEPS_S = (*(1, 2, 5, 5, 10, 10) * 15, 31, 301)
_JUMPS_S = (3_600, 86_400, 7 * 86_400)
#: Steps of ten seconds at the end: longer than a migration and its command live, and then longer
#: than the longest back-off, while nothing changes.
_QUIET_STEPS, _STILL_STEPS = 42, 6


@dataclass(slots=True)
class Report:
    """What came of a history."""

    history: History
    failure: Failure | None = None
    event: int = 0
    """How many events were applied."""
    counts: Counter[str] = field(default_factory=Counter)
    """How often each outcome was reached, which shows how deep histories go."""
    records: list[InputRecord] = field(default_factory=list)
    """All records that the stages applied, in their order."""


def run(history: History) -> Report:
    """Run a history to its end, or to the first invariant that does not hold."""
    report = Report(history)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the stages log defects, which the invariants report
    try:
        _Run(history, report).run()
    except Failure as failure:
        report.failure = failure
    except Exception as error:
        report.failure = describe_exception(error, "the run")
    finally:
        logging.disable(disabled)
    return report


class _Surroundings:
    """One cluster and what connects it with the log."""

    def __init__(self, world: World, log: Log, faults: Faults, random: Random) -> None:
        self.world = world
        self.watch = Watch(world, log, faults)
        self.agents = Agents(world, log, faults)
        self.binder = BinderAndEvictor(world, log, faults, random)


class _Run:
    def __init__(self, history: History, report: Report) -> None:
        self.history, self.report = history, report
        self.log, self.faults, self.model = Log(), Faults(), Model()
        self.faults.now_ms = START_MS
        random = history.get_random("clusters")
        names = {draw_cluster_name(random) for _ in range(random.choice((1, 1, 2)))}
        self.surroundings = [
            _Surroundings(World(name), self.log, self.faults, random) for name in sorted(names)
        ]
        self.aggregate = AggregateWorker(history.seed, self.log, self.faults)
        self.cluster = ClusterWorker(history.seed, self.log, self.faults)
        self.aggregate_reference = AggregateReference(self.aggregate, self._check_aggregate)
        self.cluster_reference = ClusterReference(self.cluster, self.log, self._check_cluster)

    def run(self) -> None:
        for event in self.history.events:
            self.report.event += 1
            random = self.history.get_random(event.number)
            surroundings = random.choice(self.surroundings)
            self._apply(event, surroundings, random)
            self._work(reads=event.kind == "time passes" or random.random() < 0.7)
        if not self.history.is_hostile:
            self._end_quietly()
        self._compare()
        self.cluster_reference.replay()
        self.report.counts["restarts"] = self.cluster.restarts + self.aggregate.restarts

    # --- events -----------------------------------------------------------------------------------

    def _apply(self, event: Event, surroundings: _Surroundings, random: Random) -> None:
        kind = event.kind
        if kind in _EVENTS:
            _, apply = _EVENTS[kind]
            apply(surroundings.world, self.log, random)
        elif kind in FAULTS and FAULTS[kind].seconds_max:
            self.faults.begin(kind, random)
        else:
            match kind:
                case "time passes":
                    seconds = random.choice(_STEPS_S)
                    if random.random() < 0.003:
                        seconds = random.choice(_JUMPS_S)
                    self._advance(seconds, random)
                case "rows are compared":
                    self._compare()
                case "the journal is replayed":
                    self.cluster_reference.replay()
                case "the watch sends full lists":
                    surroundings.watch.send_lists()
                case "the cluster worker stops":
                    self.cluster.plan_stop(random)
                case "the cluster worker fails over":
                    self.cluster.fails_over = True
                case "the aggregate worker stops":
                    self.aggregate.plan_stop(random)
                case "the sink restarts":
                    surroundings.binder.restart()

    def _advance(self, seconds: int, random: Random, *, measures: bool = True) -> None:
        self.faults.now_ms += 1_000 * seconds
        for surroundings in self.surroundings:
            surroundings.world.now_ms = self.faults.now_ms
            if measures:
                surroundings.agents.measure(random)
        self.cluster.tick(self.faults.now_ms)

    def _work(self, *, reads: bool = True) -> None:
        """Let all parts work, and check the results."""
        for surroundings in self.surroundings:
            surroundings.watch.deliver()
        if reads:
            self.aggregate.work()
            self.cluster.work()
            for surroundings in self.surroundings:
                surroundings.binder.carry_out_commands()
        self._follow()

    def _end_quietly(self) -> None:
        random = self.history.get_random("end")
        self.faults.end_all()
        self.aggregate.end_outage()
        self.cluster.end_outage()
        for surroundings in self.surroundings:
            valid_events.write_policy(surroundings.world, self.log, QUIET_POLICY)
        # A request that is read after the end of its pod waits until the next full list.
        self._advance(10, random)
        self._work()
        for surroundings in self.surroundings:
            surroundings.watch.send_lists()
        for step in range(_QUIET_STEPS + _STILL_STEPS):
            self._advance(10, random, measures=step < _QUIET_STEPS)
            self._work()
        for surroundings in self.surroundings:
            state = self.cluster.stage.clusters[surroundings.world.cluster]
            for check in stage_invariants.END:
                check(state, self.model.get(surroundings.world.cluster), surroundings.world)

    # --- invariants -------------------------------------------------------------------------------

    def _follow(self) -> None:
        self.aggregate_reference.follow()
        self.cluster_reference.follow()
        for surroundings in self.surroundings:
            surroundings.binder.check_effects()
        for name, state in self.cluster.stage.clusters.items():
            for check in stage_invariants.EVERY_EVENT:
                check(state)
            stage_invariants.check_known_pods(state, self.model.get(name))
            stage_invariants.check_requests(state, self.model.get(name))

    def _compare(self) -> None:
        self._follow()
        self.aggregate_reference.compare_state()
        self.cluster_reference.compare_state()
        restored = self.cluster.restore()
        require(
            self.cluster.stage.clusters.keys() == restored.clusters.keys(),
            "a restored stage has other clusters",
        )
        for name, state in self.cluster.stage.clusters.items():
            stage_invariants.check_restored(state, restored.clusters[name])

    def _check_aggregate(self, applied: Applied) -> None:
        self._check_record(applied)
        for check in stage_invariants.AGGREGATE:
            check(self.aggregate_reference.stage, applied)

    def _check_cluster(self, applied: Applied) -> None:
        self._check_record(applied)
        stage_invariants.check_cluster_outcome(applied)
        stage_invariants.check_as_of(applied)
        self.model.apply_input(applied.record.topic, applied.message)
        stage_invariants.check_clock(self.cluster_reference.stage, self.model.now_ms)
        for message in applied.outputs:
            self._check_decision(message)
            self.model.apply_output(message)

    def _check_record(self, applied: Applied) -> None:
        self.report.records.append(applied.record)
        self._count(applied)
        for check in stage_invariants.ALL:
            check(applied)
        if not self.history.is_hostile:
            stage_invariants.check_valid(applied)

    def _check_decision(self, message: Any) -> None:
        checks: Sequence[Any] = ()
        match message:
            case PlacementDecision():
                decision_invariants.check_unique_id(self.model, message)
                checks = decision_invariants.DECISION
                if message.outcome == "placed":
                    checks = decision_invariants.PLACEMENT
            case EvictionCommand():
                decision_invariants.check_unique_id(self.model, message)
                checks = decision_invariants.EVICTION
            case MigrationStatus():
                checks = decision_invariants.MIGRATION
            case RebalanceRound():
                checks = decision_invariants.ROUND
        # A cluster of which nothing is known any more is forgotten at the tick of its last round.
        state = self.cluster_reference.stage.clusters.get(message.cluster) if checks else None
        if state is not None:
            for check in checks:
                check(self.model.get(message.cluster), state, message)

    def _count(self, applied: Applied) -> None:
        counts, reached = applied.counts, self.report.counts
        reached["records"] += 1
        for word, number in counts.results.items():
            reached[f"record {word}"] += number
        for refused, number in counts.refused.items():
            reached[f"refused {' '.join(refused)}"] += number
        for (outcome, _), number in counts.decided.items():
            reached[f"decision {outcome}"] += number
        for (_, *words), number in (counts.commands + counts.migrations + counts.moves).items():
            reached[f"migration {' '.join(words)}"] += number
        for word, number in counts.rounds.items():
            reached[f"round {word}"] += number
