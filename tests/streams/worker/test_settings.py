"""Settings of a worker that are held against each other."""

import pytest
from pydantic import ValidationError

from streams.worker.settings import WorkerSettings


@pytest.mark.parametrize(("session_s", "third_s"), [(6.0, 2.0), (6.3, 2.1), (9.6, 3.2), (78, 26)])
def test_a_heartbeat_of_a_third_of_the_session_is_allowed_and_none_above(
    session_s: float, third_s: float
) -> None:
    allowed = WorkerSettings(session_timeout_s=session_s, heartbeat_interval_s=third_s)
    assert allowed.heartbeat_interval_s == third_s
    with pytest.raises(ValidationError, match="expected at most a third"):
        WorkerSettings(session_timeout_s=session_s, heartbeat_interval_s=third_s + 0.001)


def test_settings_without_an_effect_are_named_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert WorkerSettings().find_ineffective() == {}
    for variable, value in (
        ("STAGES", "aggregate"),
        ("TICK_INTERVAL_S", "2"),
        ("CHECKPOINT_INTERVAL_S", "0"),
        ("COLLECT_FILE", "policy.yaml"),
        ("READY_LAG_RECORDS", "5"),
    ):
        monkeypatch.setenv(f"LOADSTREAM_WORKER_{variable}", value)
    assert WorkerSettings().find_ineffective() == {
        "LOADSTREAM_WORKER_TICK_INTERVAL_S": "LOADSTREAM_WORKER_STAGES is aggregate",
        "LOADSTREAM_WORKER_CHECKPOINT_INTERVAL_S": "LOADSTREAM_WORKER_STAGES is aggregate",
        "LOADSTREAM_WORKER_READY_LAG_RECORDS": "LOADSTREAM_WORKER_METRICS_PORT is 0",
    }
