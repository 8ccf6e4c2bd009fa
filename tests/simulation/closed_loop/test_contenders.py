"""Contenders: policies and rules by name, and policies of files."""

from pathlib import Path

import pytest

from simulation.closed_loop.contenders import UnknownContender, list_contenders, make_contenders
from simulation.closed_loop.rule_contender import RuleContender
from simulation.closed_loop.stage_contender import StageContender
from streams.in_process.pipeline import LocalPipeline


def test_policies_and_rules_are_found_by_their_names() -> None:
    available = list_contenders()
    assert {"loadstream", "koordinator-lownodeload-75", "least-allocated", "random-choice"} <= set(
        available
    )
    built = {name: make() for name, make in make_contenders(available, [], LocalPipeline).items()}
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
def test_a_policy_with_dry_evictions_has_a_remark(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    remark = make_contenders([], [file], LocalPipeline)["mine"].remark
    assert remark.startswith(f"mine: {why}, so its evictions are dry" if why else "")
    assert bool(remark) is bool(why)
    assert not any(
        one.remark for one in make_contenders(list_contenders(), [], LocalPipeline).values()
    )


def test_an_unknown_name_is_an_error_that_lists_the_known_names() -> None:
    with pytest.raises(UnknownContender, match=r"'mine'; expected one or more of .*loadstream"):
        make_contenders(["mine"], [], LocalPipeline)
