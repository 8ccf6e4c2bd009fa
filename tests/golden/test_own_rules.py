"""What each of our own rules changes in Koordinator's golden cases, the others being Koordinator's.

`own_rules.json` lists, for each rule, the cases that come out differently with it. All other cases
that are looked at must come out as they do upstream. `python -m tests.golden.test_own_rules` writes the file anew;
each case that is new in it has to be explained by the rule.
"""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from streams.rebalance import differences
from streams.rebalance.differences import KOORDINATOR, LOADSTREAM, Differences
from streams.rebalance.thresholds import counters, rounds
from tests.golden.cases import scenarios
from tests.golden.comparison import Json, agree
from tests.golden.lownodeload import answer

_HERE = Path(__file__).parent
_LISTED = _HERE / "own_rules.json"
_RULES = {
    **{field.name: replace(KOORDINATOR, **{field.name: True}) for field in fields(Differences)},
    "all": LOADSTREAM,
}


def _changed(monkeypatch: pytest.MonkeyPatch, rule: str) -> list[str]:
    """Names of the cases that do not come out as upstream: every third one where a rule is alone."""
    for module in (counters, rounds):
        monkeypatch.setattr(module, differences.get_differences.__name__, lambda _: _RULES[rule])
    cases = list(scenarios(_HERE / "lownodeload.jsonl.gz"))
    return [
        case["scenario"]["name"]
        for case in (cases if rule == "all" else cases[::3])
        if not _agrees(case)
    ]


def _agrees(case: Json) -> bool:
    try:
        return agree(case["expected"], answer(case["scenario"]))
    except AssertionError:  # Koordinator's other rules expect thresholds that ours do not fill in
        return False


@pytest.mark.parametrize("rule", _RULES)
def test_a_rule_of_ours_changes_only_the_cases_that_are_listed(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _changed(monkeypatch, rule) == json.loads(_LISTED.read_text())[rule]


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        changed_cases = {rule: _changed(patch, rule) for rule in _RULES}
    _LISTED.write_text(json.dumps(changed_cases, indent=1).replace(",\n  ", ", ") + "\n")
