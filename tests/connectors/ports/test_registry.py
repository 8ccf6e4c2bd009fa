"""The registry of what implements the ports."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from connectors.ports.registry import sinks, state_watches, usage_sources
from connectors.simulated import sink
from connectors.simulated.sink import SimulatedSink

_TESTS = Path(__file__).parents[2]


def test_what_is_there_is_found_by_its_name() -> None:
    assert list(sinks()) == ["kubernetes", "simulated"]
    assert list(state_watches()) == ["kubernetes", "simulated"]
    assert list(usage_sources()) == [
        "agent", "koordinator", "kubelet_resource", "kubelet_summary", "metrics_api", "prometheus",
        "simulated", "this-machine",
    ]  # fmt: skip
    assert sinks()["simulated"] is SimulatedSink


@pytest.mark.parametrize(
    ("found", "contract"),
    [
        (sinks, "SinkContract"),
        (state_watches, "StateWatchContract"),
        (usage_sources, "UsageSourceContract"),
    ],
)
def test_every_implementation_is_documented_and_its_test_module_has_the_contract(
    found: Callable[[], dict[str, type[Any]]], contract: str
) -> None:
    for each in found().values():
        assert each.__doc__
        folders, module = each.__module__.rsplit(".", 1)
        test = _TESTS.joinpath(*folders.split("."), f"test_{module}.py")
        assert f"({contract})" in test.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("known_as", "complaint"),
    [
        ("simulated", "found name 'simulated'; connectors.simulated.sink has it, too"),
        ("", "found name ''; expected one that no other Sink has"),
    ],
)
def test_a_name_that_is_taken_or_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, known_as: str, complaint: str
) -> None:
    class Another(SimulatedSink):
        """Another one."""

        name: ClassVar[str] = known_as

    Another.__module__ = sink.__name__
    monkeypatch.setattr(sink, "ZAnother", Another, raising=False)
    with pytest.raises(ValueError, match=complaint):
        sinks()
