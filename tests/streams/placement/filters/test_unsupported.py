"""Refusal of pods with requirements that are not evaluated."""

import pytest

from streams.placement.filters.unsupported import refusal
from tests.streams.placement.builders import bare_pod


@pytest.mark.parametrize(
    ("unsupported", "sentence"),
    [
        ((), None),
        (("pod affinity",), "the pod requires pod affinity, which loadstream does not evaluate"),
        (
            ("topology spread", "pod affinity", "topology spread"),
            "the pod requires pod affinity and topology spread, which loadstream does not evaluate",
        ),
        (("c", "b", "a"), "the pod requires a, b and c, which loadstream does not evaluate"),
    ],
)
def test_a_refusal_names_each_requirement_once(
    unsupported: tuple[str, ...], sentence: str | None
) -> None:
    assert refusal(bare_pod(unsupported=unsupported)) == sentence
