"""The same cluster without evictions."""

from simulation.cluster.baseline import Arrival
from simulation.cluster.baseline_no_eviction import usage_without_evictions
from tests.connectors.ports.sink_contract import NOW_MS
from tests.simulation.cluster.builders import MINUTE_MS, machines, pod, readings


def test_without_evictions_pods_stay_where_they_were_placed() -> None:
    two = machines(2)
    placed = [Arrival(NOW_MS, pod("a"), "n1")]
    usages = list(
        usage_without_evictions(two, placed, readings(60, 1000, 1000), NOW_MS + 10**7, 0.7)
    )
    assert usages[-2][2]["cpu"] > 2000
    assert usages[-1][2]["cpu"] == 1000


def test_without_evictions_no_pod_goes_to_a_node_that_is_hot_then() -> None:
    two = machines(2)
    placed = [Arrival(NOW_MS + MINUTE_MS, pod("a"), "n1")]
    usages = list(
        usage_without_evictions(two, placed, readings(60, 13_000, 1000), NOW_MS + 10**7, 0.7)
    )
    assert usages[-2][2]["cpu"] == 13_000
    assert usages[-1][2]["cpu"] > 2000
