"""No round looks at more pods than the limit, and every hot node has its turn in time."""

import pytest

from streams.rebalance import looks
from streams.rebalance.looks import LATER, Looks
from tests.streams.rebalance.harness import asked_in, busy


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_a_round_looks_at_no_more_pods_than_the_limit_and_each_node_has_its_turn(
    compat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "LOOKS_PER_ROUND_MAX", 12)
    world = busy(10, koordinator=compat == "koordinator")
    seen: set[str] = set()
    for _ in range(60):
        asked = asked_in(world)
        assert 6 <= len(asked) <= 12
        assert asked[:6] == ["hot-00"] * 3 + ["hot-01"] * 3
        seen.update(asked)
    assert seen == {f"hot-{number:02}" for number in range(10)}
    left_out = [hot for pool in world.outcome.pools for hot in pool.hot if not hot.looked_at]
    assert left_out
    assert all("no round looks at more" in hot.ended or hot.ended == LATER for hot in left_out)


def test_no_more_nodes_are_put_in_order_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "LOOKS_PER_ROUND_MAX", 12)
    monkeypatch.setattr(looks, "ORDERED_MAX", 6)
    assert len(Looks(1).order([3] * 10)) == 2
    assert len(Looks(1).order([30] * 10)) == 1


def test_what_all_may_be_looked_at_keeps_its_order() -> None:
    assert Looks(7).order([3] * 10) == list(range(10))
    assert not Looks().over
