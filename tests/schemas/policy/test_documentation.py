"""The pages on policies say what each field means, and the examples beside them work."""

from pathlib import Path

import pytest

from schemas.messages.policies import DOCUMENT_BYTES_MAX
from schemas.policy import BUILT_IN, Policy, effective_yaml, read_policy
from schemas.policy.errors import PROBLEMS_MAX
from schemas.policy.parts import RESOURCES_MAX
from schemas.policy.reader import NODE_POOLS_MAX
from schemas.policy.yamltext import DEPTH_MAX, VALUES_MAX
from streams.placement.registry import FILTERS, SCORES

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "deploy" / "policies").glob("*.yaml"))


def test_every_field_on_the_page_says_what_it_means() -> None:
    page = (ROOT / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert [row for row in rows if not row.split("|")[-2].strip()] == []


def test_every_limit_is_on_the_page_about_files() -> None:
    page = (ROOT / "docs" / "reference" / "policy-format.md").read_text(encoding="utf-8")
    limits = [DEPTH_MAX, VALUES_MAX, RESOURCES_MAX, PROBLEMS_MAX, NODE_POOLS_MAX]
    texts = [f"{DOCUMENT_BYTES_MAX // 1024} KiB", *(f"{limit:,}" for limit in limits)]
    assert [text for text in texts if text not in page] == []


def test_the_plugins_that_a_policy_may_name_are_those_of_the_registry() -> None:
    assert tuple(FILTERS) == BUILT_IN.filter
    assert tuple(SCORES) == BUILT_IN.score


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_read_without_a_warning(path: Path) -> None:
    policy = read_policy(path.read_bytes())
    assert policy != Policy()
    assert read_policy(effective_yaml(policy)) == policy
    assert policy.warnings == ()


def test_the_page_says_what_an_empty_policy_moves_by() -> None:
    page = (ROOT / "docs" / "reference" / "policy-format.md").read_text(encoding="utf-8")
    said = " ".join(page.partition("An empty file is the default policy:")[2].split())
    assert ("placed and moved by risk" in said) == Policy().plugins.balances("OverutilizationRisk")


def test_there_are_examples_for_both_modes() -> None:
    assert {read_policy(path.read_bytes()).mode for path in EXAMPLES} == {"observe", "enforce"}
