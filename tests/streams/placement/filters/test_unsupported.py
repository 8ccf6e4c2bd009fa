"""Refusal of pods with requirements that are not evaluated."""

from typing import Any

import pytest

from streams.placement.filters.unsupported import explain_unsupported
from tests.streams.builders import bare_pod, container, pod

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"


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
    assert explain_unsupported(bare_pod(unsupported=unsupported)) == sentence


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {"koordinator.sh/qosClass": "LS"}},
        {"labels": {"koordinator.sh/qosClass": "BE"}},
        {"annotations": {RESOURCE_SPEC: '{"preferredCPUBindPolicy": "Default"}'}},
        {"annotations": {RESOURCE_SPEC: "no json"}},
        {"containers": (container({"kubernetes.io/batch-cpu": "500"}),)},
    ],
)
def test_other_pods_of_a_cluster_with_koordinator_are_placed(fields: dict[str, Any]) -> None:
    assert explain_unsupported(pod(**fields)) is None
