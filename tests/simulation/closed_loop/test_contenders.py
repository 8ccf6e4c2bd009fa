"""Contenders: policies and rules by name, and policies of files."""

from pathlib import Path

import pytest

from simulation.closed_loop.contenders import InvalidContender, list_contenders, make_factories
from simulation.closed_loop.rule_contender import RuleContender
from simulation.closed_loop.stage_contender import StageContender


def test_policies_and_rules_are_found_by_their_names() -> None:
    available = list_contenders()
    assert {"loadstream", "koordinator-lownodeload-75", "least-allocated", "random-choice"} <= set(
        available
    )
    built = {name: factory.make() for name, factory in make_factories(available, []).items()}
    assert [one.name for one in built.values()] == list(available)
    assert isinstance(built["loadstream"], StageContender)
    assert isinstance(built["least-allocated"], RuleContender)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("riskMoves: {minSavedMinutes: 5}\n", "mode is observe"),
        ("mode: enforce\nrebalance: {dryRun: true}\n", "a dryRun is true"),
        ("mode: enforce\n", ""),
        ("plugins: {balance: []}\n", ""),
    ],
)
def test_a_policy_with_dry_evictions_has_a_warning(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    warning = make_factories([], [file])["mine"].warning
    assert warning.startswith(f"mine: {why}, so its evictions are dry" if why else "")
    assert bool(warning) is bool(why)
    assert not any(one.warning for one in make_factories(list_contenders(), []).values())


def test_an_unknown_name_is_an_error_that_lists_the_known_names() -> None:
    with pytest.raises(InvalidContender, match=r"'mine'; expected one or more of .*loadstream"):
        make_factories(["mine"], [])
