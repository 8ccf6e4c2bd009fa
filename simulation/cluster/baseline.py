"""A run on the same load with another choice of nodes, computed for comparison.

Every pod comes when it did, uses what it did and lives as long; a function chooses its node. A pod
that fits nowhere waits, and is tried again when pods have gone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from simulation.cluster.kubelet import Kubelets, lacks
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan
from simulation.cluster.readings import Readings

#: Time, index of the machine, and what it used in all.
Usage = tuple[int, int, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod that wants a node."""

    at_ms: int
    plan: PodPlan
    node: str = ""
    """The node on which it was placed first."""


def usage_with(
    choose: Callable[[Arrival, Callable[[Machine], bool], Kubelets], Machine | None],
    machines: Sequence[Machine],
    arrivals: Sequence[Arrival],
    readings: Readings,
    end_ms: int,
    first: Callable[[Arrival], tuple[int, int, str]] | None = None,
) -> Iterator[Usage]:
    """Usage at every reading up to `end_ms`.

    `choose` picks one of the machines that a pod fits, as its second argument says. `arrivals` are
    in the order of their times; of those that wait the least by `first` goes first, or the earliest.
    """
    kubelets = Kubelets(machines)
    waiting: list[Arrival] = []
    arrived = 0
    for index in range(readings.until(end_ms)):
        at_ms, number = int(readings.at_ms[index]), int(readings.machine[index])
        freed = any(event.event in ("finished", "deleted") for event in kubelets.advance(at_ms))
        due: list[Arrival] = []
        while arrived < len(arrivals) and arrivals[arrived].at_ms <= at_ms:
            due.append(arrivals[arrived])
            arrived += 1
        if freed:
            due, waiting = [*waiting, *due], []
            if first is not None:
                due.sort(key=first)
        for arrival in due:
            machine = choose(arrival, partial(_fits, kubelets, arrival.plan), kubelets)
            if machine is None:
                waiting.append(arrival)
            else:
                kubelets.admit(arrival.plan, machine.name, at_ms)
        yield at_ms, number, kubelets.total(machines[number].name, readings.base(index), at_ms)


def _fits(kubelets: Kubelets, plan: PodPlan, machine: Machine) -> bool:
    if any(machine.labels.get(key) != value for key, value in plan.pod.node_selector.items()):
        return False
    name = machine.name
    return lacks(machine, kubelets.requested(name), kubelets.live_pods(name), plan) is None
