"""Rankings over two plugins made for the purpose; `test_placer` holds the real ones to an oracle."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.placer import Placer
from streams.placement.plugin import ExactScore, Filter, Score
from streams.placement.ranking import Ranking
from streams.pods.demand import pod_demand
from streams.pods.held import Held
from streams.pods.kind import Kind, kind_of
from streams.stage.arrays import BoolArray, FloatArray
from streams.usage.estimate import Estimator
from tests.streams.cluster.builders import load_args, node, pod, policy


class MadeUpFilter(Filter):
    """Refuses nodes that hold more pods than the pod's priority says."""

    name = "MadeUpFilter"
    watches = Change.PODS
    columns = ("_held",)

    def __init__(self) -> None:
        self._held: NDArray[Any] = np.zeros(0, dtype=np.int64)
        self.asked = 0

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        self._held[row] = len(node.held)

    def prepare(self, kind: Kind) -> int:
        return kind.pod.overhead != {}

    def mask(self, prepared: int) -> BoolArray:
        self.asked += len(self._held)
        return self._held <= prepared

    def reason(self, prepared: int, row: int) -> str | None:
        self.asked += 1
        return f"holds {self._held[row]}" if self._held[row] > prepared else None


class Raw(Score):
    """Scores by how much memory a node has; raw, or cut off at 100."""

    name = "Raw"
    watches = Change.STATE | Change.PODS
    columns = ("_memory",)

    def __init__(self, *, normalised: bool) -> None:
        self.normalised = normalised  # type: ignore[misc]  # of one instance
        self._memory: NDArray[Any] = np.zeros(0)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        self._memory[row] = node.allocatable.get("memory", 0) - 10 * len(node.held)

    def prepare(self, kind: Kind) -> None:
        return None

    def scores(self, prepared: None) -> NDArray[Any]:
        return self._memory.copy() if self.normalised else self._memory.astype(np.int32)

    def score(self, prepared: None, row: int) -> float:
        value = float(self._memory[row])
        return value if self.normalised else int(value)


class Exact(Raw, ExactScore):
    """The same as an exact score: its merits are halves below 0."""

    def __init__(self) -> None:
        super().__init__(normalised=True)

    def merits(self, prepared: None) -> FloatArray:
        return self._memory / 2 - _TERA

    def merit(self, prepared: None, row: int) -> float:
        return float(self._memory[row]) / 2 - _TERA

    def raw_of(self, merit: float) -> float:
        return (merit + _TERA) * 2


_TERA = 2.0**40
_ESTIMATOR = Estimator(load_args())
KIND = kind_of(pod())


class World:
    """Nodes by their memory."""

    def __init__(
        self,
        memory: dict[str, int],
        *,
        normalised: bool = False,
        exact: bool = False,
        weight: int = 1,
    ) -> None:
        self.filter = MadeUpFilter()
        self.inventory = Inventory(policy())
        scores = [(Exact() if exact else Raw(normalised=normalised), weight)]
        self.placer = Placer(self.inventory, lambda *_: ([self.filter], scores))
        self.nodes = self.inventory.nodes
        for name, amount in memory.items():
            here = self.nodes[name] = Node(name, _ESTIMATOR)
            here.describe(node(name, memory=str(amount)))
        self.index = self.inventory.lay_out()

    def rank(self) -> Ranking:
        return self.placer.rank(KIND)

    def hold(self, name: str, uid: str = "held") -> None:
        of = pod(uid)
        self.nodes[name].hold(Held(of, pod_demand(of), 0), 0)
        self.index.touch(self.nodes[name].row, Change.PODS)

    def release(self, name: str, uid: str = "held") -> None:
        self.nodes[name].release(uid)
        self.index.touch(self.nodes[name].row, Change.PODS)


def test_a_ranking_that_is_up_to_date_asks_about_changed_nodes_only() -> None:
    world = World({f"node-{number:04}": number for number in range(1000)})
    world.rank()
    assert world.filter.asked == 1000
    world.hold("node-0005")
    world.hold("node-0007")
    world.rank()
    world.rank()
    assert world.filter.asked == 1002


def test_a_ranking_far_behind_is_computed_anew() -> None:
    world = World({f"node-{number:04}": number for number in range(1000)})
    world.rank()
    for number in range(100):
        world.hold(f"node-{number:04}")
    world.rank()
    assert world.filter.asked == 2000


def test_a_plugin_is_told_of_what_it_watches_and_nothing_else() -> None:
    world = World({"a": 50})
    world.nodes["a"].describe(node("a", memory="60"))
    world.index.touch(0, Change.METRIC)
    assert world.rank().totals.tolist() == [50]
    world.index.touch(0, Change.STATE)
    assert world.rank().totals.tolist() == [60]
