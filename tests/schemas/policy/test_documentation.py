"""The page on policies names every field, and the examples beside it work."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from schemas.policy import BUILT_IN, Policy, effective_yaml, read_policy
from streams.placement.registry import FILTERS, SCORES

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "deploy" / "policies").glob("*.yaml"))


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models inside an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models(argument)


def fields(model: type[BaseModel]) -> Iterator[str]:
    """Names of the fields of a model and of all models inside it."""
    for name, field in model.model_fields.items():
        yield field.alias or name
        for inner in models(field.annotation):
            yield from fields(inner)


def test_every_field_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
    assert sorted({name for name in fields(Policy) if name not in page}) == []


def test_the_plugins_that_a_policy_may_name_are_those_of_the_registry() -> None:
    assert tuple(FILTERS) == BUILT_IN.filter
    assert tuple(SCORES) == BUILT_IN.score


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_read_without_a_warning(path: Path) -> None:
    policy = read_policy(path.read_bytes())
    assert policy != Policy()
    assert read_policy(effective_yaml(policy)) == policy
    assert policy.warnings == ()
