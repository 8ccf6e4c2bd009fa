"""Metrics and health of a process with duties."""

import pytest

from connectors.kubernetes.duties.telemetry import BLOCKED_S, DutyTelemetry
from connectors.kubernetes.sources.health import SourceFailed, SourceHealth
from connectors.kubernetes.watch.state_watch import CollectionHealth

_PODS = CollectionHealth("/api/v1/pods", 7, 1, 90.0, "refused", 2)


def _value(telemetry: DutyTelemetry, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(name, {"cluster": "c", **labels})


def _source() -> SourceHealth:
    health = SourceHealth("kubelet_resource", lambda: 5_000)
    health.record_success("n1")
    health.record_clock_skew("n1", -6_000)
    health.record_failure(SourceFailed("timeout", "no answer"), "n2")
    health.record_failure(SourceFailed("forbidden", "no rights"))
    health.set_note("config", "it cannot be read")
    health.counts["samples"] = 4
    health.behind_s = 0.5
    return health


def _telemetry() -> DutyTelemetry:
    """Return the telemetry of an active process of both duties that watch a cluster."""
    telemetry = DutyTelemetry("c")
    for duty in ("watch", "collect"):
        telemetry.add_duty(duty)
        telemetry.set_active(duty, active=True)
    telemetry.set_watch(lambda: [_PODS])
    health = _source()
    telemetry.set_sources(lambda: [health.report()])
    telemetry.take_snapshot(3)
    return telemetry


def test_the_leader_exports_its_collections_and_sources() -> None:
    telemetry = _telemetry()
    pods = {"collection": "/api/v1/pods"}
    assert _value(telemetry, "loadstream_watch_objects", **pods) == 7
    assert _value(telemetry, "loadstream_watch_objects_left_out", **pods) == 2
    assert _value(telemetry, "loadstream_watch_failing_seconds", **pods) == 90
    source = {"source": "kubelet_resource"}
    assert _value(telemetry, "loadstream_source_failing_nodes", **source) == 1
    assert _value(telemetry, "loadstream_source_failures_total", cause="timeout", **source) == 1
    success = "loadstream_source_last_success_timestamp_seconds"
    assert _value(telemetry, success, node="n1", **source) == 5
    assert _value(telemetry, success, node="n2", **source) is None
    skew = _value(telemetry, "loadstream_source_clock_skew_seconds", node="n1", **source)
    assert skew == -6
    assert _value(telemetry, "loadstream_source_notes", **source) == 1
    assert _value(telemetry, "loadstream_source_behind_seconds", **source) == 0.5
    assert _value(telemetry, "loadstream_source_events_total", event="samples", **source) == 4
    unreadable = "loadstream_source_unreadable"
    assert _value(telemetry, unreadable, cause="forbidden", **source) == 1


@pytest.mark.parametrize(
    ("duty", "series"),
    [
        ("watch", ("loadstream_watch_failing_seconds", {"collection": "/api/v1/pods"})),
        ("collect", ("loadstream_source_failing_nodes", {"source": "kubelet_resource"})),
    ],
)
def test_a_standby_exports_nothing_of_its_last_term(
    duty: str, series: tuple[str, dict[str, str]]
) -> None:
    """Otherwise it would report the failures of its last term forever."""
    telemetry = _telemetry()
    telemetry.set_active(duty, active=False)
    telemetry.take_snapshot(3)
    name, labels = series
    assert _value(telemetry, name, **labels) is None
    assert _value(telemetry, "loadstream_duty_active", duty=duty) == 0


def test_a_blocked_event_loop_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = DutyTelemetry("c")
    telemetry.take_snapshot(0)
    assert telemetry.problems() == []
    monkeypatch.setattr(telemetry, "_beat_s", telemetry._beat_s - BLOCKED_S - 1)
    (problem,) = telemetry.problems()
    seconds, _, _ = problem.removeprefix("the event loop has been blocked for ").partition(" ")
    assert int(seconds) > BLOCKED_S
