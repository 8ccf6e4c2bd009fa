"""Refusal of pods with requirements that are not evaluated."""

from typing import Any

import pytest

from streams.placement.filters.unsupported import explain_unsupported, find_obstacle
from tests.streams.builders import at, bare_pod, container, pod

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


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"phase": "Unknown"}, None),
        ({"phase": "Running"}, None),
        ({"node": "node-2"}, "the pod is already bound to node-2"),
        ({"phase": "Succeeded"}, "the pod has finished"),
        ({"phase": "Failed"}, "the pod has finished"),
        ({"deleting_at_ms": at(0)}, "the pod is being deleted"),
        (
            {"unsupported": ("pod affinity",)},
            "the pod requires pod affinity, which loadstream does not evaluate",
        ),
    ],
)
def test_a_pod_that_fits_no_node_has_an_obstacle(fields: dict[str, Any], why: str | None) -> None:
    assert find_obstacle(pod(**fields)) == why
