"""The whole path from one seed: clusters that live, records that get lost, workers that crash.

After each second everything that must hold is checked; in the end faults stop, and what should have been
done must have been done. The same seed is the same run.
"""

import random

from schemas.policies import PolicyRecord
from streams.cluster.stage import ClusterStage
from tests.simulation.log import PARTITIONS, Log
from tests.simulation.outside import Agents, Binder, Watcher
from tests.simulation.workers import AggregateWorker, ClusterWorker
from tests.streams.cluster.builders import START_MS
from tests.streams.cluster.oracle import verdict
from tests.streams.cluster.run import Run

POLICY = """
reservationSeconds: 60
maxBackoffSeconds: 16
loadAware:
  nodeMetricExpirationSeconds: 60
  usageThresholds: {cpu: 70, memory: 90}
  aggregated: {usageThresholds: {cpu: 75}, usageAggregationType: p95}
"""
#: Faults and new pods; then only pods that end; then nothing but time, longer than the longest back-off.
FAULTY_S, QUIET_S, STILL_S = 180, 60, 20
_CLUSTERS = ("east", "north", "west")


class Violation(AssertionError):
    """Something that must hold does not."""


class Simulation:
    """One run."""

    def __init__(self, seed: int, faulty_s: int = FAULTY_S) -> None:
        self.seed = seed
        self.faulty_s, self.still_s = faulty_s, faulty_s + QUIET_S
        self.random = random.Random(seed)
        self.log = Log()
        self.watchers = [Watcher(self.random, self.log, name) for name in _CLUSTERS]
        self.clusters = {each.cluster.name: each.cluster for each in self.watchers}
        self.agents = Agents(self.random, self.log)
        self.binder = Binder(self.random, self.log, self.clusters.__getitem__)
        partitions = range(PARTITIONS)
        self.aggregates = [AggregateWorker(self.random, self.log, each) for each in partitions]
        self.deciders = [ClusterWorker(self.random, self.log, each) for each in partitions]
        self.second = 0

    @property
    def now_ms(self) -> int:
        return START_MS + self.second * 1000

    def run(self) -> None:
        """Live through it all; raises Violation with the command that does it again."""
        try:
            self._begin()
            for second in range(1, self.still_s + STILL_S):
                self.second = second
                if self.second == self.faulty_s:
                    self._quieten()
                self._step()
                self._check_room()
            self._check_ends()
            self._check_replay()
        except AssertionError as error:
            raise Violation(
                f"second {self.second}: {error}\nagain: python -m tests.simulation.run {self.seed}"
            ) from error

    # --- what happens ---------------------------------------------------------------------------

    def _begin(self) -> None:
        for watcher in self.watchers:
            watcher.advance(self.now_ms)
            name = watcher.cluster.name
            by = PolicyRecord(cluster=name, document=POLICY, applied_at_ms=self.now_ms)
            self.log.say("policies", by, self.now_ms)
            for _ in range(6):
                watcher.cluster.add_machine()

    def _step(self) -> None:
        for watcher in self.watchers:
            watcher.advance(self.now_ms)
            if self.second < self.still_s:
                self._live(watcher)
        if self.second < self.still_s:
            self.agents.measure(list(self.clusters.values()), self.now_ms)
        for worker in (*self.aggregates, *self.deciders):
            worker.work(self.now_ms)
        self.binder.work(self.now_ms)

    def _live(self, watcher: Watcher) -> None:
        cluster = watcher.cluster
        for pod in list(cluster.pods.values()):
            if pod.phase == "Succeeded" and self.random.random() < 0.3:
                cluster.delete(pod)
            elif pod.phase == "Running" and self.now_ms >= pod.ends_ms:
                cluster.finish(pod)
            elif pod.node is None and self.now_ms >= pod.ends_ms + 60_000:
                cluster.delete(pod)
        if self.second >= self.faulty_s:
            return
        for _ in range(self.random.choice((0, 0, 1, 3))):
            watcher.create_pod()
        chance, some = self.random.random(), self.random.choice(sorted(cluster.machines))
        if chance < 0.01 and len(cluster.machines) > 4:
            cluster.remove_machine(some)
        elif chance < 0.02:
            cluster.add_machine()
        elif chance < 0.05:
            cluster.cordon(some, cordoned=not cluster.machines[some].cordoned)

    def _quieten(self) -> None:
        """No more faults; watchers list everything once more."""
        self.agents.faulty = self.binder.faulty = False
        for worker in (*self.aggregates, *self.deciders):
            worker.faulty = False
        for watcher in self.watchers:
            watcher.faulty = False
            watcher.list_all()

    # --- what must hold -------------------------------------------------------------------------

    def _check_room(self) -> None:
        """No node has more on it than it can take, neither really nor by what the worker knows."""
        for cluster in self.clusters.values():
            for machine in cluster.machines.values():
                pods = cluster.running_on(machine.name)
                assert sum(pod.millicores for pod in pods) <= machine.millicores, machine.name
                assert sum(pod.mebibytes for pod in pods) <= machine.mebibytes, machine.name
                assert len(pods) <= 12, machine.name
        for worker in self.deciders:
            for state in worker.stage.clusters.values():
                for node in state.inventory.nodes.values():
                    for resource, amount in node.requested.items():
                        assert node.state is None or amount <= node.allocatable[resource], node.name

    def _check_ends(self) -> None:
        """Everything has been reported, every pod that some node would take has a node."""
        for worker in self.deciders:
            for state in worker.stage.clusters.values():
                cluster = self.clusters[state.cluster]
                bound = {
                    pod.uid: name for name in cluster.machines for pod in cluster.running_on(name)
                }
                assert state.inventory.where == bound
                waiting = {each.request.pod.uid: each for each in state.placement.pending}
                assert set(waiting) == {pod.uid for pod in cluster.pending()}
                for uid, each in waiting.items():
                    best = verdict(state.policy, state.inventory, each.kind).best
                    assert best is None, f"{uid} waits, and node {best} would take it"
        assert sum(worker.dead_letters for worker in self.deciders) == 0

    def _check_replay(self) -> None:
        """The recorded inputs, folded again in one batch, say the same; as do the last rows."""
        for worker in self.deciders:
            again = Run(worker.partition, PARTITIONS)
            again.keep(ClusterStage.apply(again.stage, worker.history))
            assert again.outputs == worker.outputs
            assert again.rows == worker.rows
        for fold in self.aggregates:
            fresh = AggregateWorker(self.random, self.log, fold.partition)
            result = fresh.stage.apply(fold.history)
            assert [output.value for output in result.outputs] == fold.outputs

    # --- what it came to ------------------------------------------------------------------------

    def summary(self) -> str:
        """Figures of the run in a line."""
        decided = len(self.binder.bytes_of)
        letters = sum(worker.dead_letters for worker in self.aggregates)
        read = sum(len(worker.history) for worker in (*self.aggregates, *self.deciders))
        pods = sum(cluster.born for cluster in self.clusters.values())
        return f"seed {self.seed}: {read} records, {decided} decisions, {pods} nodes and pods, {letters} dead letters"
