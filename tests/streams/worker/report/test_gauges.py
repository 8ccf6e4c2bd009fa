"""Gauges of a worker."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from streams.stage.statistics import ClusterFigures, Figures
from streams.worker.report.metrics import CLUSTERS_MAX, OTHERS
from streams.worker.report.observer import Gauges, Snapshot, limit_clusters


def _cluster(name: str, nodes: int = 10, stale: int = 1, age_ms: int | None = 0) -> ClusterFigures:
    return ClusterFigures(name, nodes, stale, 5, 2, 3, 4, age_ms)


def _shown(look: Snapshot, *, wall_clock: bool = True) -> CollectorRegistry:
    registry = CollectorRegistry()
    gauges = Gauges(wall_clock=wall_clock)
    registry.register(gauges)
    gauges.snapshot = look
    return registry


def test_every_metric_exists_before_the_first_observation() -> None:
    registry = _shown(Snapshot())
    assert registry.get_sample_value("loadstream_broker_up") == 0
    names = {metric.name for metric in registry.collect()}
    assert {"loadstream_input_lag_records", "loadstream_stale_nodes_ratio"} <= names
    assert sum(len(metric.samples) for metric in registry.collect()) == 1


def test_lag_staleness_and_time_have_base_units() -> None:
    figures = Figures(now_ms=7_000, nodes=10, clusters=(_cluster("c", 10, 4, 2_500),))
    registry = _shown(
        Snapshot(
            at_ms=10_000,
            lags={("cluster", "clock", 3): 8},
            figures={("cluster", 3): figures},
            written_bytes={("cluster", "journal"): 900},
            broker_up=True,
        )
    )
    value = registry.get_sample_value
    labels = {"stage": "cluster", "partition": "3"}
    assert value("loadstream_input_lag_records", {**labels, "topic": "clock"}) == 8
    assert value("loadstream_clock_lag_seconds", labels) == 3
    assert value("loadstream_stale_nodes_ratio", {"cluster": "c"}) == 0.4
    assert value("loadstream_newest_metric_age_seconds", {"cluster": "c"}) == 2.5
    assert value("loadstream_pending_requests", {"cluster": "c"}) == 2
    assert value("loadstream_hot_nodes", {"cluster": "c"}) == 3
    assert value("loadstream_migrations", {"cluster": "c"}) == 4
    written = {"stage": "cluster", "topic": "journal"}
    assert value("loadstream_written_bytes_total", written) == 900


def test_a_lost_partition_has_no_metrics() -> None:
    registry = CollectorRegistry()
    gauges = Gauges()
    registry.register(gauges)
    labels = {"stage": "cluster", "topic": "clock", "partition": "0"}
    gauges.snapshot = Snapshot(lags={("cluster", "clock", 0): 1})
    assert registry.get_sample_value("loadstream_input_lag_records", labels) == 1
    gauges.snapshot = Snapshot()
    assert registry.get_sample_value("loadstream_input_lag_records", labels) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 99)), max_size=250))
def test_labels_are_bounded_and_no_node_is_forgotten(
    reported: list[tuple[int, int | None]],
) -> None:
    clusters = [_cluster(f"c{i}", nodes, nodes, age) for i, (nodes, age) in enumerate(reported)]
    shown = limit_clusters(clusters)
    assert len(shown) <= CLUSTERS_MAX + 1
    assert sum(item.nodes for item in shown) == sum(item.nodes for item in clusters)
    assert sum(item.pending_requests for item in shown) == 2 * len(clusters)
    assert (len(clusters) > CLUSTERS_MAX) == (OTHERS in {item.cluster for item in shown})
    ages = [item.newest_metric_age_ms for item in clusters if item.newest_metric_age_ms is not None]
    kept = [item.newest_metric_age_ms for item in shown if item.newest_metric_age_ms is not None]
    assert max(ages, default=None) == max(kept, default=None)
    assert limit_clusters(reversed(clusters)) == shown


def test_clusters_set_apart_are_counted_by_partition() -> None:
    registry = _shown(Snapshot(figures={("cluster", 2): Figures(1, 0, (), set_apart=3)}))
    labels = {"stage": "cluster", "partition": "2"}
    assert registry.get_sample_value("loadstream_clusters_set_apart", labels) == 3
