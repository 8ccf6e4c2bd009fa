"""The example of a filter plugin is found and refuses a node."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest

from examples import filter_plugin
from examples.filter_plugin import UnderMaintenance
from schemas.policy import read_policy
from streams import placement
from streams.placement import filters, registry
from streams.usage.estimate import Estimator
from tests.streams.builders import bare_node, bare_pod, inventory_node
from tests.streams.cluster.oracle import reason


def test_the_filter_refuses_a_node_under_maintenance() -> None:
    refused = "node(s) were under maintenance"
    for labels, expected in (({"maintenance": "true"}, refused), ({"maintenance": "false"}, None)):
        node = inventory_node(bare_node("a", labels=labels))
        assert reason(UnderMaintenance(), bare_pod(), node) == expected


def test_a_policy_can_use_the_filter_from_the_folder_of_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(Path(filter_plugin.__file__), tmp_path)
    monkeypatch.setattr(filters, "__path__", [*filters.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, registry.__name__)
    monkeypatch.setattr(placement, "registry", registry)  # put back after the import replaced it
    plugins = importlib.import_module(registry.__name__)
    policy = read_policy("plugins: {filter: [UnderMaintenance]}", plugins.KNOWN)
    (built,) = plugins.build_filters(policy, Estimator(policy.load_aware))
    assert built.name == "UnderMaintenance"
    monkeypatch.delitem(sys.modules, f"{filters.__name__}.filter_plugin")
