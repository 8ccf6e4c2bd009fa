"""The same cluster with pods placed by requests alone, for comparison.

Every pod arrives when it did, uses what it did and lives as long; only its node is chosen as
kube-scheduler's LeastAllocated score does: the machine on which the largest share of what the pod
requests stays free, among those with the labels that it insists on and enough free. What does not
fit waits, higher priority first, and is tried again when pods have gone. Measured usage is not
looked at.
"""

from collections.abc import Iterator, Sequence

from connectors.simulated.kubelet import Kubelets, lacks
from connectors.simulated.machines import Machine
from connectors.simulated.pods import PodPlan
from connectors.simulated.readings import Readings


def place_by_requests(
    machines: Sequence[Machine], plans: Sequence[PodPlan], readings: Readings, end_ms: int
) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Time, machine and total usage at every reading up to `end_ms`.

    `plans` are in the order of their arrival.
    """
    kubelets = Kubelets(machines)
    waiting: list[PodPlan] = []
    arrived = 0
    for index in range(readings.until(end_ms)):
        at_ms = int(readings.at_ms[index])
        freed = any(event.event in ("finished", "deleted") for event in kubelets.advance(at_ms))
        fresh: list[PodPlan] = []
        while arrived < len(plans) and plans[arrived].at_ms <= at_ms:
            if not plans[arrived].pod.unsupported:
                fresh.append(plans[arrived])
            arrived += 1
        if freed:
            fresh, waiting = sorted([*waiting, *fresh], key=_turn), []
        for plan in fresh:
            machine = most_free(machines, kubelets, plan)
            if machine is None:
                waiting.append(plan)
            else:
                kubelets.admit(plan, machine.name, at_ms)
        number = int(readings.machine[index])
        base = readings.base(index)
        yield at_ms, number, kubelets.total(machines[number].name, base, at_ms)


def most_free(machines: Sequence[Machine], kubelets: Kubelets, plan: PodPlan) -> Machine | None:
    """The machine that LeastAllocated prefers, the first of equal ones; None: there is none."""
    best: tuple[float, Machine] | None = None
    for machine in machines:
        if any(machine.labels.get(key) != value for key, value in plan.pod.node_selector.items()):
            continue
        requested = kubelets.requested(machine.name)
        if lacks(machine, requested, kubelets.live_pods(machine.name), plan) is not None:
            continue
        allocatable = machine.allocatable
        shares = [
            (allocatable[name] - requested.get(name, 0) - amount) / allocatable[name]
            for name, amount in plan.requests.items()
        ]
        score = sum(shares) / len(shares)
        if best is None or score > best[0]:
            best = (score, machine)
    return None if best is None else best[1]


def _turn(plan: PodPlan) -> tuple[int, int, str]:
    return (-(plan.pod.priority or 0), plan.at_ms, plan.pod.name)
