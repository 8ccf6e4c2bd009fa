"""Usage samples of the nodes of a world, as an agent on each node writes them.

A sample is put together without its model: the receiving stage reads it by its contract anyway, and
there are millions.
"""

import numpy as np
import orjson

from schemas.topics.catalog import node_key
from simulation.closed_loop.usage import Moment
from simulation.closed_loop.world import World
from simulation.cluster.pods import PROD
from streams.in_process.pipeline import Written


class Samples:
    """Measures nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.scenario.cluster
        self._names = [machine.name for machine in world.scenario.machines]
        self._keys = [node_key(self._cluster, name) for name in self._names]
        self._entries: dict[int, tuple[str, dict[str, int], dict[str, object]]] = {}
        """Of each slot: the uid of its pod, its usage and its part of the sample, filled anew each
        time."""

    def of(self, moment: Moment) -> list[Written]:
        """The samples that are due now."""
        nodes = self._world.sampled(moment.at_ms)
        usage = self._world.usage
        due = usage.node[moment.slots] % nodes.step == nodes.start
        whole = moment.pods[due].astype(np.int64).tolist()
        amounts = dict(zip(moment.slots[due].tolist(), whole, strict=True))
        given = moment.given.astype(np.int64).tolist()
        written = []
        for node in nodes:
            cpu, memory = given[node]
            sample = {
                "cluster": self._cluster,
                "node": self._names[node],
                "sampled_at_ms": moment.at_ms,
                "usage": {"cpu": cpu, "memory": memory},
                "pods": [
                    self._pod(slot, amounts[slot])
                    for slot in usage.on_node[node]
                    if slot in amounts
                ],
            }
            value = orjson.dumps(sample)
            written.append(Written("node-usage", self._keys[node], value, moment.at_ms))
        return written

    def _pod(self, slot: int, amounts: list[int]) -> dict[str, object]:
        pod = self._world.usage.pod[slot]
        known = self._entries.get(slot)
        if pod is None or known is None or known[0] != pod.uid:
            known = self._entry(slot)
        known[1]["cpu"], known[1]["memory"] = amounts
        return known[2]

    def _entry(self, slot: int) -> tuple[str, dict[str, int], dict[str, object]]:
        pod = self._world.usage.pod[slot]
        if pod is None:
            raise LookupError(f"slot {slot} holds no pod")
        usage: dict[str, int] = {}
        part: dict[str, object] = {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "usage": usage,
            "priority_class": PROD,
        }
        self._entries[slot] = entry = (pod.uid, usage, part)
        return entry
