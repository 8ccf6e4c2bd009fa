import importlib
import sys
from pathlib import Path

import pytest

from schemas.policy import BUILT_IN, Policy, read_policy
from schemas.policy.sections.plugins import EnabledPlugin, PluginChoice, ScorePlugin
from streams import placement
from streams.placement import filters, registry
from streams.placement.registry import build_filters, build_scores
from streams.usage.estimate import Estimator


def test_the_policy_enables_orders_and_weighs() -> None:
    choice = PluginChoice(
        filter=(EnabledPlugin(name="NodeResourcesFit"), EnabledPlugin(name="NodeName")),
        score=(ScorePlugin(name="NodeResourceLimitsAware", weight=7),),
    )
    policy = Policy(plugins=choice)
    estimator = Estimator(policy.load_aware)
    assert [plugin.name for plugin in build_filters(policy, estimator)] == [
        "NodeResourcesFit",
        "NodeName",
    ]
    assert [(plugin.name, weight) for plugin, weight in build_scores(policy, estimator)] == [
        ("NodeResourceLimitsAware", 7)
    ]


def test_a_new_plugin_is_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the plugin folder is registered, can be named by a policy, and decides."""
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
    reloaded = importlib.import_module(registry.__name__)
    assert tuple(reloaded.FILTERS) == (*BUILT_IN.filter, "Weekend")
    policy = read_policy("plugins: {filter: [Weekend, NodeName]}", reloaded.KNOWN)
    built = reloaded.build_filters(policy, Estimator(policy.load_aware))
    assert [plugin.name for plugin in built] == ["Weekend", "NodeName"]
    monkeypatch.delitem(sys.modules, "streams.placement.filters.weekend")
