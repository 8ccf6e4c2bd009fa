"""Who may be compared: policies and rules by name, policies of files."""

from pathlib import Path

import pytest

from connectors.closed_loop.contenders import (
    POLICIES,
    UnknownContender,
    contenders,
    known_contenders,
)
from connectors.closed_loop.ruled import Ruled
from connectors.closed_loop.streamed import Streamed
from connectors.known_plugins import known_plugins
from schemas.policy import read_policy
from streams.in_process.pipeline import Pipeline


def test_policies_and_rules_are_found_by_their_names() -> None:
    known = known_contenders()
    assert {"loadstream", "koordinator-45-75", "least-allocated", "random-choice"} <= set(known)
    made = {name: make() for name, make in contenders(known, [], Pipeline).items()}
    assert [each.name for each in made.values()] == list(known)
    assert isinstance(made["loadstream"], Streamed)
    assert isinstance(made["least-allocated"], Ruled)


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_built_in_policy_is_one_and_acts(path: Path) -> None:
    policy = read_policy(path.read_text(encoding="utf-8"), known_plugins())
    assert policy.mode == "enforce"
    assert policy.not_applied == ()


def test_a_contender_is_made_anew_for_each_run() -> None:
    make = contenders(["loadstream"], [], Pipeline)["loadstream"]
    assert make() is not make()


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(UnknownContender, match=r"'mine'; expected one or more of .*loadstream"):
        contenders(["mine"], [], Pipeline)


def test_two_contenders_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loadstream.yaml").write_text("mode: enforce\n")
    with pytest.raises(UnknownContender, match="loadstream twice"):
        contenders(["loadstream"], [tmp_path / "loadstream.yaml"], Pipeline)
