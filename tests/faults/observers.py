"""What reports the cluster: the watch of its state, and the agents of its nodes, with their faults.

A watch that is blind misses everything until it lists again, pods that wait included; after that it
asks again for what waits. One that is late reports everything, later and in its order.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import orjson

from connectors.ports.at_once import all_at_once
from schemas.messages.lists import ListEnd
from schemas.messages.pods import PodLifecycle
from schemas.messages.requests import SchedulingRequest
from simulation.closed_loop.samples import Samples
from simulation.closed_loop.scenario import CLUSTER
from simulation.closed_loop.world import World
from simulation.cluster.state_watch import SimulatedStateWatch
from streams.in_process.pipeline import Written
from tests.faults.log import Log
from tests.faults.schedule import Schedule
from tests.faults.trace import STEP_S, Fault

#: A sample that is late comes after at most so many steps.
_LATE_STEPS_MAX = 12


class Watch:
    """Writes what happens in the cluster to the log."""

    def __init__(self, world: World, log: Log, schedule: Schedule) -> None:
        self._cluster, self._log, self._schedule = world.cluster, log, schedule
        self._watch = SimulatedStateWatch(world.cluster)
        self._held: list[tuple[str, Any]] = []
        self._blind = False
        self._ask_again = False
        self._lists = 0

    def step(self, now_ms: int) -> None:
        """Report what is new."""
        schedule = self._schedule
        news = all_at_once(self._watch.changes())
        if any(schedule.active("watch is blind")):
            self._blind, self._held = True, []
            return
        if self._ask_again:
            self._ask(now_ms)
        if self._blind or any(schedule.begins("watch lists again")):
            # What was held back until now is older than the list.
            self._held = []
            self.list_all(now_ms)
            return
        self._held += news
        if not any(schedule.active("watch is late")):
            held, self._held = self._held, []
            for topic, message in held:
                self._write(topic, message, now_ms)

    def list_all(self, now_ms: int) -> None:
        """Send full lists of nodes and pods; the next step asks again for what waits.

        A pod that is newer than a list is not in it, so nothing is asked for before it is read.
        """
        self._blind, self._ask_again = False, True
        all_at_once(self._watch.changes())
        self._lists += 1
        list_id = f"list-{self._lists}"
        for topic, message in all_at_once(self._watch.full_list(list_id)):
            if isinstance(message, ListEnd) and topic == "pod-lifecycle":
                for waiting in self._waiting(list_id):
                    self._write(topic, waiting, now_ms)
            self._write(topic, message, now_ms)

    def _waiting(self, list_id: str) -> Iterator[PodLifecycle]:
        for plan in self._cluster.asking.values():
            yield PodLifecycle(cluster=CLUSTER, event="seen", list_id=list_id, pod=plan.pod)

    def _ask(self, now_ms: int) -> None:
        self._ask_again = False
        for plan in self._cluster.asking.values():
            asked = SchedulingRequest(cluster=CLUSTER, pod=plan.pod, requested_at_ms=plan.at_ms)
            self._write("scheduling-requests", asked, now_ms)

    def _write(self, topic: str, message: Any, now_ms: int) -> None:
        twice = self._schedule.strikes("records come twice") is not None
        for _ in range(2 if twice else 1):
            self._log.say(topic, message, now_ms)


class Agents:
    """Measure the nodes."""

    def __init__(self, world: World, log: Log, schedule: Schedule) -> None:
        self._world, self._log, self._schedule = world, log, schedule
        self._names = sorted(machine.name for machine in world.scenario.machines)
        self._samples = Samples(world)
        self._late: list[tuple[int, Written]] = []
        self._last: dict[str, bytes] = {}

    def step(self, now_ms: int) -> None:
        """Write the samples that are due, and those that are late."""
        alive = {f"{CLUSTER}/{machine.name}" for machine in self._world.cluster.machines}
        due = [each for at_ms, each in self._late if at_ms <= now_ms]
        self._late = [each for each in self._late if each[0] > now_ms]
        for sample in self._samples.of(self._world.usage.moment(now_ms)):
            if sample.key in alive:
                due += self._faulty(sample, now_ms)
        for fault in self._schedule.active("samples are reordered"):
            self._schedule.random(fault).shuffle(due)
        for sample in due:
            self._log.append("node-usage", sample.value, sample.key.encode(), now_ms)

    def _faulty(self, sample: Written, now_ms: int) -> Iterator[Written]:
        """What comes of a sample, now."""
        schedule = self._schedule
        name = sample.key.partition("/")[2]
        if any(self._is(fault, name) for fault in schedule.active("samples stop")):
            return
        sample = self._measured(sample)
        if schedule.strikes("samples are lost"):
            return
        fault = schedule.strikes("samples are late") or schedule.strikes("samples are reordered")
        if fault is not None:
            most = _LATE_STEPS_MAX if fault.kind == "samples are late" else 1
            steps = schedule.random(fault).randint(1, most)
            self._late.append((now_ms + 1000 * STEP_S * steps, sample))
            return
        yield sample
        if schedule.strikes("samples come twice"):
            yield sample

    def _measured(self, sample: Written) -> Written:
        """What an agent measures, or believes to measure."""
        name, value = sample.key.partition("/")[2], sample.value
        still = any(self._is(fault, name) for fault in self._schedule.active("samples stand still"))
        if still and name in self._last:
            return Written(sample.topic, sample.key, self._last[name], sample.written_ms)
        for fault in self._schedule.active("samples lie"):
            if self._is(fault, name):
                value = _lie(value, self._schedule.random(fault))
        self._last[name] = value
        return Written(sample.topic, sample.key, value, sample.written_ms)

    def _is(self, fault: Fault, name: str) -> bool:
        """Whether a fault is of this node."""
        return self._names[fault.which % len(self._names)] == name


def _lie(value: bytes, random: Random) -> bytes:
    """A sample with other amounts, on the node and its pods."""
    sample = orjson.loads(value)
    factor = random.choice((0.0, 0.1, 0.5, 3.0, 10.0))
    for part in (sample, *sample["pods"]):
        part["usage"] = {name: int(amount * factor) for name, amount in part["usage"].items()}
    return orjson.dumps(sample)
