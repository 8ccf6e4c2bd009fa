"""The pages on policies describe each field, and the examples on them work."""

from pathlib import Path

import pytest

from schemas.policy import BUILT_IN, Policy, effective_yaml, read_policy
from streams.placement.registry import FILTERS, SCORES

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "deploy" / "policies").glob("*.yaml"))


def test_every_field_of_the_reference_has_a_description() -> None:
    page = (ROOT / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert [row for row in rows if not row.split("|")[-2].strip()] == []


def test_the_plugins_of_a_policy_are_those_of_the_registry() -> None:
    assert tuple(FILTERS) == BUILT_IN.filter
    assert tuple(SCORES) == BUILT_IN.score


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_read_without_a_warning(path: Path) -> None:
    policy = read_policy(path.read_bytes())
    assert policy != Policy()
    assert read_policy(effective_yaml(policy)) == policy
    assert policy.warnings == ()
