"""The same cluster with pods placed by requests alone, for comparison.

A pod's node is chosen as kube-scheduler's LeastAllocated score does: the machine on which the
largest share of what the pod requests stays free. Of the pods that wait, those of higher priority
go first. Measured usage is not looked at.
"""

from collections.abc import Callable, Iterator, Sequence

from simulation.cluster.baseline import Arrival, Usage, usage_with
from simulation.cluster.kubelet import Kubelets
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan
from simulation.cluster.readings import Readings


def usage_by_requests(
    machines: Sequence[Machine], plans: Sequence[PodPlan], readings: Readings, end_ms: int
) -> Iterator[Usage]:
    """Usage at every reading up to `end_ms`; `plans` are in the order of their arrival."""
    arrivals = [Arrival(plan.at_ms, plan) for plan in plans if not plan.pod.unsupported]

    def choose(
        arrival: Arrival, fits: Callable[[Machine], bool], kubelets: Kubelets
    ) -> Machine | None:
        return most_free(list(filter(fits, machines)), kubelets, arrival.plan)

    return usage_with(choose, machines, arrivals, readings, end_ms, _order)


def most_free(machines: Sequence[Machine], kubelets: Kubelets, plan: PodPlan) -> Machine | None:
    """The machine that LeastAllocated prefers, of equal ones the first; None: there is none."""

    def share(machine: Machine) -> float:
        requested, free = kubelets.requested(machine.name), machine.allocatable
        shares = [
            (free[name] - requested.get(name, 0) - amount) / free[name]
            for name, amount in plan.requests.items()
        ]
        return sum(shares) / len(shares)

    return max(machines, key=share, default=None)


def _order(arrival: Arrival) -> tuple[int, int, str]:
    plan = arrival.plan
    return (-(plan.pod.priority or 0), plan.at_ms, plan.pod.name)
