"""The same cluster without evictions, for comparison.

Every pod stays where it was placed first. Only where that node is above the limit here, because
nothing has left it, or has too little free, a pod goes elsewhere: to the least used node that it
fits. So the comparison does not blame on missing evictions what placement by load would have
avoided.
"""

from collections.abc import Callable, Iterator, Sequence

from simulation.cluster.baseline import Arrival, Usage, usage_with
from simulation.cluster.kubelet import Kubelets
from simulation.cluster.machines import Machine
from simulation.cluster.readings import Readings


def usage_without_evictions(
    machines: Sequence[Machine],
    placements: Sequence[Arrival],
    readings: Readings,
    end_ms: int,
    cpu_limit: float,
) -> Iterator[Usage]:
    """Usage at every reading up to `end_ms`; `cpu_limit` is a share of a machine's cores."""
    used = dict.fromkeys((machine.name for machine in machines), 0.0)

    named = {machine.name: machine for machine in machines}

    def choose(arrival: Arrival, fits: Callable[[Machine], bool], _: Kubelets) -> Machine | None:
        machine = named[arrival.node]
        if used[machine.name] <= cpu_limit and fits(machine):
            return machine
        fitting = filter(fits, machines)
        return min(fitting, key=lambda machine: used[machine.name], default=None)

    for at_ms, number, usage in usage_with(choose, machines, placements, readings, end_ms):
        used[machines[number].name] = usage["cpu"] / machines[number].millicores
        yield at_ms, number, usage
