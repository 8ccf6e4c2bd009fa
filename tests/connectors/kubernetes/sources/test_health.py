"""Health of a source."""

import logging

import pytest

from connectors.kubernetes.sources.health import LOG_EVERY_MS, SourceFailed, SourceHealth


def _health() -> SourceHealth:
    times = iter(range(1_000, 100_000, 1_000))
    return SourceHealth("kubelets", lambda: next(times))


def test_the_last_success_and_the_failures_of_each_node_are_known() -> None:
    health = _health()
    health.record_success("n1")
    health.record_failure(SourceFailed("timeout", "no answer"), "n2")
    health.record_failure(SourceFailed("timeout", "no answer"), "n1")
    n1, n2 = health.report().nodes
    assert (n1.node, n1.succeeded_at_ms) == ("n1", 1_000)
    assert n1.failure is not None
    assert (n1.failure.cause, n1.failure.at_ms) == ("timeout", 3_000)
    assert n2.succeeded_at_ms is None
    assert health.report().failures == {"timeout": 2}
    assert health.is_failing("n1")
    health.record_success("n1")
    assert not health.is_failing("n1")


def test_a_failed_source_logs_once_and_recovers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = _health()
    with caplog.at_level(logging.INFO):
        health.record_failure(ConnectionRefusedError("refused"))
        health.record_failure(ConnectionRefusedError("refused"))
        assert health.report().failure is not None
        health.record_success()
    assert health.report().failure is None
    assert len(caplog.records) == 2


def test_failures_of_nodes_are_logged_with_an_example(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ms = [0]
    health = SourceHealth("kubelets", lambda: now_ms[0])
    health.record_success("n3")
    for _ in range(3):
        for node in ("n1", "n2"):
            health.record_failure(SourceFailed("certificate", "name its CA with caFile"), node)
    health.record_failure(SourceFailed("timeout", "no answer"), "n2")
    assert [record.getMessage() for record in caplog.records] == [
        "kubelets: 1 of 2 nodes cannot be read, the newest n1: name its CA with caFile; trying again",
        "kubelets: 2 of 3 nodes cannot be read, the newest n2: no answer; trying again",
    ]
    assert health.report().failure is None
    health.record_failure(SourceFailed("timeout", "no answer"), "n3")
    failure = health.report().failure
    assert failure is not None
    assert failure.cause == "timeout"
    health.keep_only(("n1", "n3"))
    health.record_success("n1")
    assert health.report().failure is None
    health.record_failure(SourceFailed("certificate", "name its CA with caFile"), "n1")
    assert len(caplog.records) == 2, "it was said less than a minute ago"
    now_ms[0] += LOG_EVERY_MS
    health.record_failure(SourceFailed("certificate", "name its CA with caFile"), "n1")
    assert len(caplog.records) == 3
    health.keep_only(())
    assert health.report().failure is None


def test_notes_and_nodes_are_kept_until_removed() -> None:
    health = _health()
    health.set_note("config", "it is odd")
    health.record_success("n1")
    assert health.report().notes == ("it is odd",)
    health.set_note("config", None)
    health.keep_only(["n2"])
    assert (health.report().notes, health.report().nodes) == ((), ())
