"""Every golden scenario has the result of Koordinator."""

from pathlib import Path
from typing import Any

import pytest

from tests.golden.cases import FAMILIES, Family, scenarios
from tests.golden.comparison import agree

_SCENARIOS = 401 + 310
_CASES = [
    pytest.param(family, case, id=f"{family.name}-{case['scenario']['name']}")
    for family in FAMILIES
    for case in scenarios(Path(__file__).with_name(f"{family.name}.jsonl.gz"))
]


def test_there_are_golden_cases() -> None:
    assert len(_CASES) == _SCENARIOS


@pytest.mark.parametrize(("family", "case"), _CASES)
def test_a_scenario_has_the_result_of_koordinator(family: Family, case: Any) -> None:
    answer = family.answer(case["scenario"])
    assert agree(case["expected"], answer), "\n".join(family.differences(case["expected"], answer))
