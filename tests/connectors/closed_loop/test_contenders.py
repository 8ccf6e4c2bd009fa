"""Who may be compared: policies and rules by name, policies of files."""

from pathlib import Path

import pytest

from connectors.closed_loop.contenders import UnknownContender, contenders, known_contenders
from connectors.closed_loop.ruled import Ruled
from connectors.closed_loop.streamed import Streamed
from streams.in_process.pipeline import Pipeline


def test_policies_and_rules_are_found_by_their_names() -> None:
    known = known_contenders()
    assert {"loadstream", "koordinator-lownodeload-75", "least-allocated", "random-choice"} <= set(
        known
    )
    made = {name: make() for name, make in contenders(known, [], Pipeline).items()}
    assert [each.name for each in made.values()] == list(known)
    assert isinstance(made["loadstream"], Streamed)
    assert isinstance(made["least-allocated"], Ruled)


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
