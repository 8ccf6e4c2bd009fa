"""nodeFit: where pods could run at all, once per group of pods that ask for the same.

Required node affinity and node selector, taints, and requests against what is free, planned moves
of the round included; the number of pods is a request like any other. Labels and taints are asked
of all nodes at once by the filters that placement uses. Without nodeFit there is one group, which
fits everywhere.
"""

from collections.abc import Mapping

import numpy as np

from streams.inventory.arrays import BoolArray, IntArray
from streams.inventory.node import Held
from streams.placement.plugins.node_affinity import required_affinity
from streams.rebalance.candidates import Phase
from streams.rebalance.columns import Columns

#: Resource and amount.
Requests = tuple[tuple[str, int], ...]


class Free:
    """What is free of each resource on each target; the round's moves take it."""

    def __init__(self, columns: Columns, rows: IntArray) -> None:
        self._columns, self._rows = columns, rows
        self._first: dict[str, IntArray] = {}
        self._now: dict[str, IntArray] = {}
        self._lists: dict[str, list[int]] = {}
        self._changed: list[int] = []

    def of(self, resource: str) -> list[int]:
        """Free amounts by target; who takes some away says so with `changed`."""
        if resource not in self._lists:
            self._first[resource] = self._columns.free.column(resource)[self._rows]
            self._now[resource] = self._first[resource].copy()
            self._lists[resource] = self._first[resource].tolist()
        return self._lists[resource]

    def changed(self, position: int) -> None:
        """What is free on a target has changed."""
        self._changed.append(position)

    def covering(self, requests: Requests, *, first: bool) -> BoolArray:
        """Targets that have so much free now, or had before the first move."""
        for position in self._changed:
            for resource, amounts in self._lists.items():
                self._now[resource][position] = amounts[position]
        self._changed.clear()
        able = np.ones(self._rows.size, dtype=np.bool_)
        for resource, amount in requests:
            self.of(resource)
            able &= (self._first if first else self._now)[resource] >= amount
        return able


class Group:
    """Pods that may run on the same targets and request the same."""

    __slots__ = ("_free", "_lists", "_requests", "failures", "heap", "mask", "places")

    def __init__(self, mask: BoolArray, free: Free, requests: Requests) -> None:
        """Describe a group.

        Args:
            mask: targets that affinity and taints allow, shape (targets,).
            free: of all targets.
            requests: what one pod requests; empty: requests do not matter.
        """
        self.mask = mask
        self.places = mask.tobytes()
        """The same for groups that may run on the same targets."""
        self.heap: list[tuple[float, int]] | None = None
        """Its targets, those with the most room first; shared with groups of the same places."""
        self.failures: tuple[list[list[int]], list[list[int]]] = ([], [])
        """Amounts that no target could take: of any pod, of a prod pod."""
        self._free, self._requests = free, requests
        self._lists = [(free.of(resource), amount) for resource, amount in requests]

    def fits(self, position: int) -> bool:
        """Whether the requests fit on a target now."""
        for free, amount in self._lists:  # noqa: SIM110 - asked for every move
            if free[position] < amount:
                return False
        return True

    def fitting(self) -> BoolArray:
        """Targets that could run one more of the pods now, shape (targets,)."""
        return self.mask & self._free.covering(self._requests, first=False)

    def fitting_first(self) -> BoolArray:
        """Targets that could have run one before the round's first move."""
        return self.mask & self._free.covering(self._requests, first=True)

    def take(self, position: int) -> None:
        """One of the pods moves to a target."""
        for free, amount in self._lists:
            free[position] -= amount
        self._free.changed(position)


class Fit:
    """Groups of pods that ask for the same."""

    def __init__(
        self,
        columns: Columns,
        rows: IntArray,
        allowed: Mapping[Phase, BoolArray],
        *,
        node_fit: bool,
    ) -> None:
        """Look at targets.

        Args:
            columns: all nodes.
            rows: rows of the targets.
            allowed: which of them take pods in each phase, shape (targets,).
            node_fit: false: every pod fits everywhere.
        """
        self._columns, self._rows = columns, rows
        self._allowed, self._node_fit = allowed, node_fit
        self.free = Free(columns, rows)
        self._everywhere = {phase: Group(mask, self.free, ()) for phase, mask in allowed.items()}
        self._groups: dict[tuple[Phase, int, int, int, int], Group] = {}
        self._asked: list[Held] = []
        """Keeps alive what the keys above are the ids of."""

    def group(self, held: Held, phase: Phase) -> Group:
        """The group of a pod. Pods of one kind share the objects that say what they ask for."""
        if not self._node_fit:
            return self._everywhere[phase]
        pod = held.pod
        key = (
            phase,
            id(held.demand),
            id(pod.node_selector) if pod.node_selector else 0,
            id(pod.required_node_affinity),
            id(pod.tolerations) if pod.tolerations else 0,
        )
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._made(held, phase)
            self._asked.append(held)
        return group

    def _made(self, held: Held, phase: Phase) -> Group:
        mask = self._allowed[phase].copy()
        for found in (
            self._columns.affinity.mask(required_affinity(held.pod)),
            self._columns.taints.mask(held.pod.tolerations),
        ):
            if found is not None:
                mask &= found[self._rows]
        wanted = {name: amount for name, amount in held.demand.requests.items() if amount > 0}
        wanted["pods"] = 1
        requests = tuple(sorted(wanted.items()))
        return Group(mask, self.free, requests)
