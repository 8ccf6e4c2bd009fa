"""Who may be compared: policies and rules by name, policies of files."""

from pathlib import Path

import pytest

from simulation.closed_loop.contenders import UnknownContender, list_contenders, make_contenders
from simulation.closed_loop.rule_contender import RuleContender
from simulation.closed_loop.stage_contender import StageContender
from streams.in_process.pipeline import LocalPipeline


def test_policies_and_rules_are_found_by_their_names() -> None:
    known = list_contenders()
    assert {"loadstream", "koordinator-lownodeload-75", "least-allocated", "random-choice"} <= set(
        known
    )
    made = {name: make() for name, make in make_contenders(known, [], LocalPipeline).items()}
    assert [each.name for each in made.values()] == list(known)
    assert isinstance(made["loadstream"], StageContender)
    assert isinstance(made["least-allocated"], RuleContender)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("riskMoves: {minSavedMinutes: 5}\n", "mode is observe"),
        ("mode: enforce\nrebalance: {dryRun: true}\n", "a dryRun is true"),
        ("mode: enforce\n", ""),
        ("plugins: {balance: []}\n", ""),
    ],
)
def test_a_policy_whose_evictions_are_dry_is_said_to_move_nothing(
    text: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    remark = make_contenders([], [file], LocalPipeline)["mine"].remark
    assert remark.startswith(f"mine: {why}, so its evictions are dry" if why else "")
    assert bool(remark) is bool(why)
    assert not any(
        each.remark for each in make_contenders(list_contenders(), [], LocalPipeline).values()
    )


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(UnknownContender, match=r"'mine'; expected one or more of .*loadstream"):
        make_contenders(["mine"], [], LocalPipeline)
