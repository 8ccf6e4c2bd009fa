"""Log lines of a worker's start."""

import logging
from pathlib import Path

import pytest

from schemas.settings.connection import KafkaSettings
from streams.app import build
from streams.worker.settings import WorkerSettings


def test_settings_without_an_effect_are_logged(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO, "streams.app")
    settings = WorkerSettings(
        data_dir=tmp_path,
        stages="cluster",
        collect_file=Path("policy.yaml"),
        clock="external",
        clock_hold_s=5,
    )
    build(settings, KafkaSettings.local("127.0.0.1:9092"))
    assert caplog.messages[1:] == [
        "LOADSTREAM_WORKER_COLLECT_FILE has no effect: LOADSTREAM_WORKER_STAGES is cluster",
        "LOADSTREAM_WORKER_CLOCK_HOLD_S has no effect: LOADSTREAM_WORKER_CLOCK is external",
    ]
