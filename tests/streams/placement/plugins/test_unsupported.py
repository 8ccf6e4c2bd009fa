"""Refusal of pods with requirements that are not evaluated."""

import pytest

from schemas.pods import Pod
from streams.placement.plugins.unsupported import refusal


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
    pod = Pod(namespace="default", name="p", uid="p", unsupported=unsupported)
    assert refusal(pod) == sentence
