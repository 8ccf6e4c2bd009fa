"""The same cluster without evictions, for comparison.

Every pod comes when it did, uses what it did, lives as long, and stays where it was placed first.
Only where that node is above the limit here, because nothing has left it, or has too little free, a
pod goes elsewhere: to the least used node that it fits. So the comparison does not blame on missing
evictions what placement by load would have avoided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from connectors.simulated.kubelet import Kubelets, lacks
from connectors.simulated.machines import Machine
from connectors.simulated.pods import PodPlan
from connectors.simulated.readings import Readings


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod and the node on which it was placed first."""

    at_ms: int
    plan: PodPlan
    node: str


def stay(
    machines: Sequence[Machine],
    placements: Sequence[Placed],
    readings: Readings,
    end_ms: int,
    cpu_limit: float,
) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Time, machine and total usage at every reading up to `end_ms`.

    `placements` are in the order of their times; `cpu_limit` is a share of a machine's cores.
    """
    kubelets = Kubelets(machines)
    used = dict.fromkeys((machine.name for machine in machines), 0.0)
    waiting: list[Placed] = []
    taken = 0
    for index in range(readings.until(end_ms)):
        at_ms = int(readings.at_ms[index])
        freed = any(event.event in ("finished", "deleted") for event in kubelets.advance(at_ms))
        due, waiting = (waiting, []) if freed else ([], waiting)
        while taken < len(placements) and placements[taken].at_ms <= at_ms:
            due.append(placements[taken])
            taken += 1
        for placed in due:
            machine = _chosen(machines, kubelets, used, placed, cpu_limit)
            if machine is None:
                waiting.append(placed)
            else:
                kubelets.admit(placed.plan, machine.name, at_ms)
        machine = machines[int(readings.machine[index])]
        base = readings.base(index)
        total = kubelets.total(machine.name, base, at_ms)
        used[machine.name] = total["cpu"] / machine.millicores
        yield at_ms, int(readings.machine[index]), total


def _chosen(
    machines: Sequence[Machine],
    kubelets: Kubelets,
    used: dict[str, float],
    placed: Placed,
    cpu_limit: float,
) -> Machine | None:
    """Where a pod goes; None: it fits nowhere."""
    plan = placed.plan

    def fits(machine: Machine) -> bool:
        if any(machine.labels.get(key) != value for key, value in plan.pod.node_selector.items()):
            return False
        name = machine.name
        return lacks(machine, kubelets.requested(name), kubelets.live_pods(name), plan) is None

    for machine in machines:
        if machine.name == placed.node and used[machine.name] <= cpu_limit and fits(machine):
            return machine
    return min(
        (machine for machine in machines if fits(machine)),
        key=lambda machine: used[machine.name],
        default=None,
    )
