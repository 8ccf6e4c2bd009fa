import copy
from pathlib import Path
from typing import Any

import pytest

from tests.golden.cases import scenarios
from tests.golden.comparison import agree
from tests.golden.loadaware import answer, differences

_GOLDEN = Path(__file__).parent
_CASES = {
    case["scenario"]["name"]: case
    for path in sorted(_GOLDEN.rglob("loadaware.jsonl.gz"))
    for case in scenarios(path)
}


def test_there_are_golden_cases() -> None:
    assert len(_CASES) == 401


@pytest.mark.parametrize("name", _CASES)
def test_a_scenario_comes_to_what_koordinator_made_of_it(name: str) -> None:
    case = _CASES[name]
    found = answer(case["scenario"])
    assert agree(case["expected"], found), "\n".join(differences(case["expected"], found))


_ROUND = {"default/p": {"node-1": {"filter": "ok", "score": 50}}}


@pytest.mark.parametrize(
    ("field", "value"), [("filter", "node(s) nodeMetric expired"), ("score", 51)]
)
def test_a_difference_names_its_place_and_both_values(field: str, value: Any) -> None:
    other = copy.deepcopy(_ROUND)
    other["default/p"]["node-1"][field] = value
    lines = list(differences({"rounds": [_ROUND]}, {"rounds": [other]}))
    assert lines == [
        "round 0, pod default/p, node node-1: "
        f"expected {_ROUND['default/p']['node-1']}, found {other['default/p']['node-1']}"
    ]


def test_an_error_that_only_one_side_has_is_shown() -> None:
    lines = list(differences({"error": "bad args"}, {"rounds": [_ROUND]}))
    assert lines == ["expected an error (bad args), found an answer"]
