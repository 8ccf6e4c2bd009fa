"""The same cluster without evictions."""

import numpy as np

from connectors.simulated.baseline import Arrival
from connectors.simulated.baseline_no_eviction import usage_without_evictions
from connectors.simulated.machines import Machine
from connectors.simulated.readings import Readings
from tests.connectors.simulated.test_kubelet import GIB, NOW_MS, pod

MINUTE_MS = 60_000


def _readings(machines: int, millicores: list[int]) -> Readings:
    minutes = 60
    at_ms = np.repeat(NOW_MS + np.arange(minutes, dtype=np.int64) * MINUTE_MS, machines)
    which = np.tile(np.arange(machines, dtype=np.int64), minutes)
    cpu = np.tile(np.array(millicores, dtype=np.int64), minutes)
    return Readings(at_ms, which, cpu, np.full(len(at_ms), GIB, dtype=np.int64))


def test_without_evictions_pods_stay_where_they_were_placed() -> None:
    machines = [Machine("n1", 16_000, 64 * GIB), Machine("n2", 16_000, 64 * GIB)]
    placed = [Arrival(NOW_MS, pod("a"), "n1")]
    usages = list(
        usage_without_evictions(machines, placed, _readings(2, [1000, 1000]), NOW_MS + 10**7, 0.7)
    )
    assert usages[-2][2]["cpu"] > 2000
    assert usages[-1][2]["cpu"] == 1000


def test_without_evictions_no_pod_goes_to_a_node_that_is_hot_then() -> None:
    machines = [Machine("n1", 16_000, 64 * GIB), Machine("n2", 16_000, 64 * GIB)]
    placed = [Arrival(NOW_MS + MINUTE_MS, pod("a"), "n1")]
    usages = list(
        usage_without_evictions(machines, placed, _readings(2, [13_000, 1000]), NOW_MS + 10**7, 0.7)
    )
    assert usages[-2][2]["cpu"] == 13_000
    assert usages[-1][2]["cpu"] > 2000
