"""The effect of each rule of loadstream on Koordinator's golden cases, with Koordinator's other rules.

`own_rules.json` lists, for each rule, the cases whose result differs with the rule. All other checked cases
must have the result of upstream. `python -m tests.golden.test_own_rules` writes the file again; the rule
must explain each new case.
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
    """Return the names of the cases whose result differs; for a single rule only of every third case."""
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
    except KeyError:  # Koordinator's other rules expect thresholds that ours do not fill in
        return False


@pytest.mark.parametrize("rule", _RULES)
def test_a_rule_of_loadstream_changes_only_the_listed_cases(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _changed(monkeypatch, rule) == json.loads(_LISTED.read_text())[rule]


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        changed_cases = {rule: _changed(patch, rule) for rule in _RULES}
    _LISTED.write_text(json.dumps(changed_cases, indent=1).replace(",\n  ", ", ") + "\n")
