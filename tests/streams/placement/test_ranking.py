"""A ranking is updated for changed nodes only; `test_placer` compares its content with an oracle."""

import pytest

from streams.placement.filters.fit import NodeResourcesFit
from streams.pods.kind import kind_of
from tests.streams.builders import lifecycle, node, pod, tick
from tests.streams.world import World, count_calls

NODES = 1_000
KIND = kind_of(pod(cpu="6"))


@pytest.mark.parametrize(
    ("changed", "calls"), [(0, {}), (2, {"reason": 2}), (NODES // 10, {"mask": 1})]
)
def test_only_changed_nodes_are_evaluated_unless_they_are_many(
    monkeypatch: pytest.MonkeyPatch, changed: int, calls: dict[str, int]
) -> None:
    counted = count_calls(monkeypatch, NodeResourcesFit, "mask", "reason")
    world = World(tick(), *(node(f"node-{number:04}") for number in range(NODES)))
    placer = world.state.placement.placer
    placer.rank(KIND)
    for number in range(changed):
        world.send(lifecycle("running", pod(f"held-{number}"), f"node-{number:04}"))
    counted.clear()
    placer.rank(KIND)
    placer.rank(KIND)
    assert counted == calls
