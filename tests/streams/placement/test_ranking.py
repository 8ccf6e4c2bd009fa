"""Rankings over two plugins made for the purpose; `test_placer` holds the real ones to an oracle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from schemas.policy import KnownPlugins, read_policy
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement import registry
from streams.placement.placer import Placer
from streams.placement.plugin import Filter, Score
from streams.placement.ranking import REFUSED, Ranking
from streams.pods.demand import compute_demand
from streams.pods.held import HeldPod
from streams.pods.kind import Kind, kind_of
from streams.stage.arrays import BoolArray
from streams.usage.estimate import Estimator
from tests.streams.builders import load_args, node, pod


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


class Nothing(Raw):
    name = "Nothing"

    def scores(self, prepared: None) -> NDArray[Any]:
        return np.zeros(self._memory.size, dtype=np.int32)

    def score(self, prepared: None, row: int) -> float:
        return 0


_ESTIMATOR = Estimator(load_args())
KIND = kind_of(pod())


class World:
    """Nodes by their memory."""

    def __init__(
        self,
        memory: dict[str, int],
        *,
        normalised: bool = False,
        weight: int = 1,
        single: bool = True,
    ) -> None:
        """`single`: the score by memory is the only one; else there is another, which is always 0."""
        self.filter = MadeUpFilter()
        others = "" if single else ", Nothing"
        self.inventory = Inventory(
            read_policy(
                f"plugins: {{filter: [MadeUpFilter], score: [{{name: Raw, weight: {weight}}}{others}]}}",
                KnownPlugins(("MadeUpFilter",), ("Raw", "Nothing"), ()),
            )
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(registry.FILTERS, "MadeUpFilter", lambda *_: self.filter)
            patch.setitem(registry.SCORES, "Raw", lambda *_: Raw(normalised=normalised))
            patch.setitem(registry.SCORES, "Nothing", lambda *_: Nothing(normalised=False))
            self.placer = Placer(self.inventory)
        self.nodes = self.inventory.nodes
        for name, amount in memory.items():
            here = self.nodes[name] = Node(name, _ESTIMATOR)
            here.describe(node(name, memory=str(amount)))
        self.index = self.inventory.lay_out()

    def rank(self) -> Ranking:
        return self.placer.rank(KIND)

    def hold(self, name: str, uid: str = "held") -> None:
        of = pod(uid)
        self.nodes[name].hold(HeldPod(of, compute_demand(of), 0), 0)
        self.index.touch(self.nodes[name], Change.PODS)

    def release(self, name: str, uid: str = "held") -> None:
        self.nodes[name].release(uid)
        self.index.touch(self.nodes[name], Change.PODS)


def test_an_updated_ranking_evaluates_only_changed_nodes() -> None:
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


def test_a_plugin_is_refreshed_only_for_changes_that_it_watches() -> None:
    world = World({"a": 50})
    world.rank()
    world.nodes["a"].describe(node("a", memory="60"))
    world.index.touch(world.nodes["a"], Change.METRIC)
    assert world.rank().totals.tolist() == [50]
    world.index.touch(world.nodes["a"], Change.STATE)
    assert world.rank().totals.tolist() == [60]


def test_a_single_normalised_score_tells_apart_nodes_whose_scores_are_equal() -> None:
    memory = {"a": 99_990, "b": 100_000, "c": 99_999, "d": 50_000}
    stretched = World(memory, normalised=True, single=False).rank()
    assert stretched.runners_up(3, {1}) == [0, 2, 3]
    ranking = World(memory, normalised=True).rank()
    assert ranking.best() == 1
    assert ranking.runners_up(3, {1}) == [2, 0, 3]


@pytest.mark.parametrize("weight", [1, 7])
@given(data=st.data())
def test_a_single_normalised_score_shows_the_same_scores_as_one_of_several(
    weight: int, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(100, 200_000), min_size=1, max_size=12))
    memory = {f"node-{number:02}": size for number, size in enumerate(sizes)}
    alone = World(memory, normalised=True, weight=weight)
    of_several = World(memory, normalised=True, weight=weight, single=False)
    held: set[str] = set()
    for _ in range(data.draw(st.integers(0, 8))):
        name = data.draw(st.sampled_from(sorted(memory)))
        for world in (alone, of_several):
            (world.release if name in held else world.hold)(name)
        held ^= {name}
        shown, expected = alone.rank(), of_several.rank()
        for row in range(len(memory)):
            assert shown.total(row) == expected.total(row)
            if expected.total(row) != REFUSED:
                assert shown.terms(row) == expected.terms(row)[:1]
        assert shown.best() == expected.best()
