"""Each situation from the field has its right outcome."""

import pytest

from tests.cases.case import Case
from tests.cases.load import CASES


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case.number,
            marks=[pytest.mark.xfail(strict=True, reason=case.defect)] if case.defect else [],
        )
        for case in CASES
    ],
)
def test_a_situation_from_the_field_has_its_right_outcome(case: Case) -> None:
    assert case.run() == case.right, case.input
