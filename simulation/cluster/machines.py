"""The machines of the simulated cluster, and the pods that run on them already.

Sizes are those of machines in a published production cluster; which machines are idle or stay hot
is drawn from the seed. The pods that run already (residents) split a machine's base load among them
and take it with them when they are evicted. What they request says little of what they use: an idle
machine looks full by requests, a hot one empty, and that is what placing by real load is for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from schemas.messages.nodes import NodeState
from schemas.messages.pods import OwnerReference, Pod
from simulation.cluster.load import LoadParameters, Temper
from simulation.cluster.pods import (
    BATCH_CPU,
    BATCH_MEMORY,
    FOREVER_MS,
    GIB,
    PRIORITY_CLASS_LABEL,
    PROD,
    QOS_CLASS_LABEL,
    SCHEDULER,
    Carried,
    PodPlan,
    container_of,
    requests_of,
)

#: Cores, GiB of memory, and share of the machines: the sizes of nine in ten machines of the OpenB
#: cluster (cluster-trace-gpu-v2023), their GPUs left out.
SHAPES = ((96, 384, 0.50), (104, 512, 0.25), (32, 128, 0.15), (64, 256, 0.10))
#: Share of the trace's mean usage that is there before the demo places its first pod; the rest
#: comes with the pods that it places, so that the whole cluster is as loaded as the trace.
BASE_SHARE = 0.6
#: Share of the machines that stay hot. No machine of the trace does so for days; this is chosen.
HOT_SHARE = 0.075
#: Of a machine's base load, what belongs to no pod.
SYSTEM_SHARE = 0.15
#: What residents request together, as a share of the machine, by its temper.
_REQUESTED: dict[Temper, float] = {"busy": 0.35, "idle": 0.45, "hot": 0.20}
_RESIDENTS: dict[Temper, int] = {"busy": 6, "idle": 2, "hot": 8}
#: Of a machine, what pods of class batch may request on top of the ordinary requests.
BATCH_CPU_SHARE, BATCH_MEMORY_SHARE = 0.5, 0.4
PODS_PER_NODE = 110
#: One machine in this number has a fast disk, which some pods require.
_SSD_EVERY = 4

_SHAPES_STREAM, _TEMPERS_STREAM = 10, 11


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of the cluster."""

    name: str
    millicores: int
    memory_bytes: int
    temper: Temper | None = None
    """None: its base load is not the model's."""
    labels: dict[str, str] = field(default_factory=dict)
    residents: tuple[PodPlan, ...] = ()
    """Pods that run on it at the beginning."""

    @property
    def allocatable(self) -> dict[str, int]:
        """Amounts that pods may request."""
        return {
            "cpu": self.millicores,
            "memory": self.memory_bytes,
            "pods": PODS_PER_NODE,
            BATCH_CPU: int(self.millicores * BATCH_CPU_SHARE),
            BATCH_MEMORY: int(self.memory_bytes * BATCH_MEMORY_SHARE),
        }

    def node_state(
        self, cluster: str, list_id: str | None, *, unschedulable: bool = False
    ) -> NodeState:
        """The node as a full list names it, or, without one, as it is reported when it joins."""
        texts = {
            name: f"{amount}m" if name == "cpu" else str(amount)
            for name, amount in self.allocatable.items()
        }
        return NodeState(
            cluster=cluster,
            node=self.name,
            event="added",
            list_id=list_id,
            allocatable=texts,
            labels={"kubernetes.io/hostname": self.name, **self.labels},
            unschedulable=unschedulable,
        )


def make_machines(
    nodes: int, seed: int, parameters: LoadParameters, begin_ms: int
) -> tuple[Machine, ...]:
    """The machines of a cluster, with their residents, which have run since `begin_ms`."""
    tempers = _tempers(nodes, seed, parameters)
    width = max(2, len(str(nodes)))
    machines = []
    for index, (cores, gib) in enumerate(_shapes(nodes, seed)):
        name = f"node-{index + 1:0{width}}"
        disk = "ssd" if index % _SSD_EVERY == 0 else "hdd"
        temper = tempers[index]
        millicores, memory_bytes = cores * 1000, gib * GIB
        residents = residents_of(name, temper, millicores, memory_bytes, begin_ms)
        machines.append(Machine(name, millicores, memory_bytes, temper, {"disk": disk}, residents))
    return tuple(machines)


def _shapes(nodes: int, seed: int) -> list[tuple[int, int]]:
    """Sizes in their shares as near as whole machines allow, in an order drawn from the seed."""
    ends = np.cumsum([share for _, _, share in SHAPES]) * nodes
    which = np.searchsorted(ends, np.arange(nodes) + 0.5)
    np.random.default_rng([seed, _SHAPES_STREAM]).shuffle(which)
    return [SHAPES[index][:2] for index in np.minimum(which, len(SHAPES) - 1).tolist()]


def _tempers(nodes: int, seed: int, parameters: LoadParameters) -> list[Temper]:
    idle = round(nodes * parameters.idle_share)
    hot = min(max(1, round(nodes * HOT_SHARE)), nodes - idle)
    tempers: list[Temper] = ["idle"] * idle
    tempers += ["hot"] * hot
    tempers += ["busy"] * (nodes - idle - hot)
    order = np.random.default_rng([seed, _TEMPERS_STREAM]).permutation(nodes)
    return [tempers[index] for index in order.tolist()]


def residents_of(
    node: str,
    temper: Temper,
    millicores: int,
    memory_bytes: int,
    begin_ms: int,
    *,
    with_memory: bool = True,
) -> tuple[PodPlan, ...]:
    """Pods of one ReplicaSet that carry a machine's base load but for the system's part.

    Without `with_memory` they carry its cores alone.
    """
    count = _RESIDENTS[temper]
    share = _REQUESTED[temper] / count
    requests = requests_of(int(millicores * share), int(memory_bytes * share), batch=False)
    carried = (1.0 - SYSTEM_SHARE) / count
    owner = f"resident-{node}"
    residents = []
    for number in range(count):
        name = f"{owner}-{number + 1}"
        pod = Pod(
            namespace="residents",
            name=name,
            uid=name,
            node=node,
            scheduler=SCHEDULER,
            phase="Running",
            ready=True,
            priority=9000,
            labels={"app": owner, PRIORITY_CLASS_LABEL: PROD, QOS_CLASS_LABEL: "LS"},
            owners=(OwnerReference(kind="ReplicaSet", name=owner, uid=owner, controller=True),),
            containers=(container_of(requests, limited=False),),
            created_at_ms=begin_ms,
            scheduled_at_ms=begin_ms,
            initialized_at_ms=begin_ms,
        )
        residents.append(
            PodPlan(
                pod=pod,
                at_ms=begin_ms,
                life_ms=FOREVER_MS,
                requests=requests,
                cpu_millicores=0.0,
                memory_bytes=0.0,
                phase=0.0,
                job=False,
                carried=Carried(node, carried, carried if with_memory else 0.0),
            )
        )
    return tuple(residents)


def cores_of_pods(machines: Sequence[Machine], parameters: LoadParameters) -> float:
    """Cores that pods must use on average, for the cluster to be as loaded as the trace."""
    busy = sum(machine.millicores for machine in machines if machine.temper == "busy")
    return (1.0 - BASE_SHARE) * parameters.cpu_busy_mean * busy / 1000
