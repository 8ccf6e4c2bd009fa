import copy
from pathlib import Path

import pytest

from tests.golden.cases import scenarios
from tests.golden.comparison import agree
from tests.golden.lownodeload import answer, differences

_GOLDEN = Path(__file__).parent
_CASES = {
    case["scenario"]["name"]: case
    for path in sorted(_GOLDEN.rglob("lownodeload.jsonl.gz"))
    for case in scenarios(path)
}


def test_there_are_golden_cases() -> None:
    assert len(_CASES) == 310


@pytest.mark.parametrize("name", _CASES)
def test_a_scenario_comes_to_what_koordinator_made_of_it(name: str) -> None:
    case = _CASES[name]
    found = answer(case["scenario"])
    assert agree(case["expected"], found), "\n".join(differences(case["expected"], found))


_ROUND = {
    "pools": [{"name": "p", "nodes": {"n": "high"}}],
    "evicted": [{"pod": "default/a", "node": "n", "reason": "why"}],
}


def test_a_difference_names_its_round_and_part() -> None:
    other = copy.deepcopy(_ROUND)
    other["evicted"] = []
    lines = list(differences({"rounds": [_ROUND]}, {"rounds": [other]}))
    assert lines == [f"round 0, evicted: expected {_ROUND['evicted']}, found []"]


def test_an_error_that_only_one_side_has_is_shown() -> None:
    lines = list(differences({"error": "bad args"}, {"rounds": [_ROUND]}))
    assert lines == ["expected an error (bad args), found an answer"]
