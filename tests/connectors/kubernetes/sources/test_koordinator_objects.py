"""NodeMetric objects, as Koordinator's own types marshal them, as messages."""

from typing import Any

import pytest

from connectors.kubernetes.sources.koordinator import convert_node_metric
from schemas.topics.codec import decode, encode
from tests.connectors.kubernetes.sources.builders import document

GIB = 2**30


def _document(**status: Any) -> dict[str, Any]:
    metric: dict[str, Any] = document("koordinator_node_metric")
    metric["status"] |= status
    return metric


def test_koordinators_object_is_a_message() -> None:
    message = convert_node_metric("c", _document())
    assert (message.cluster, message.node, message.removed) == ("c", "node-1", False)
    assert message.updated_at_ms == 1_772_366_400_000
    assert message.report_interval_ms == 60_000
    assert message.usage == {"cpu": 1_200, "memory": 4 * GIB}
    assert message.system_usage == {"cpu": 200, "memory": GIB}
    (aggregated,) = message.aggregated
    assert aggregated.duration_ms == 300_000
    assert aggregated.usage == {
        "avg": {"cpu": 1_000, "memory": 4 * GIB},
        "p95": {"cpu": 1_500, "memory": 5 * GIB},
    }
    assert message.aggregated_system == message.aggregated
    (pod,) = message.pods
    assert (pod.namespace, pod.name, pod.priority_class) == ("shop", "web-0", "koord-prod")
    assert pod.usage == {"cpu": 900, "memory": 2 * GIB}
    (application,) = message.host_applications
    assert (application.name, application.priority_class) == ("nginx", "koord-batch")
    assert decode("node-metrics", encode(message)) == message


def test_an_object_without_a_report_gives_no_metric() -> None:
    message = convert_node_metric("c", {"metadata": {"name": "n"}, "status": {}})
    assert message.usage is None
    assert message.updated_at_ms is None
    assert message.report_interval_ms is None


@pytest.mark.parametrize("seconds", [0, -1, "60", 2**31])
def test_an_invalid_report_interval_is_unknown(seconds: object) -> None:
    metric = _document() | {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": seconds}}}
    assert convert_node_metric("c", metric).report_interval_ms is None


def test_a_quantity_may_be_a_number() -> None:
    metric = {"nodeUsage": {"resources": {"cpu": 2}}}
    assert convert_node_metric("c", _document(nodeMetric=metric)).usage == {"cpu": 2_000}


@pytest.mark.parametrize(
    "status",
    [
        {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "many"}}}},
        {"nodeMetric": {"aggregatedNodeUsages": [{"duration": "long", "usage": {}}]}},
        {"nodeMetric": []},
        {"podsMetric": [{"name": "a"}]},
        {"podsMetric": [{"name": "a", "namespace": "b", "podUsage": {"resources": {"cpu": "-1"}}}]},
    ],
)
def test_what_cannot_be_read_is_an_error(status: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        convert_node_metric("c", _document(**status))
