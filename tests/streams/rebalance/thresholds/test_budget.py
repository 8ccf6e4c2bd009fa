"""No round checks more pods than the limit, and every hot node has its turn in time."""

import pytest

from streams.rebalance import balancer
from streams.rebalance.candidates import Candidate
from streams.rebalance.thresholds.evictions import NODE_NOT_CHECKED, PODS_NOT_CHECKED
from tests.streams.builders import BY_THRESHOLDS
from tests.streams.world import RoundWorld


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_rounds_check_a_limited_number_of_pods_and_reach_every_hot_node(
    compat: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balancer, "CHECKED_PODS_MAX", 12)
    world = RoundWorld(f"{BY_THRESHOLDS}compat: {compat}\n")
    for number in range(10):
        world.node(f"hot-{number:02}", system=60)
        for pod in range(3):
            world.pod(f"p-{number:02}-{pod}", f"hot-{number:02}")
    for number in range(3):
        world.node(f"calm-{number}", system=10)
    checked_nodes: list[str] = []

    def refuse(candidate: Candidate) -> str:
        checked_nodes.append(candidate.node)
        return "no"

    seen: set[str] = set()
    for _ in range(60):
        checked_nodes.clear()
        world.round(gate=refuse)
        assert 6 <= len(checked_nodes) <= 12
        assert checked_nodes[:6] == ["hot-00"] * 3 + ["hot-01"] * 3
        seen.update(checked_nodes)
    assert seen == {f"hot-{number:02}" for number in range(10)}
    left_out = [hot for pool in world.outcome.pools for hot in pool.hot if not hot.checked]
    assert left_out
    assert all(hot.end_reason in (NODE_NOT_CHECKED, PODS_NOT_CHECKED) for hot in left_out)


def test_rounds_check_fewer_pods_against_many_selectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancer, "CHECKED_PODS_MAX", 12)
    checked = []
    for count in (1, 300):
        selectors = ", ".join(f"{{selector: {{matchLabels: {{app: a{n}}}}}}}" for n in range(count))
        world = RoundWorld(f"{BY_THRESHOLDS}  podSelectors: [{selectors}]")
        world.node("hot", system=60)
        for number in range(12):
            world.pod(f"p{number:02}", "hot", 3)
        world.node("calm")
        assert world.round() == []
        checked.append(sum(hot.checked for pool in world.outcome.pools for hot in pool.hot))
    assert checked == [12, 2]
