from typing import Any

import pytest

from streams.placement.filters.unsupported import find_obstacle
from tests.streams.builders import at, pod


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"phase": "Unknown"}, None),
        ({"phase": "Running"}, None),
        ({"node": "node-2"}, "the pod is already bound to node-2"),
        ({"phase": "Succeeded"}, "the pod has finished"),
        ({"phase": "Failed"}, "the pod has finished"),
        ({"deleting_at_ms": at(0)}, "the pod is being deleted"),
        (
            {"unsupported": ("topology spread", "pod affinity")},
            "the pod requires pod affinity and topology spread, which loadstream does not evaluate",
        ),
    ],
)
def test_a_pod_for_which_no_node_would_do_is_told_so(
    fields: dict[str, Any], why: str | None
) -> None:
    assert find_obstacle(pod(**fields)) == why
