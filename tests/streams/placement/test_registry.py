import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.policy import BUILT_IN, OverutilizationRiskArgs, Policy, read_policy
from schemas.policy.sections.plugins import EnabledPlugin, PluginChoice, ScorePlugin
from streams import placement
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement import filters, registry
from streams.placement.plugin import Filter, Score
from streams.placement.registry import FILTERS, SCORES, build_filters, build_scores
from streams.pods.kind import Kind, kind_of
from streams.risk.fleet_usage import Fleet, FleetUsage
from streams.usage.estimate import Estimator
from tests.streams.builders import at, inventory_node
from tests.streams.cluster.oracle import refresh_all
from tests.streams.strategies import annotated_nodes, loading_pods, metrics, policies


def test_the_policy_enables_orders_and_weighs() -> None:
    choice = PluginChoice(
        filter=(EnabledPlugin(name="NodeResourcesFit"), EnabledPlugin(name="NodeName")),
        score=(ScorePlugin(name="NodeResourceLimitsAware", weight=7),),
    )
    policy = Policy(plugins=choice)
    estimator = Estimator(policy.load_aware)
    assert [each.name for each in build_filters(policy, estimator)] == [
        "NodeResourcesFit",
        "NodeName",
    ]
    assert [(each.name, weight) for each, weight in build_scores(policy, estimator)] == [
        ("NodeResourceLimitsAware", 7)
    ]


@pytest.mark.parametrize("name", [*FILTERS, *SCORES])
def test_every_plugin_says_what_it_watches(name: str) -> None:
    policy = Policy()
    plugin = {**FILTERS, **SCORES}[name](policy, Estimator(policy.load_aware))
    assert 0 < plugin.watches <= Change.ALL


def _fleet() -> Fleet:
    fleet = Fleet(OverutilizationRiskArgs())
    fleet.figures = (FleetUsage(400_000, 90_000, 40_000), FleetUsage(1_700_000, 10_000, 0))
    return fleet


def _nodes(estimator: Estimator, drawn: list[Any]) -> list[Node]:
    nodes = []
    fleet = _fleet()
    for number, (state, said, held) in enumerate(drawn):
        name = f"node-{number}"
        named = state.model_copy(update={"node": name})
        node = inventory_node(named, *held, estimator=estimator, at_ms=at(0))
        node.set_fleet(fleet)
        if not said.removed:
            node.set_metric(said)
        nodes.append(node)
    return nodes


def _plugins(policy: Policy) -> list[Filter | Score]:
    """All that are registered, whatever the policy enables."""
    estimator = Estimator(policy.load_aware)
    filters = [make(policy, estimator) for make in FILTERS.values()]
    return [*filters, *(make(policy, estimator) for make in SCORES.values())]


def _check(plugin: Filter | Score, kind: Kind, size: int) -> None:
    """Both ways of asking say the same."""
    prepared = plugin.prepare(kind)
    if isinstance(plugin, Filter):
        mask = plugin.mask(prepared)
        reasons = [plugin.reason(prepared, row) for row in range(size)]
        assert mask is None or (mask.dtype == np.bool_ and mask.shape == (size,))
        assert ([True] * size if mask is None else mask.tolist()) == [not each for each in reasons]
        return
    scores = plugin.scores(prepared)
    assert scores.shape == (size,)
    assert scores.dtype == (np.float64 if plugin.normalised else np.int32)
    assert scores.tolist() == [plugin.score(prepared, row) for row in range(size)]
    if not plugin.normalised:
        assert all(0 <= score <= 100 for score in scores)


_WORLD = st.lists(
    st.tuples(annotated_nodes(), metrics(), st.lists(loading_pods(), max_size=3)), max_size=5
)
_KINDS = st.lists(loading_pods().map(kind_of), min_size=1, max_size=3)


@given(policies(), _WORLD, _KINDS, st.sampled_from((0, 100)))
@settings(max_examples=100)
def test_every_plugin_gives_the_same_result_for_one_node_and_for_all(
    policy: Policy, drawn: list[Any], kinds: list[Kind], seconds: int
) -> None:
    nodes = _nodes(Estimator(policy.load_aware), drawn)
    for plugin in _plugins(policy):
        refresh_all(plugin, nodes, at(seconds))
        for kind in kinds:
            _check(plugin, kind, len(nodes))


@given(policies(), _WORLD, _KINDS, st.data())
def test_plugins_follow_rows_that_move(
    policy: Policy, drawn: list[Any], kinds: list[Kind], data: Any
) -> None:
    nodes = _nodes(Estimator(policy.load_aware), drawn)
    kept = data.draw(st.permutations(range(len(nodes))))
    kept = kept[: data.draw(st.integers(0, len(nodes)))]
    for plugin, fresh in zip(_plugins(policy), _plugins(policy), strict=True):
        refresh_all(plugin, nodes, at(0))
        for kind in kinds:
            _check(plugin, kind, len(nodes))
        plugin.relayout(np.array(kept, dtype=np.int64))
        refresh_all(fresh, [nodes[row] for row in kept], at(0))
        for kind in kinds:
            _check(plugin, kind, len(kept))
            _same(plugin, fresh, kind, len(kept))


def _same(left: Filter | Score, right: Filter | Score, kind: Kind, size: int) -> None:
    a, b = left.prepare(kind), right.prepare(kind)
    for row in range(size):
        if isinstance(left, Filter) and isinstance(right, Filter):
            assert left.reason(a, row) == right.reason(b, row)
        elif isinstance(left, Score) and isinstance(right, Score):
            assert left.score(a, row) == right.score(b, row)


def test_a_new_plugin_is_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that lies beside the others is found, may be named by a policy, and decides."""
    (tmp_path / "weekend.py").write_text(
        "from streams.placement.plugin import Filter\n"
        "class Weekend(Filter):\n"
        "    name = 'Weekend'\n"
        "    watches = 1\n"
        "    def refresh(self, row, node, now_ms): pass\n"
        "    def prepare(self, kind): return None\n"
        "    def mask(self, prepared): return None\n"
        "    def reason(self, prepared, row): return None\n"
    )
    monkeypatch.setattr(filters, "__path__", [*filters.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, registry.__name__)
    monkeypatch.setattr(placement, "registry", registry)  # put back after the import replaced it
    found = importlib.import_module(registry.__name__)
    assert tuple(found.FILTERS) == (*BUILT_IN.filter, "Weekend")
    policy = read_policy("plugins: {filter: [Weekend, NodeName]}", found.KNOWN)
    built = found.build_filters(policy, Estimator(policy.load_aware))
    assert [each.name for each in built] == ["Weekend", "NodeName"]
    monkeypatch.delitem(sys.modules, "streams.placement.filters.weekend")
