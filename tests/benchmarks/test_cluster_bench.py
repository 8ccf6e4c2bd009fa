"""Small runs of the benchmarks on a cluster."""

from pathlib import Path

import pytest

from benchmarks import binding, pod_latency, watch_and_collect
from tests.conftest import skipped_where_unavailable


@pytest.mark.broker
def test_a_small_cluster_is_listed_and_measured() -> None:
    with skipped_where_unavailable():
        listed = watch_and_collect.measure_listing(20, 3)
        # All nodes must be measured in this time, even if a process pauses for some seconds.
        measured = watch_and_collect.measure_collecting(20, 3, "1s", 15, with_others=False)
    assert listed["pods"] == 60
    assert listed["watch_rss_mib"] > 1
    assert set(measured["cpu_cores"]) == {"collect", "kafka", "played_cluster", "bench"}
    assert measured["nodes_per_s"] > 0


@pytest.mark.broker
@pytest.mark.control_plane
def test_pods_are_bound_by_the_binder_and_by_the_bare_client(control_plane_binary: Path) -> None:
    assert control_plane_binary.exists()
    with skipped_where_unavailable():
        measured = binding.run(20, 1)
    assert (measured["rounds"], measured["bindings_per_round"]) == (1, 20)
    assert set(measured["binder_cpu_us_per_binding"]) == {
        "bind", "kafka", "api_server", "etcd", "bench",
    }  # fmt: skip
    assert measured["share_of_bare_client"] > 0


@pytest.mark.broker
@pytest.mark.control_plane
def test_created_pods_are_seen_bound(control_plane_binary: Path) -> None:
    assert control_plane_binary.exists()
    with skipped_where_unavailable():
        measured = pod_latency.run(10, 10, 2)
    assert 0 < measured["p50_ms"] <= measured["p99_ms"] <= measured["p100_ms"]
    assert measured["scheduling_requests_p50_ms"] <= measured["placement_decisions_p50_ms"]
    assert set(measured["cpu_cores"]) >= {"watch", "worker", "bind", "kafka", "api_server"}
