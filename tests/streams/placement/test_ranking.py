"""Rankings over two plugins made for the purpose; `test_placer` holds the real ones to an oracle."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.placer import Placer
from streams.placement.plugin import ExactScore, Filter, Score
from streams.placement.ranking import REFUSED, Ranking
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


def test_the_best_is_the_first_by_name_of_the_highest() -> None:
    ranking = World({"c": 50, "b": 70, "a": 50, "d": 70}).rank()
    assert ranking.totals.tolist() == [50, 70, 50, 70]
    assert ranking.best() == 1
    assert ranking.runners_up(2, {1}) == [3, 0]
    assert ranking.runners_up(0, {1}) == []
    assert ranking.runners_up(9, {1}) == [3, 0, 2]


def test_a_node_that_is_refused_is_neither_best_nor_next() -> None:
    world = World({"a": 90, "b": 80, "c": 70})
    world.rank()
    world.hold("a")
    ranking = world.rank()
    assert ranking.totals.tolist() == [REFUSED, 80, 70]
    assert (ranking.best(), ranking.runners_up(2, {1})) == (1, [2])
    assert (ranking.refused_by, ranking.reasons()) == ([1], Counter({"holds 1": 1}))
    world.release("a")
    ranking = world.rank()
    assert (ranking.best(), ranking.refused_by, ranking.reasons()) == (0, [0], Counter())


def test_without_nodes_or_with_all_refused_there_is_no_best() -> None:
    assert World({}).rank().best() is None
    world = World({"a": 1})
    world.hold("a")
    assert world.rank().best() is None


def test_weights_multiply() -> None:
    assert World({"a": 100, "b": 3}, weight=1_000_000).rank().totals.tolist() == [10**8, 3 * 10**6]


@pytest.mark.parametrize(
    ("memory", "totals"),
    [
        ({}, []),
        ({"a": 7}, [100]),
        ({"a": 7, "b": 7}, [100, 100]),
        ({"a": 0, "b": 30, "c": 10}, [0, 100, 33]),
        ({"a": 1, "b": 3, "c": 2}, [0, 100, 50]),
        ({"a": 0, "b": 2**62}, [0, 100]),
        ({"a": 0, "b": 7, "c": 49}, [0, 14, 100]),
    ],
)
def test_raw_scores_are_stretched_over_the_nodes_that_pass(
    memory: dict[str, int], totals: list[int]
) -> None:
    assert World(memory, normalised=True).rank().totals.tolist() == totals


def test_the_best_of_any_two_gets_100_and_the_other_nothing() -> None:
    random = np.random.default_rng(5)
    for low, high in random.integers(0, 10**15, size=(500, 2)).tolist():
        if low != high:
            totals = World({"a": low, "b": high}, normalised=True).rank().totals.tolist()
            assert sorted(totals) == [0, 100]


def test_a_refused_node_far_out_of_bounds_disturbs_nothing() -> None:
    world = World({"a": 0, "b": 1, "c": 2**61}, normalised=True)
    world.hold("c")
    assert world.rank().totals.tolist() == [0, 100, REFUSED]


def test_without_filters_every_node_passes_also_after_changes() -> None:
    world = World({"a": 50, "b": 60})
    placer = Placer(world.inventory, lambda *_: ([], [(Raw(normalised=False), 1)]))
    assert placer.rank(KIND).totals.tolist() == [50, 60]
    world.nodes["b"].describe(node("b", memory="40"))
    world.index.touch(1, Change.STATE)
    ranking = placer.rank(KIND)
    assert (ranking.totals.tolist(), ranking.refused_by) == ([50, 40], [])
    assert ranking.reasons() == Counter()
    world.index.touch(0, Change.STATE)
    assert placer.rank(KIND).reasons() == Counter()


def test_without_scores_the_first_by_name_is_best() -> None:
    world = World({"a": 50, "b": 60})
    placer = Placer(world.inventory, lambda *_: ([MadeUpFilter()], []))
    assert placer.rank(KIND).totals.tolist() == [0, 0]
    assert placer.rank(KIND).best() == 0


def test_bounds_follow_the_nodes_that_pass() -> None:
    world = World({"a": 0, "b": 50, "c": 100, "d": 1000}, normalised=True)
    assert world.rank().totals.tolist() == [0, 5, 10, 100]
    world.hold("d")
    assert world.rank().totals.tolist() == [0, 50, 100, REFUSED]
    world.hold("a")
    assert world.rank().totals.tolist() == [REFUSED, 0, 100, REFUSED]
    world.release("d")
    assert world.rank().totals.tolist() == [REFUSED, 0, 5, 100]


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


def test_rows_are_in_the_order_of_names_whenever_nodes_come() -> None:
    world = World({"b": 50, "d": 70})
    here = world.nodes["a"] = Node("a", _ESTIMATOR)
    here.describe(node("a", memory="90"))
    world.index.layout([world.nodes["d"], here, world.nodes["b"]])
    assert [each.name for each in world.index.nodes] == ["a", "b", "d"]
    assert [each.row for each in world.index.nodes] == [0, 1, 2]
    assert world.rank().totals.tolist() == [90, 50, 70]


def test_terms_add_up_to_the_total() -> None:
    ranking = World({"a": 10, "b": 20, "c": 40}, normalised=True, weight=3).rank()
    (term,) = ranking.terms(1)
    assert (term.plugin, term.score, term.weight) == ("Raw", 33, 3)
    assert ranking.totals[1] == 99
