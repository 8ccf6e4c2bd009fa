"""Demand and usage of all pods of a world, as arrays.

    bound, deleted ─▶ slots ─▶ demand of pods and nodes ─▶ usage

A pod has a slot from its binding until its deletion, so a terminating pod still uses resources while its
replacement runs. The demand of the node itself is added. Capacity limits usage: a shortage reduces the
usage of all pods and of the node itself by the same factor. So a saturated node reports less than its
demand.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.messages.pods import Pod
from simulation.closed_loop.scenario import Array, Indexes, Scenario
from simulation.cluster.cluster import Observer
from simulation.cluster.kubelet import START_MS, PodEvent

#: Initial number of slots; doubled when all slots are in use.
_SLOTS = 1024


def get_plan_index(uid: str) -> int:
    """Return the index of a pod's plan. The replacement of an evicted pod has the same plan."""
    return int(uid.partition(".")[0].rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class Moment:
    """Demand and usage at a time: CPU in millicores and memory in bytes."""

    at_ms: int
    slots: Indexes
    """Slots of running pods."""
    pod_usage: Array
    """Usage of the pods in `slots`; shape (slots, 2)."""
    demand: Array
    """Demand of each node with its pods; shape (nodes, 2)."""
    node_usage: Array
    """Usage of each node: its demand, limited by its capacity; shape (nodes, 2)."""


class Usage(Observer):
    """Pods on their nodes and their usage; observes a cluster from its beginning."""

    def __init__(self, scenario: Scenario) -> None:
        self._demands = scenario.demands
        self._begin_ms = scenario.begin_ms
        self._system = scenario.system
        self.node_indexes = {machine.name: index for index, machine in enumerate(scenario.machines)}
        self.allocatable: Array = np.array(
            [(machine.millicores, machine.memory_bytes) for machine in scenario.machines],
            dtype=np.float64,
        )
        self.node: npt.NDArray[np.int64] = np.full(_SLOTS, -1, dtype=np.int64)
        """Node of the pod in each slot; -1: the slot is free."""
        self.plan: npt.NDArray[np.int64] = np.zeros(_SLOTS, dtype=np.int64)
        """Plan of the pod in each slot."""
        self.start_ms: npt.NDArray[np.int64] = np.zeros(_SLOTS, dtype=np.int64)
        self.pod: dict[int, Pod] = {}
        """Pods by slot."""
        self.on_node: list[dict[int, None]] = [{} for _ in scenario.machines]
        """Slots of the pods of each node, in the order of their binding."""
        self._free = list(range(_SLOTS - 1, -1, -1))
        self._slot_of: dict[str, int] = {}

    def on_pod_event(self, event: PodEvent) -> None:
        uid = event.pod.uid
        if event.event == "bound":
            self._add_pod(event)
        elif event.event == "deleted" and uid in self._slot_of:
            slot = self._slot_of.pop(uid)
            del self.on_node[int(self.node[slot])][slot]
            self.node[slot] = -1
            del self.pod[slot]
            self._free.append(slot)

    def measure(self, now_ms: int) -> Moment:
        """Return demand and usage at a time."""
        slots = np.flatnonzero((self.node >= 0) & (self.start_ms <= now_ms))
        plan, node = self.plan[slots], self.node[slots]
        age_ms = (now_ms - self.start_ms[slots]).astype(np.float64)
        demands = np.column_stack(
            (
                self._demands.compute_cpu(plan, now_ms - self._begin_ms),
                self._demands.compute_memory(plan, age_ms),
            )
        )
        count = len(self.allocatable)
        # `bincount` of no pods returns integers.
        sums = [np.bincount(node, demands[:, resource], count) for resource in (0, 1)]
        demand = np.column_stack(sums).astype(np.float64)
        if self._system is not None:
            demand += self._system.compute(now_ms - self._begin_ms)
        node_usage = np.minimum(demand, self.allocatable)
        share = np.divide(node_usage, demand, out=np.ones_like(demand), where=demand > 0)
        return Moment(now_ms, slots, demands * share[node], demand, node_usage)

    def _add_pod(self, event: PodEvent) -> None:
        if not self._free:
            self._grow()
        slot, uid = self._free.pop(), event.pod.uid
        self._slot_of[uid] = slot
        node = self.node_indexes[event.pod.node or ""]
        self.node[slot], self.plan[slot] = node, get_plan_index(uid)
        self.start_ms[slot] = event.at_ms + START_MS
        self.pod[slot] = event.pod
        self.on_node[node][slot] = None

    def _grow(self) -> None:
        size = len(self.node)
        self._free = list(range(2 * size - 1, size - 1, -1))
        self.node = np.concatenate([self.node, np.full(size, -1, dtype=np.int64)])
        nothing = np.zeros(size, dtype=np.int64)
        self.plan, self.start_ms = (
            np.concatenate([column, nothing]) for column in (self.plan, self.start_ms)
        )
